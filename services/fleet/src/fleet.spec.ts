import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DynamicModule, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Bus, ensureTopology, type KvSnapshot } from '@yardmaster/bus';
import { BusServer } from '@yardmaster/bus/nest';
import { BUCKETS, Fleet, subjects, tenantId, ToolCallSchema, toolStream, toolWork } from '@yardmaster/contracts';
import {
  BUS,
  createLogger,
  type FoundProvider,
  Health,
  HEALTH,
  loadConfig,
  LOGGER,
  SERVICE,
} from '@yardmaster/service-kit';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { FleetConfig } from './config.js';
import { FakeApiServer } from './fake-api-server.js';
import { FleetModule } from './fleet.module.js';

@Module({})
class Root {}

const acme = tenantId('acme');
const dir = mkdtempSync(join(tmpdir(), 'yardmaster-fleet-'));
let servers: Servers;
let cluster: FakeApiServer;
let caller: Bus;
let dispatcher: Bus;
let setup: Bus;
let providers: KvSnapshot<FoundProvider>;
const closers: (() => Promise<unknown>)[] = [];

/** A llama.cpp server as far as the fleet asks it. */
class Llama {
  health = 200;
  props: unknown = {
    total_slots: 4,
    model_alias: 'qwen3-7b',
    model_path: '/models/model.gguf',
    default_generation_settings: { n_ctx: 8192 },
    chat_template_caps: { supports_tools: true, supports_tool_calls: true },
    modalities: { vision: false },
  };
  keys: (string | undefined)[] = [];
  running = 0;
  server!: Server;

  async start(): Promise<this> {
    this.server = createServer((request, response) => {
      if (request.url === '/health') return response.writeHead(this.health).end('{}');
      if (request.url === '/metrics')
        return response.end(
          `# HELP x y\nyardmaster_executor_running_calls{service="executor-shell"} ${this.running}\n`,
        );
      this.keys.push(request.headers.authorization);
      return request.headers.authorization === 'Bearer key-of-llama'
        ? response.end(JSON.stringify(this.props))
        : response.writeHead(401).end('{}');
    });
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    closers.push(() => this.stop());
    return this;
  }
  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }
  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

async function startFleet(name: string, more: Record<string, string> = {}) {
  const bus = await Bus.connect({ url: servers.natsUrl, ...servers.nats.login('fleet') });
  const log = createLogger('fleet', 'silent');
  const health = new Health('fleet');
  const config = loadConfig(FleetConfig, {
    YM_CONFIG: join(dir, 'config.yaml'),
    YM_FLEET_EXECUTORS: join(dir, 'executors.yaml'),
    YM_FLEET_POLL_MS: '100',
    YM_FLEET_CHECK_MS: '200',
    YM_FLEET_LEASE_MS: '20000',
    YM_FLEET_DELETION_COST: 'true',
    ...more,
  });
  const service = { name: 'fleet', instance: name, config, log, health, bus, onClose: () => undefined };
  const root: DynamicModule = {
    module: Root,
    global: true,
    imports: [FleetModule],
    providers: [
      { provide: BUS, useValue: bus },
      { provide: LOGGER, useValue: log },
      { provide: HEALTH, useValue: health },
      { provide: SERVICE, useValue: service },
    ],
    exports: [BUS, LOGGER, HEALTH, SERVICE],
  };
  const app = await NestFactory.createMicroservice(root, { logger: false, strategy: new BusServer(bus) });
  await app.listen();
  let closed: Promise<void> | undefined;
  const close = () =>
    (closed ??= (async () => {
      await app.close();
      await bus.close();
    })());
  closers.push(close);
  return { close, health };
}

const view = () => caller.request(Fleet.view, acme, {}, { timeoutMs: 5_000 });
const LONG = { timeout: 15_000 };

