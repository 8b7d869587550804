import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it, test } from 'vitest';
import { type Stack, startStack } from './harness.js';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'yardmaster-mcp-')));
/** The reference servers of the protocol's authors, as they are published. */
const peer = (name: string) =>
  fileURLToPath(new URL(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url));
const MODULES = fileURLToPath(new URL('../../node_modules', import.meta.url));
const stdio = (name: string, ...args: string[]) => ({
  command: 'node',
  args: [peer(name), ...args],
  sandbox: { read: [MODULES], write: [folder] },
});

const YARD = fileURLToPath(new URL('../../services/yard/bin/yard.mjs', import.meta.url));
let yard: Stack;
let http: ChildProcess;
let other: ChildProcess;
/** Two servers that say the same of themselves. */
const ports = { http: 0, other: 0 };

beforeAll(async () => {
  writeFileSync(join(folder, 'note.txt'), 'written by nobody\n');
  const overHttp = (port: number) =>
    spawn(process.execPath, [peer('everything'), 'streamableHttp'], {
      env: { PATH: process.env['PATH'], PORT: String(port) },
      stdio: 'ignore',
    });
  http = overHttp((ports.http = await freePort()));
  other = overHttp((ports.other = await freePort()));
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
          web: { url: `http://127.0.0.1:${ports.http}/mcp`, trusted: true },
          gone: { url: 'http://127.0.0.1:9/mcp' },
        },
      },
    },
  );
  // Ready: all of a server's tools are registered, not only the first.
  const wanted = ['everything', 'fs', 'memory', 'web'];
  for (const until = Date.now() + 80_000; ;) {
    const { items } = (await (await yard.api('/v1/mcp-servers')).json()) as { items: Server[] };
    const waiting = items.filter(({ id, state }) => wanted.includes(id) && state !== 'ready');
    if (waiting.length === 0) break;
    if (Date.now() > until) throw new Error(`not ready: ${JSON.stringify(waiting)}`);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}, 150_000);
