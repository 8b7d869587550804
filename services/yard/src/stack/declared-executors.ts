import { parse } from 'yaml';

const KIND = /^[a-z][a-z0-9-]{0,39}$/;

/** The executor kinds that a configuration declares beside the built-in ones; the services judge the rest of the file. */
export function declaredExecutors(yaml: string): string[] {
  const { executors } = (parse(yaml) ?? {}) as { executors?: unknown };
  return Array.isArray(executors) ? executors.filter((kind) => typeof kind === 'string' && KIND.test(kind)) : [];
}
