import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';

/** The reference servers of the protocol's authors, as they are published. */
const peer = (name: string) =>
  fileURLToPath(new URL(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url));
const stdio = (name: string, ...args: string[]) => ({ command: process.execPath, args: [peer(name), ...args] });

let yard: Stack;
let http: ChildProcess;
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'yardmaster-mcp-')));

beforeAll(async () => {
  writeFileSync(join(folder, 'note.txt'), 'written by nobody\n');
  const port = await freePort();
  http = spawn(process.execPath, [peer('everything'), 'streamableHttp'], {
    env: { PATH: process.env['PATH'], PORT: String(port) },
    stdio: 'ignore',
  });
  yard = await startStack(
    {
      native: {
        native: true,
        // The task is the call.
        script: ({ messages }) => {
          const last = messages.at(-1)!;
          if (last.role === 'tool') return { text: `it says: ${String(last.content)}` };
          const [, name, args] = /^(\w+) (\{.*\})$/s.exec(String(last.content)) ?? [];
          return { calls: [{ name: name!, arguments: args! }] };
        },
      },
    },
    {
      env: { YM_REGISTRY_MCP_ACK_WAIT_MS: '2000' },
      config: {
        mcp_servers: {
          everything: stdio('everything', 'stdio'),
          fs: { ...stdio('filesystem', folder), category: 'read' },
          memory: { ...stdio('memory'), env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') } },
          web: { url: `http://127.0.0.1:${port}/mcp`, trusted: true },
          gone: { url: 'http://127.0.0.1:9/mcp' },
        },
      },
    },
  );
  const wanted = ['everything', 'fs', 'memory', 'web'];
  for (const until = Date.now() + 40_000; ;) {
    const servers = new Set((await tools()).map(({ server }) => server));
    if (wanted.every((server) => servers.has(server))) break;
    if (Date.now() > until) throw new Error(`only these servers have come: ${[...servers].join(', ')}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}, 90_000);
afterAll(async () => {
  await yard?.stop();
  http?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

interface Listed {
  name: string;
  server: string | null;
  effect: string;
  category: string;
  kind: string;
}
const tools = async () => ((await (await yard.api('/v1/tools?limit=200')).json()) as { items: Listed[] }).items;
const ask = async (name: string, args: unknown) =>
  (await yard.settled((await yard.start({ input: `${name} ${JSON.stringify(args)}` })).id)).output;

it('the tools of every server are registered under its name, checked, and of the kind mcp', async () => {
  const found = await tools();
  const of = (server: string) => found.filter((tool) => tool.server === server);
  expect(of('fs').map(({ name }) => name)).toContain('fs__read_text_file');
  expect(of('memory').length).toBeGreaterThanOrEqual(9);
  expect(of('everything').length).toBeGreaterThanOrEqual(10);
  for (const tool of of('everything'))
    expect(tool).toMatchObject({ kind: 'mcp', category: 'execute', effect: 'unsafe' });
  expect(of('fs')[0]).toMatchObject({ category: 'read' });
});

it('a run calls a tool over stdio, and what it says comes back', async () => {
  expect(await ask('everything__echo', { message: 'hello' })).toMatch(/^it says: .*hello/);
  expect(await ask('fs__read_text_file', { path: join(folder, 'note.txt') })).toContain('written by nobody');
});

it('and over streamable HTTP', async () => {
  expect(await ask('web__echo', { message: 'over http' })).toMatch(/over http/);
});

it('what a server refuses is told to the model', async () => {
  expect(await ask('fs__read_text_file', { path: '/etc/passwd' })).toMatch(/denied|outside/i);
  expect(await ask('fs__read_text_file', { path: join(folder, 'nowhere.txt') })).toMatch(/ENOENT|no such/i);
});

it('arguments are checked before a server sees them', async () => {
  expect(await ask('everything__echo', { message: { not: 'text' } })).toMatch(/schema|Invalid|expected/i);
});

it('structured results are given as they are', async () => {
  const output = await ask('memory__create_entities', {
    entities: [{ name: 'Ada', entityType: 'person', observations: ['wrote the first program'] }],
  });
  expect(output).toContain('Ada');
});
