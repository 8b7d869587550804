import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { type DynamicModule, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { argsHash, Bus, ensureTopology } from '@yardmaster/bus';
import { BusServer } from '@yardmaster/bus/nest';
import {
  BUCKETS,
  type McpServer,
  newId,
  Registry,
  subjects,
  tenantId,
  type TenantId,
  tenantMcpServerName,
  type Tool,
  ToolCallSchema,
  type ToolResult,
  ToolResultSchema,
} from '@yardmaster/contracts';
import { BUS, Health, HEALTH, LOGGER, type Logger, loadConfig, SERVICE } from '@yardmaster/service-kit';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { RegistryConfig } from '../config.js';
import { RegistryModule } from '../registry.module.js';

// Each test waits for processes that start; how fast they do is no matter of these tests.
vi.setConfig({ testTimeout: 90_000 });

@Module({})
class Root {}

const acme = tenantId('acme');
const globex = tenantId('globex');
const initech = tenantId('initech');
const TOKENS = { acme: 'acme-token-5fb1', globex: 'globex-token-9c22', platform: 'platform-token-77aa' };
const PEER = fileURLToPath(new URL('../../test-peer/mcp-peer.mjs', import.meta.url));
const EVERYTHING = fileURLToPath(
  new URL('../../../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
);
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const dir = realpathSync(mkdtempSync(join(tmpdir(), 'yardmaster-registry-mcp-')));
const state = (name: string) => join(dir, `${name}.json`);
const say = (name: string, value: Record<string, unknown>) => writeFileSync(state(name), JSON.stringify(value));
const schema = { type: 'object', properties: { text: { type: 'string' } } };
const listed = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  description: `The tool ${name}.`,
  inputSchema: schema,
  ...more,
});
const DEGREES = { type: 'object', properties: { degrees: { type: 'number' } }, required: ['degrees'] };
const ALL = [
  ...['echo', 'whoami', 'keep', 'sad', 'unknown', 'internal', 'leak', 'env', 'read', 'write', 'connect', 'hog'].map(
    (name) => listed(name),
  ),
  ...['right', 'wrong', 'none'].map((name) => listed(name, { outputSchema: DEGREES })),
  listed('gone'),
  listed('die', { annotations: { idempotentHint: true } }),
  listed('slow', { annotations: { readOnlyHint: true } }),
];

let servers: Servers;
let api: Bus;
let dispatcher: Bus;
const peers: ChildProcess[] = [];
const closers: (() => Promise<unknown>)[] = [];
const logged: string[] = [];

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function httpPeer(name: string): Promise<string> {
  const port = await freePort();
  const child = spawn(process.execPath, [PEER, state(name), 'http', String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  peers.push(child);
  await once(child.stdout, 'data');
  return `http://127.0.0.1:${port}/mcp`;
}

async function startRegistry(env: NodeJS.ProcessEnv): Promise<() => Promise<void>> {
  const bus = await Bus.connect({ url: servers.natsUrl, ...servers.nats.login('registry') });
  const note = (...said: unknown[]) => void logged.push(inspect(said, { depth: 20, maxStringLength: Infinity }));
  const log = { debug: note, info: note, warn: note, error: note, trace: note, fatal: note } as unknown as Logger;
  const health = new Health('registry');
  const config = loadConfig(RegistryConfig, { YM_REGISTRY_MCP_ACK_WAIT_MS: '2000', ...env });
  const root: DynamicModule = {
    module: Root,
    global: true,
    imports: [RegistryModule],
    providers: [
      { provide: BUS, useValue: bus },
      { provide: LOGGER, useValue: log },
      { provide: HEALTH, useValue: health },
      { provide: SERVICE, useValue: { name: 'registry', instance: 't', config, log, health, bus, onClose() {} } },
    ],
    exports: [BUS, LOGGER, HEALTH, SERVICE],
  };
  const app = await NestFactory.createMicroservice(root, { logger: false, strategy: new BusServer(bus) });
  await app.listen();
  return async () => {
    await app.close();
    await bus.close();
  };
}

const stdio = (name: string, more: Record<string, unknown> = {}) => ({
  command: 'node',
  args: [PEER, state(name), 'stdio'],
  sandbox: { read: [PEER, state(name)], ...(more['sandbox'] as object) },
  ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== 'sandbox')),
});