afterAll(async () => {
  await yard?.stop();
  for (const server of [http, other]) server?.kill('SIGKILL');
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
    // What the registry keeps of where the server is, is not for tenants.
    expect(tool).toMatchObject({ kind: 'mcp', category: 'execute', effect: 'unsafe', dispatch: null });
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

interface Server {
  id: string;
  shared: boolean;
  state: string;
  problem: { code: string; message: string } | null;
  tools: string[];
  quarantined: unknown[];
  url: string | null;
}

it('the API shows each server, and what is wrong with one that is away', async () => {
  const { items } = (await (await yard.api('/v1/mcp-servers')).json()) as { items: Server[] };
  expect(items.map(({ id, shared }) => `${id} ${shared}`)).toEqual(
    ['everything', 'fs', 'gone', 'memory', 'web'].map((id) => `${id} true`),
  );
  const fs = (await (await yard.api('/v1/mcp-servers/fs')).json()) as Server;
  expect(fs).toMatchObject({ state: 'ready', problem: null, url: null, quarantined: [] });
  expect(fs.tools).toContain('fs__read_text_file');
  const gone = (await (await yard.api('/v1/mcp-servers/gone/test', { json: {} })).json()) as Server;
  expect(gone).toMatchObject({ state: 'failed', problem: { code: 'YM-MCP-UNREACHABLE' }, tools: [] });
  const page = (await (await yard.api('/v1/mcp-servers?limit=2')).json()) as { items: Server[]; next_cursor: string };
  expect(page.next_cursor).toBe('fs');
});

it('a tenant adds, sees, changes and removes a server of its own', async () => {
  const put = (id: string, json: object) => yard.api(`/v1/mcp-servers/${id}`, { method: 'PUT', json });
  const added = await put('mine', { url: 'https://mcp.invalid/mcp', timeout_s: 5 });
  expect(added.status, await added.clone().text()).toBe(200);
  const mine = async () => (await (await yard.api('/v1/mcp-servers/mine')).json()) as Server;
  await expect.poll(async () => (await mine()).problem?.code, { timeout: 30_000 }).toMatch(/^YM-/);
  expect(await mine()).toMatchObject({ shared: false, url: 'https://mcp.invalid/mcp', tools: [] });
  const removed = await yard.api('/v1/mcp-servers/mine', { method: 'DELETE' });
  expect(removed.status).toBe(204);
  await expect.poll(async () => (await yard.api('/v1/mcp-servers/mine')).status).toBe(404);
});

it('a yes for a tool is for its server: when that moves a person is asked again', async () => {
  const config = join(yard.stack.state, 'config.yaml');
  const move = (from: number, to: number) =>
    writeFileSync(config, readFileSync(config, 'utf8').replace(`127.0.0.1:${from}/mcp`, `127.0.0.1:${to}/mcp`));
  const policy = (by_tool: Record<string, string>) =>
    yard.api('/v1/tenants/demo/approvals', { method: 'PUT', json: { by_tool } });
  const hash = async () => ((await (await yard.api('/v1/tools/web__echo')).json()) as { hash?: string }).hash;
  const run = async () => yard.settled((await yard.start({ input: 'web__echo {"message":"hi"}' })).id);

  expect((await policy({ web__echo: 'session' })).status).toBe(200);
  const before = await hash();
  const asked = await run();
  expect(asked.state).toBe('waiting_approval');
  const { items } = (await (await yard.api(`/v1/runs/${asked.id}/approvals`)).json()) as {
    items: { call: string; args_hash: string }[];
  };
  const { call, args_hash } = items[0]!;
  const json = { decision: 'approve', args_hash, remember: 'always', scope: { arguments: { '/message': '.*' } } };
  expect((await yard.api(`/v1/runs/${asked.id}/approvals/${call}`, { json })).status).toBe(200);
  await expect.poll(async () => (await yard.get(asked.id)).state, { timeout: 30_000 }).toBe('completed');
  expect((await run()).state, 'the yes holds').toBe('completed');

  move(ports.http, ports.other);
  await expect.poll(hash, { timeout: 30_000 }).not.toBe(before);
  // Whoever runs the run sees a change of the tools a moment after the API does.
  await expect.poll(async () => (await run()).state, { timeout: 30_000 }).toBe('waiting_approval');
  move(ports.other, ports.http);
  await expect.poll(hash, { timeout: 30_000 }).toBe(before);
  // What was agreed to is there again.
  await expect.poll(async () => (await run()).state, { timeout: 30_000 }).toBe('completed');

  expect((await policy({})).status).toBe(200);
});

test.each([
  ['an address inside', 'mine', { url: 'http://127.0.0.1:9/mcp' }, 403, 'YM-URL-REFUSED'],
  ['a key in the address', 'mine', { url: 'https://mcp.example.com/mcp?key=abc' }, 400, undefined],
  ['an id of the platform', 'fs', { url: 'https://mcp.example.com/mcp' }, 409, 'YM-MCP-ID-TAKEN'],
  ['what can be no id', 'Mine__', { url: 'https://mcp.example.com/mcp' }, 400, 'YM-MCP-ID'],
  [
    'a credential that is no name',
    'mine',
    { url: 'https://mcp.example.com/mcp', credential: '../acme' },
    400,
    undefined,
  ],
])('refuses %s', async (_, id, json, status, code) => {
  const answer = await yard.api(`/v1/mcp-servers/${id}`, { method: 'PUT', json });
  expect(answer.status).toBe(status);
  if (code !== undefined) expect(((await answer.json()) as { code: string }).code).toBe(code);
});

it('a server that is not the tenant’s own cannot be removed by it', async () => {
  expect((await yard.api('/v1/mcp-servers/fs', { method: 'DELETE' })).status).toBe(404);
});

it('`yard mcp` shows the same', async () => {
  const run = async (...args: string[]) => {
    const child = spawn(process.execPath, [YARD, 'mcp', ...args], {
      env: { PATH: process.env['PATH'], YM_API_URL: yard.url, YM_API_KEY: yard.key },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (text += String(chunk)));
    const [code] = (await once(child, 'close')) as [number];
    return { code, text };
  };
  expect(await run('list', '-o', 'name')).toEqual({ code: 0, text: 'everything\nfs\ngone\nmemory\nweb\n' });
  const fs = await run('get', 'fs');
  expect(fs.text).toMatch(/state\s+ready/);
  expect(fs.text).toContain('fs__read_text_file');
  expect((await run('test', 'gone')).code).toBe(7);
  expect((await run('add', 'mine', 'http://127.0.0.1:9/mcp')).code).toBe(4);
  expect((await run('get', 'nowhere')).code).toBe(3);
});