beforeAll(async () => {
  servers = await startServers({ executors: ['shell', 'files'] });
  const connect = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  setup = await connect('setup');
  await ensureTopology(setup, { kinds: ['shell'] });
  [caller, dispatcher] = await Promise.all([connect('api'), connect('dispatcher')]);
  providers = await caller.watch(
    BUCKETS.providers,
    (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as FoundProvider,
  );
  cluster = await new FakeApiServer().start();
  writeFileSync(join(dir, 'kubeconfig'), cluster.kubeConfigText());
  vi.stubEnv('KUBECONFIG', join(dir, 'kubeconfig'));
  writeFileSync(join(dir, 'key'), 'key-of-llama\n');
  const url = 'http://ym-llama.yard.svc:8080/v1';
  const local = { kind: 'llamacpp', base_url: url, key_file: join(dir, 'key') };
  writeFileSync(join(dir, 'config.yaml'), JSON.stringify({ providers: { local } }));
  const executors = {
    shell: { deployment: 'ym-executor-shell', kinds: ['shell'], slots: 4, min: 0, max: 5, cooldown_s: 1 },
    files: { deployment: 'ym-executor-files', kinds: ['files'], slots: 4, min: 1, max: 5 },
  };
  writeFileSync(join(dir, 'executors.yaml'), JSON.stringify({ executors }));
  cluster.scales.set('ym-executor-shell', { replicas: 0, version: 1, selector: 'app=shell' });
  cluster.scales.set('ym-executor-files', { replicas: 2, version: 1, selector: 'app=files' });
});
beforeEach(() => {
  cluster.intercept = () => undefined;
});
afterAll(async () => {
  for (const close of closers.reverse()) await close();
  await Promise.all([caller, dispatcher, setup].map((bus) => bus?.close()));
  await cluster?.stop();
  await servers?.stop();
  rmSync(dir, { recursive: true, force: true });
  vi.unstubAllEnvs();
});

const entry = (pod: string) => [...providers.current.values()].find(({ found }) => found?.pod === pod);

it('before anybody leads the view is empty and says so', async () => {
  cluster.intercept = ({ path }) => (path.includes('/leases') ? 500 : undefined);
  await startFleet('first');
  expect(await view()).toMatchObject({ leader: '', writtenMs: 0n, executors: [], pods: [] });
});

it('a llama.cpp pod becomes an entry of ym_providers: loading, ready with what it can do, draining, gone', async () => {
  const llama = await new Llama().start();
  llama.health = 503;
  cluster.put('ym-llama', { '127.0.0.1': { ready: false, pod: 'llama-a' } }, llama.port);
  await expect.poll(() => entry('llama-a')?.found, LONG).toMatchObject({ provider: 'local', phase: 'loading' });
  llama.health = 200;
  cluster.put('ym-llama', { '127.0.0.1': { ready: true, pod: 'llama-a' } }, llama.port);
  await expect.poll(() => entry('llama-a')?.found.phase, LONG).toBe('ready');
  expect(entry('llama-a')).toMatchObject({
    kind: 'llamacpp',
    base_url: `http://127.0.0.1:${llama.port}/v1`,
    slots: 4,
    context: 8192,
    native_tools: true,
    vision: false,
    models: ['qwen3-7b'],
    found: { provider: 'local', pod: 'llama-a', namespace: 'yard', reason: '' },
  });
  // The key goes to /props alone, and out nowhere.
  expect(new Set(llama.keys)).toEqual(new Set(['Bearer key-of-llama']));
  expect(JSON.stringify([...providers.current.values()])).not.toContain('key-of-llama');

  await expect
    .poll(async () => (await view()).pods, LONG)
    .toMatchObject([
      { name: 'llama-a', provider: 'local', state: 'ready', slots: 4, context: 8192, nativeTools: true },
    ]);

  cluster.put('ym-llama', { '127.0.0.1': { ready: false, terminating: true, pod: 'llama-a' } }, llama.port);
  await expect.poll(() => entry('llama-a')?.found.phase, LONG).toBe('draining');
  cluster.remove('ym-llama');
  await expect.poll(() => entry('llama-a'), LONG).toBeUndefined();
});

it('a server that is away is ejected, and taken back when it answers', async () => {
  const llama = await new Llama().start();
  cluster.put('ym-llama', { '127.0.0.1': { pod: 'llama-b' } }, llama.port);
  await expect.poll(() => entry('llama-b')?.found.phase, LONG).toBe('ready');
  llama.health = 500;
  await expect
    .poll(() => entry('llama-b')?.found, LONG)
    .toMatchObject({ phase: 'unhealthy', reason: '/health answers 500' });
  llama.health = 200;
  await expect.poll(() => entry('llama-b')?.found.phase, LONG).toBe('ready');
  await llama.stop();
  await expect
    .poll(() => entry('llama-b')?.found, LONG)
    .toMatchObject({ phase: 'unhealthy', reason: '/health: ECONNREFUSED' });
  cluster.remove('ym-llama');
  await expect.poll(() => entry('llama-b'), LONG).toBeUndefined();
});

it('an executor is scaled from zero by its backlog and back to zero, by the scale subresource alone', async () => {
  const { stream } = toolWork('shell');
  for (let i = 0; i < 3; i++)
    await dispatcher.enqueue(subjects.tool('shell', acme), ToolCallSchema, { callId: `0-${i}` });
  const replicas = () => cluster.scales.get('ym-executor-shell')!.replicas;
  await expect.poll(replicas, LONG).toBe(1);
  const shell = async () => (await view()).executors.find(({ name }) => name === 'shell');
  await expect.poll(shell, LONG).toMatchObject({ current: 1, desired: 1, need: 3n, state: 'ok', callsPerPod: 3 });
  await setup.nc.request(`$JS.API.STREAM.PURGE.${stream}`, '');
  await expect.poll(replicas, LONG).toBe(0);
  const went = ({ executor, action }: { executor: string; action: string }) =>
    executor === 'shell' && action === 'down';
  await expect.poll(async () => (await view()).decisions.some(went), LONG).toBe(true);
  const writes = cluster.requests.filter(
    ({ method, path }) => method !== 'GET' && !path.includes('/leases/') && !path.endsWith('/leases'),
  );
  expect(new Set(writes.map(({ method, path, type }) => `${method} ${path} ${type}`))).toEqual(
    new Set(['PATCH /apis/apps/v1/namespaces/yard/deployments/ym-executor-shell/scale application/merge-patch+json']),
  );
});

it('a queue that is not there holds the number, and says which', async () => {
  const files = async () => (await view()).executors.find(({ name }) => name === 'files');
  await expect.poll(files, LONG).toMatchObject({ state: 'hold', current: 2, desired: 2 });
  expect((await files())!.reason).toContain(`the queue of kind "files" (${toolStream('files')}) cannot be read`);
  expect((await files())!.need).toBeUndefined();
});

it('conflicts of the API server are tried again, and nobody else is overwritten', async () => {
  let refused = 0;
  cluster.intercept = ({ method, path }) =>
    method === 'PATCH' && path.endsWith('/scale') && refused++ < 2 ? 409 : undefined;
  await dispatcher.enqueue(subjects.tool('shell', acme), ToolCallSchema, { callId: '1-0' });
  await expect.poll(() => cluster.scales.get('ym-executor-shell')!.replicas, LONG).toBe(1);
  expect(refused).toBeGreaterThan(2);
  await setup.nc.request(`$JS.API.STREAM.PURGE.${toolStream('shell')}`, '');
});

it('a second replica takes over, and takes away what the first one left', async () => {
  const second = await startFleet('second');
  cluster.put('ym-llama', { '127.0.0.9': { pod: 'llama-left' } }, 9);
  await expect.poll(() => entry('llama-left')?.found.phase, LONG).toBe('loading');
  expect((await view()).leader).toBe('first');
  // The first one has gone before the pod does.
  await closers.find((_, i) => i === 0)!();
  cluster.remove('ym-llama');
  await expect.poll(async () => (await view()).leader, { timeout: 30_000 }).toBe('second');
  await expect.poll(() => entry('llama-left'), LONG).toBeUndefined();
  const page = await second.health.metrics.metrics();
  expect(page).toContain('yardmaster_fleet_leader{service="fleet"} 1');
  expect(page).toMatch(/yardmaster_fleet_executor_held\{executor="files",service="fleet"\} 1/);
});