const settings = join(dir, 'config.yaml');
let servers_: Record<string, unknown>;
const configure = (mcp: Record<string, unknown>) => {
  servers_ = mcp;
  // JSON is YAML.
  writeFileSync(settings, JSON.stringify({ mcp_servers: mcp }));
};

beforeAll(async () => {
  servers = await startServers();
  const connect = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  const setup = await connect('setup');
  await ensureTopology(setup, { kinds: [], ackWaitMs: 2_000 });
  await setup.close();
  [api, dispatcher] = await Promise.all([connect('api'), connect('dispatcher')]);
  for (const name of [
    'box',
    'trusted',
    'plain',
    'paged',
    'endless',
    'spoilt',
    'shared',
    'own',
    'cells',
    'fickle',
    'hostile',
  ])
    say(name, { tools: ALL });
  say('paged', { tools: Array.from({ length: 25 }, (_, index) => listed(`t${index}`)), pageSize: 10 });
  say('endless', { tools: ALL, pageSize: 1, sameCursor: true });
  say('shared', { tools: ALL, authorization: [TOKENS.platform, TOKENS.acme, TOKENS.globex] });
  say('own', { tools: ALL, authorization: [TOKENS.acme, TOKENS.globex] });
  mkdirSync(join(dir, 'credentials'));
  mkdirSync(join(dir, 'state'));
  writeFileSync(join(dir, 'credentials', 'acme.crm'), `${TOKENS.acme}\n`);
  writeFileSync(join(dir, 'credentials', 'globex.crm'), TOKENS.globex);
  writeFileSync(join(dir, 'platform-token'), TOKENS.platform);
  writeFileSync(join(dir, 'acme-token'), TOKENS.acme);
  writeFileSync(join(dir, 'secret'), 'nobody may read this');
  process.env['GLOBEX_MCP_TOKEN'] = TOKENS.globex;
  configure({
    box: stdio('box', { env: { GREETING: 'hello {tenant}' }, sandbox: { memory_mb: 256 } }),
    trusted: stdio('trusted', { trusted: true, sandbox: { write: [dir] } }),
    plain: { url: await httpPeer('plain') },
    paged: stdio('paged'),
    endless: stdio('endless'),
    spoilt: stdio('spoilt'),
    fickle: stdio('fickle'),
    hostile: stdio('hostile'),
    // The platform lists, each tenant calls with its own.
    shared: {
      url: await httpPeer('shared'),
      token_file: join(dir, 'platform-token'),
      credentials: { acme: { file: join(dir, 'acme-token') }, globex: { env: 'GLOBEX_MCP_TOKEN' } },
    },
    // Each tenant lists and calls with its own.
    own: { url: await httpPeer('own'), credential: 'crm' },
    cells: stdio('cells', {
      credential: 'crm',
      credential_env: 'PEER_TOKEN',
      sandbox: { write: [join(dir, 'state', '{tenant}')] },
    }),
    away: { url: 'http://127.0.0.1:9/mcp' },
    everything: {
      command: 'node',
      args: [EVERYTHING, 'stdio'],
      sandbox: { read: [fileURLToPath(new URL('../../../../node_modules', import.meta.url))] },
    },
  });
  closers.push(
    await startRegistry({
      YM_CONFIG: settings,
      YM_REGISTRY_MCP_CREDENTIALS: join(dir, 'credentials'),
      YM_REGISTRY_MCP_IDLE_MS: '60000',
    }),
  );
}, 60_000);
afterAll(async () => {
  for (const close of closers) await close();
  for (const child of peers) child.kill('SIGKILL');
  await Promise.all([api?.close(), dispatcher?.close()]);
  await servers?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const status = async (id: string, tenant = acme, test = false): Promise<McpServer> =>
  (await api.request(Registry.mcpServers, tenant, { id, test }, { timeoutMs: 30_000 })).servers[0]!;
const inState = (id: string, wanted: string, tenant = acme) =>
  expect.poll(async () => (await status(id, tenant)).state, { timeout: 80_000 }).toBe(wanted);
const tools = async (tenant: TenantId): Promise<Tool[]> =>
  (await api.request(Registry.list, tenant, {}, { timeoutMs: 5_000 })).tools;
const ofServer = async (tenant: TenantId, server: string) =>
  (await tools(tenant)).filter((tool) => tool.server === server).map(({ name }) => name);

async function call(
  tenant: TenantId,
  name: string,
  args: object = {},
  timeoutMs = 20_000,
  toolHash = '',
): Promise<ToolResult> {
  const [runId, callId, nonce] = [newId(), '1-0', newId()];
  const argumentsJson = JSON.stringify(args);
  const hash = argsHash(argumentsJson);
  await dispatcher.enqueue(subjects.tool('mcp', tenant), ToolCallSchema, {
    ...{
      name,
      runId,
      callId,
      nonce,
      argumentsJson,
      argsHash: hash,
      historySeq: 1n,
      tenant,
      effect: '',
      timeoutMs,
      toolHash,
    },
  });
  for (;;) {
    const found = await dispatcher.getStored('YM_RES', subjects.result(tenant, runId, callId, nonce), ToolResultSchema);
    if (found) return found.message;
    await sleep(20);
  }
}
/** What the peer says about who called it. */
const whoami = async (tenant: TenantId, server: string) =>
  JSON.parse((await call(tenant, `${server}__whoami`)).output) as {
    token: string | null;
    session: string;
    process: string;
  };
const seenBy = (name: string) =>
  readFileSync(`${state(name)}.seen`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { token: string | null; session: string | null });

it('lists every page, and refuses pages that do not end', async () => {
  await inState('paged', 'ready');
  expect(await ofServer(acme, 'paged')).toHaveLength(25);
  await inState('endless', 'failed');
  expect((await status('endless')).problem).toMatch(/do not end/);
  expect(await ofServer(acme, 'endless')).toEqual([]);
});

it('a server of the protocol’s authors works in the sandbox', async () => {
  await inState('everything', 'ready');
  expect(await call(acme, 'everything__echo', { message: 'hi' })).toMatchObject({ ok: true, output: 'Echo: hi' });
});

it('a server over stdio reaches nothing that it was not given', async () => {
  await inState('box', 'ready');
  const outside = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await once(outside, 'listening');
  const { port } = outside.address() as AddressInfo;
  const [env, secret, etc, system, home, network] = await Promise.all([
    call(acme, 'box__env'),
    call(acme, 'box__read', { path: join(dir, 'secret') }),
    call(acme, 'box__write', { path: state('box'), text: '{}' }),
    call(acme, 'box__write', { path: '/usr/x' }),
    call(acme, 'box__write', { path: '/tmp/x' }),
    call(acme, 'box__connect', { port }),
  ]);
  outside.close();
  expect(JSON.parse(env.output)).toEqual(
    [
      'GREETING',
      'HOME',
      'LANG',
      'LOGNAME',
      'OLDPWD',
      'PATH',
      'PWD',
      'SHELL',
      'SHLVL',
      'TERM',
      'TMPDIR',
      'USER',
      '_',
    ].filter((name) => (JSON.parse(env.output) as string[]).includes(name)),
  );
  expect(JSON.parse(env.output)).toContain('GREETING');
  expect(secret).toMatchObject({ ok: false, output: 'ENOENT' });
  expect(etc).toMatchObject({ ok: false, output: 'EROFS' });
  expect(system).toMatchObject({ ok: false, output: 'EROFS' });
  expect(home).toMatchObject({ ok: true, output: 'written' });
  expect(existsSync('/tmp/x'), 'the sandbox has a /tmp of its own').toBe(false);
  expect(network).toMatchObject({ ok: false, output: 'ECONNREFUSED' });
});

it('a server that takes too much memory ends, and the next call has another one', async () => {
  await inState('box', 'ready');
  expect(await call(acme, 'box__hog')).toMatchObject({ ok: false, outcomeUnknown: true });
  expect(await call(acme, 'box__echo', { text: 'again' })).toMatchObject({ ok: true, output: 'again' });
});

it('without bubblewrap a server over stdio is refused with what to do, unless that is allowed', async () => {
  const only = join(dir, 'only.yaml');
  say('bare', { tools: ALL });
  writeFileSync(only, JSON.stringify({ mcp_servers: { ...servers_, bare: stdio('bare') } }));
  const credentials = { YM_REGISTRY_MCP_CREDENTIALS: join(dir, 'credentials') };
  const stop = await startRegistry({ YM_CONFIG: only, ...credentials, YM_REGISTRY_BWRAP: '/nowhere/bwrap' });
  // Two registries answer now, and only one of them knows the server.
  await expect
    .poll(
      async () =>
        (await Promise.allSettled(Array.from({ length: 6 }, () => status('bare')))).flatMap((one) =>
          one.status === 'fulfilled' ? [`${one.value.state} ${one.value.code} ${one.value.problem}`] : [],
        )[0],
      { timeout: 20_000 },
    )
    .toMatch(/^refused YM-MCP-SANDBOX .*\/nowhere\/bwrap is not installed.*YM_REGISTRY_MCP_SANDBOX=off/);
  await stop();
  const again = await startRegistry({
    YM_CONFIG: only,
    ...credentials,
    YM_REGISTRY_BWRAP: '/nowhere/bwrap',
    YM_REGISTRY_MCP_SANDBOX: 'off',
  });
  await expect.poll(() => ofServer(acme, 'bare'), { timeout: 20_000 }).toContain('bare__echo');
  await again();
});

it('what is wrong with one tool keeps no other out, and is said', async () => {
  await inState('spoilt', 'ready');
  say('spoilt', {
    tools: [
      listed('good'),
      { name: 'shapeless', description: 'no schema' },
      'no object',
      listed('hostile', { inputSchema: { type: 'object', properties: { a: { $ref: 'https://x.org/s' } } } }),
      listed('lookaround', { inputSchema: { type: 'object', properties: { a: { pattern: '(?=a)' } } } }),
      listed('twice'),
      listed('twice'),
    ],
  });
  await expect
    .poll(async () => Object.keys((await status('spoilt')).quarantined).sort(), { timeout: 15_000 })
    .toEqual(['#3', 'hostile', 'lookaround', 'shapeless', 'twice']);
  const { tools: kept, quarantined } = await status('spoilt');
  expect(kept).toEqual(['spoilt__good', 'spoilt__twice']);
  expect(quarantined).toMatchObject({
    shapeless: 'its inputSchema is no object',
    hostile: expect.stringMatching(/points outside/) as string,
    lookaround: expect.stringMatching(/linear time/) as string,
    twice: 'it is listed twice',
  });
  expect(await ofServer(acme, 'spoilt')).toEqual(kept);
});

it('a change that a server announces is a new version with another hash; what it drops is gone', async () => {
  await inState('fickle', 'ready');
  const before = (await tools(acme)).find(({ name }) => name === 'fickle__echo')!;
  say('fickle', { tools: [listed('echo', { description: 'Now it deletes everything.' }), listed('fresh')] });
  await expect.poll(() => ofServer(acme, 'fickle'), { timeout: 15_000 }).toEqual(['fickle__echo', 'fickle__fresh']);
  const after = (await tools(acme)).find(({ name }) => name === 'fickle__echo')!;
  expect(after.version).toBe(before.version + 1);
  expect(after.hash).not.toBe(before.hash);
  // A call that was decided on before is one of a tool that is no more.
  const old = await call(acme, 'fickle__echo', { text: 'as agreed' }, 20_000, before.hash);
  expect(old).toMatchObject({ ok: false, reason: 'refused', outcomeUnknown: false });
  expect(old.output).toMatch(/has changed the definition of "fickle__echo".*Nothing was run/);
  expect(await call(acme, 'fickle__echo', { text: 'anew' }, 20_000, after.hash)).toMatchObject({ output: 'anew' });
});

it('what a server sends in order to do harm harms its own tools at most', async () => {
  await inState('hostile', 'ready');
  say('hostile', {
    tools: [
      listed('bottomless', { inputSchema: { type: 'object', properties: { a: '@deep@' } } }),
      listed('deep_default', { inputSchema: { type: 'object', properties: { a: { default: '@deep@' } } } }),
      listed('endless', { description: '@long@' }),
      listed('good'),
      listed('proto', { inputSchema: JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}') }),
      listed('regex', { inputSchema: { type: 'object', patternProperties: { '^(a+)+$': {} } } }),
    ],
    deep: 20_000,
    long: 9_000_000,
  });
  await expect
    .poll(async () => Object.keys((await status('hostile')).quarantined).sort(), { timeout: 30_000 })
    .toEqual(['bottomless', 'deep_default']);
  expect(await ofServer(acme, 'hostile')).toEqual(
    ['endless', 'good', 'proto', 'regex'].map((one) => `hostile__${one}`),
  );
  const long = (await tools(acme)).find(({ name }) => name === 'hostile__endless')!;
  expect(long.description.length).toBeLessThanOrEqual(10_000);

  say('hostile', { tools: Array.from({ length: 10_000 }, (_, index) => listed(`t${index}`)), pageSize: 1000 });
  await expect.poll(async () => (await status('hostile')).problem, { timeout: 30_000 }).toMatch(/more than 2000 tools/);
  // What was registered stays until there is a list that can be used.
  expect(await ofServer(acme, 'hostile')).toContain('hostile__good');

  say('hostile', { tools: [listed('good', { description: '@long@' })], long: 11_000_000 });
  await expect
    .poll(async () => (await status('hostile')).problem, { timeout: 60_000 })
    .not.toMatch(/more than 2000 tools/);
  expect((await status('hostile')).state).toBe('failed');

  say('hostile', { tools: [listed('good')] });
  await inState('hostile', 'ready');
  expect(await ofServer(acme, 'hostile')).toEqual(['hostile__good']);
});

it('structured content is checked against what the tool promised', async () => {
  await inState('plain', 'ready');
  expect(await call(acme, 'plain__right')).toMatchObject({ ok: true, output: '21 degrees' });
  const wrong = await call(acme, 'plain__wrong');
  expect(wrong).toMatchObject({ ok: false, reason: 'failed' });
  expect(wrong.output).toMatch(/has run.*does not fit its outputSchema \(\/degrees: /);
  expect((await call(acme, 'plain__none')).output).toMatch(/promises structured content and sent none/);
});

it('what a server says is wrong is told to the model, in a result or in an error', async () => {
  await inState('plain', 'ready');
  expect(await call(acme, 'plain__sad')).toMatchObject({ ok: false, output: 'the tool says that it failed' });
  const unknown = await call(acme, 'plain__unknown');
  expect(unknown).toMatchObject({ ok: false, outcomeUnknown: false });
  expect(unknown.output).toMatch(/^plain: .*-32602.*not found/);
  expect((await call(acme, 'plain__internal')).output).toMatch(/the database is away/);
  // The same as a result: the peer has no such tool, though it lists it.
  expect(await call(acme, 'plain__gone')).toMatchObject({
    ok: false,
    output: expect.stringMatching(/not found/) as string,
  });
  expect((await call(acme, 'everything__echo', { message: 7 })).output).toMatch(/-32602|invalid/i);
});

it('a call whose server dies runs again only when a trusted server says that it may', async () => {
  await Promise.all([inState('trusted', 'ready'), inState('box', 'ready')]);
  const mark = join(dir, 'died-trusted');
  expect(await call(acme, 'trusted__die', { mark })).toMatchObject({ ok: true, output: 'survived, call 2' });
  const died = await call(acme, 'box__die', { mark: '/tmp/died' });
  expect(died).toMatchObject({ ok: false, outcomeUnknown: true });
  expect(died.output).toMatch(/not known/);
  const found = (await tools(acme)).filter(({ name }) => name.endsWith('__die'));
  expect(found.map(({ name, effect }) => [name, effect])).toEqual(
    expect.arrayContaining([
      ['trusted__die', 'idempotent'],
      ['box__die', 'unsafe'],
    ]),
  );
});

it('a call that takes too long is ended and nobody pretends to know how', async () => {
  await inState('plain', 'ready');
  expect(await call(acme, 'plain__slow', {}, 700)).toMatchObject({ ok: false, reason: 'timeout' });
  expect(await call(acme, 'plain__echo', { text: 'on it goes' })).toMatchObject({ output: 'on it goes' });
});

it('each tenant has sessions of its own: what one keeps another does not see', async () => {
  await inState('box', 'ready');
  expect((await call(acme, 'box__keep', { text: 'of acme' })).output).toBe('["of acme"]');
  expect((await call(globex, 'box__keep', { text: 'of globex' })).output).toBe('["of globex"]');
  expect((await call(acme, 'box__keep', { text: 'more' })).output).toBe('["of acme","more"]');
});

it('a tenant’s credential is used in its own sessions and in no other', async () => {
  await Promise.all([inState('shared', 'ready'), inState('own', 'ready'), inState('cells', 'ready')]);
  await Promise.all([inState('own', 'ready', globex), inState('cells', 'ready', globex)]);
  for (const server of ['shared', 'own', 'cells']) {
    const found = await Promise.all(
      [acme, globex, acme, globex, globex, acme].map(async (tenant) => ({ tenant, ...(await whoami(tenant, server)) })),
    );
    for (const { tenant, token } of found)
      expect(`${server} ${tenant} ${token}`).toBe(`${server} ${tenant} ${sha256(TOKENS[tenant as 'acme' | 'globex'])}`);
    const cell = ({ session, process }: { session: string; process: string }) =>
      server === 'cells' ? process : session;
    const cells = (tenant: TenantId) => new Set(found.filter((one) => one.tenant === tenant).map(cell));
    expect(cells(acme).size).toBe(1);
    expect([...cells(acme)], 'no session and no process serves both').not.toEqual([...cells(globex)]);
  }
  // No session has ever seen two credentials.
  for (const name of ['shared', 'own']) {
    const bySession = new Map<string, Set<string | null>>();
    for (const { session, token } of seenBy(name))
      if (session !== null) bySession.set(session, (bySession.get(session) ?? new Set()).add(token));
    expect([...bySession.values()].filter((tokens) => tokens.size !== 1)).toEqual([]);
  }
  expect(seenBy('own').map(({ token }) => token)).not.toContain(TOKENS.platform);
  expect(seenBy('plain').every(({ token }) => token === null)).toBe(true);
});

it('a tenant without a credential is told so, and nothing of another’s is used for it', async () => {
  await Promise.all([inState('shared', 'ready'), inState('own', 'ready')]);
  const before = seenBy('shared').length;
  const refused = await call(initech, 'shared__whoami');
  expect(refused).toMatchObject({ ok: false, reason: 'failed' });
  expect(refused.output).toMatch(
    /"initech" has no credential for the MCP server "shared".*Nothing was run\. \[YM-MCP-CREDENTIAL\]/,
  );
  expect(seenBy('shared').length).toBe(before);
  expect(await status('own', initech)).toMatchObject({ state: 'no_credential', code: 'YM-MCP-CREDENTIAL', tools: [] });
  expect((await status('own', initech)).problem).toContain('initech.crm');
  expect(await ofServer(initech, 'own')).toEqual([]);
});

it('no credential is in an answer, a status, a log line or a bucket', async () => {
  await Promise.all([inState('shared', 'ready'), inState('own', 'ready'), inState('cells', 'ready')]);
  const said: string[] = [];
  for (const server of ['shared', 'own', 'cells']) said.push((await call(acme, `${server}__leak`)).output);
  expect(said.every((text) => text.includes('[secret]'))).toBe(true);
  say('own', { tools: ALL, authorization: [] });
  const statuses = JSON.stringify(
    (await api.request(Registry.mcpServers, acme, { test: true }, { timeoutMs: 30_000 })).servers,
    (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value),
  );
  expect((await status('own')).state).toBe('failed');
  say('own', { tools: ALL, authorization: [TOKENS.acme, TOKENS.globex] });
  expect((await status('own', acme, true)).state).toBe('ready');
  const stored: string[] = [];
  for (const bucket of [BUCKETS.tools, BUCKETS.tenants]) {
    const snapshot = await api.watch(bucket, (bytes) => Buffer.from(bytes).toString('latin1'));
    stored.push(...snapshot.current.values());
    snapshot.stop();
  }
  for (const token of Object.values(TOKENS))
    for (const form of [token, Buffer.from(token).toString('base64').replaceAll('=', '').slice(0, -1)])
      for (const text of [...said, statuses, logged.join('\n'), ...stored]) expect(text).not.toContain(form);
});

it('a credential that comes later is found, one that is changed counts for the next session', async () => {
  writeFileSync(join(dir, 'credentials', 'initech.crm'), TOKENS.globex);
  await inState('own', 'ready', initech);
  expect(await ofServer(initech, 'own')).toContain('own__echo');
  rmSync(join(dir, 'credentials', 'initech.crm'));
  await expect.poll(() => ofServer(initech, 'own'), { timeout: 20_000 }).toEqual([]);
});

it('a tenant’s own server is nobody else’s, and goes nowhere inside', async () => {
  const put = (id: string, server: object) =>
    api.kv(BUCKETS.tenants).put(tenantMcpServerName(acme, id), JSON.stringify(server));
  await put('mine', { url: 'http://127.0.0.1:9/mcp' });
  await inState('mine', 'refused');
  expect(await status('mine')).toMatchObject({ shared: false, code: 'YM-URL-REFUSED', url: 'http://127.0.0.1:9/mcp' });
  await expect(status('mine', globex)).rejects.toMatchObject({ class: 'NOT_FOUND', code: 'YM-MCP-UNKNOWN' });
  await put('mine', { url: 'https://mcp.example.com/mcp', credential: 'crm-of-nobody' });
  await inState('mine', 'no_credential');
  await api.kv(BUCKETS.tenants).delete(tenantMcpServerName(acme, 'mine'));
  await expect
    .poll(() =>
      status('mine').then(
        () => 'there',
        () => 'gone',
      ),
    )
    .toBe('gone');
});

it('tools of a server that is taken away go with it; those of others stay', async () => {
  await inState('paged', 'ready');
  const { paged, ...others } = servers_;
  expect(paged).toBeDefined();
  configure(others);
  await expect.poll(() => ofServer(acme, 'paged'), { timeout: 15_000 }).toEqual([]);
  expect(await ofServer(acme, 'fickle')).not.toEqual([]);
  configure({ ...others, paged });
  await inState('paged', 'ready');
});

it('a tenant can neither take over a server’s tool nor name its kind', async () => {
  await inState('own', 'ready');
  const definition = {
    description: 'Not what it was.',
    parametersJson: JSON.stringify(schema),
    effect: 'read',
    category: 'read',
    timeoutMs: 1000,
  };
  const put = (name: string, kind: string) =>
    api.request(Registry.put, acme, { tool: { name, kind, ...definition } }, { timeoutMs: 10_000 });
  await expect(put('own__echo', 'crm')).rejects.toMatchObject({ class: 'CONFLICT', code: 'YM-MCP-TOOL' });
  await expect(put('mine', 'mcp')).rejects.toMatchObject({ class: 'INVALID', code: 'YM-TOOL-INVALID' });
  await expect(api.request(Registry.delete, acme, { name: 'own__echo' }, { timeoutMs: 5_000 })).rejects.toMatchObject({
    code: 'YM-MCP-TOOL',
  });
});
