import { parse } from 'yaml';

const KIND = /^[a-z][a-z0-9-]{0,39}$/;

/** The executor kinds that a configuration declares beside the built-in ones; the services judge the rest of the file. */
export function declaredExecutors(yaml: string): string[] {
  const { executors, mcp_servers: servers } = (parse(yaml) ?? {}) as { executors?: unknown; mcp_servers?: object };
  const kinds = Array.isArray(executors) ? executors.filter((kind) => typeof kind === 'string' && KIND.test(kind)) : [];
  // The registry runs the calls of MCP servers, over a queue of their own.
  return Object.keys(servers ?? {}).length > 0 ? [...kinds, 'mcp'] : kinds;
}
