import type { McpServer } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { ago, type Column } from '../cli/table.js';
import { EXIT } from '../exit-codes.js';
import { collect, wantedItems } from './list-pages.js';

const COLUMNS: readonly Column<McpServer>[] = [
  { name: 'id', of: (server) => server.id },
  { name: 'state', of: (server) => server.state },
  { name: 'tools', of: (server) => server.tools.length },
  { name: 'left out', of: (server) => server.quarantined.length },
  { name: 'owner', of: (server) => (server.shared ? 'everyone' : 'tenant') },
  { name: 'credential', of: (server) => server.credential, wide: true },
  { name: 'listed', of: (server) => ago(server.listed_at), wide: true },
  { name: 'problem', of: (server) => server.problem?.message ?? '', max: 60 },
];

/** `yard mcp list` */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const page = await collect<McpServer>(wantedItems(invocation), (query) => session.api.mcpServers.page(query));
  await invocation.output.page(page, COLUMNS, 'no MCP servers; add one: yard mcp add ID URL');
  if (page.next_cursor !== null && !invocation.output.structured)
    invocation.output.note(`${page.items.length} shown; more: --limit N or --all`);
}

/** `yard mcp get ID` */
export async function get(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const server = await session.api.mcpServers.get(invocation.args[0]!);
  await invocation.output.object(server, () => describe(server));
}

/** `yard mcp add ID URL`: not ready is no failure to add, but the exit code tells it. */
export async function add(invocation: Invocation): Promise<number> {
  const [id, url] = invocation.args as [string, string];
  const [credential, category] = [invocation.text('credential'), invocation.text('category')];
  const timeout = invocation.number('call-timeout');
  const session = await invocation.session();
  await session.api.mcpServers.put(id, {
    url,
    ...(credential === undefined ? {} : { credential }),
    ...(category === undefined ? {} : { category: category as McpServer['category'] }),
    ...(timeout === undefined ? {} : { timeout_s: timeout }),
  });
  return report(invocation, await listed(() => session.api.mcpServers.test(id)));
}

/** `yard mcp remove ID` */
export async function remove(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  await session.api.mcpServers.delete(invocation.args[0]!);
  invocation.output.note(`removed MCP server ${invocation.args[0]!}`);
}

/** `yard mcp test ID` */
export async function test(invocation: Invocation): Promise<number> {
  const session = await invocation.session();
  return report(invocation, await session.api.mcpServers.test(invocation.args[0]!));
}

const TRIES = 20;

/** A new server is known to the registry a moment after it was stored. */
async function listed(look: () => Promise<McpServer>): Promise<McpServer> {
  for (let tries = 1; ; tries++) {
    try {
      const server = await look();
      if (server.state !== 'connecting' || tries === TRIES) return server;
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'YM-MCP-UNKNOWN' || tries === TRIES) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

async function report(invocation: Invocation, server: McpServer): Promise<number> {
  await invocation.output.object(server, () => describe(server));
  if (server.state === 'ready') return EXIT.ok;
  return server.state === 'failed' || server.state === 'connecting' ? EXIT.unreachable : EXIT.denied;
}

const describe = (server: McpServer) =>
  [
    fields([
      ['server', server.id],
      ['state', server.state],
      ['problem', server.problem === null ? undefined : `${server.problem.message} [${server.problem.code}]`],
      ['owner', server.shared ? 'everyone' : 'tenant'],
      ['transport', server.transport],
      ['address', server.url ?? undefined],
      ['category', server.category],
      ['credential', server.credential],
      ['trusted', server.trusted ? 'yes' : 'no'],
      ['says it is', server.server ?? undefined],
      ['listed', server.listed_at === null ? 'never' : ago(server.listed_at)],
      ['tools', server.tools.length === 0 ? 'none' : undefined],
    ]),
    ...server.tools.map((tool) => `  ${tool}`),
    ...server.quarantined.map(({ tool, reason }) => `  left out: ${tool}: ${reason}`),
  ].join('\n');
