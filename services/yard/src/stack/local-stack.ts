import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { connectRedis, loadFunctions } from '@yardmaster/conversation';
import {
  apiKeyEntryName,
  BUILT_IN_EXECUTORS,
  BUCKETS,
  mintApiKey,
  redisUsers,
  ROLES,
  tenantId,
} from '@yardmaster/contracts';
import { type Exit, type NatsServer, natsTable, type RedisServer, startRedis } from '@yardmaster/local-stack';
import { LAST_STACK, type LastStack, serviceEntry, type StackFile, stateFolder } from './checkout.js';
import { addedExecutors } from './added-executors.js';
import { declaredExecutors } from './declared-executors.js';
import { isOwnExecutors, keptPasswords, startNatsAsBefore } from './kept-nats.js';
import type { FoundModel } from './model-search.js';
import { type ReadyLine, ServiceProcess } from './service-process.js';

export interface StackOptions {
  /** Folder for data, logs, secrets and workspaces; `.yard` in the checkout unless said otherwise. */
  state?: string;
  model: FoundModel;
  /** Preferred API port; another one is taken when it is in use. */
  apiPort?: number;
  logLevel?: string;
  /** Extra variables for all services (tests shorten times with them). */
  env?: NodeJS.ProcessEnv;
  /** Extra variables for one service, such as a failpoint. */
  serviceEnv?: Partial<Record<string, NodeJS.ProcessEnv>>;
  /** Several processes of a service; 1 where nothing is said. */
  replicas?: Partial<Record<string, number>>;
  executors?: readonly string[];
  share?: number;
  ackWaitMs?: number;
  /** Ends the start: what came up is ended again, and `start` rejects with its reason. */
  signal?: AbortSignal;
  /** How long a service may take to end before it is killed, in milliseconds. */
  graceMs?: number;
  /** Told as things come up, go down, or are noteworthy. */
  onProgress: (event: { what: string; state: 'ready' | 'died' | 'note'; ms?: number; words?: string }) => void;
}

const READY_MS = 60_000;
const SERVICE_GRACE_MS = 10_000;
export const DEFAULT_API_PORT = 4400;
/** The tenant of local stacks. */
export const DEMO_TENANT = 'demo';

/** Names of the services, in the order in which they come up. */
export const serviceNames = () => SERVICES.map(({ name }) => name);

/** Which services have a Redis login, and the order in which they come up: who is asked before who asks. */
const SERVICES: readonly { name: string; redis: boolean; executor?: string }[] = [
  { name: 'registry', redis: false },
  { name: 'router', redis: true },
  { name: 'executor-files', redis: false, executor: 'files' },
  { name: 'executor-shell', redis: false, executor: 'shell' },
  { name: 'dispatcher', redis: true },
  { name: 'api', redis: true },
];

/** Attempts to start a server again that ended by itself, a second apart. */
const REVIVALS = 10;

/** All of Yardmaster on this machine: real nats-server and redis-server with generated logins, and every service. */
export class LocalStack {
  readonly state: string;
  private readonly processes = new Map<string, ServiceProcess>();
  private stopped: Promise<void> | undefined;
  private readonly revivals = new Set<Promise<void>>();
  private adding: Promise<void> = Promise.resolve();

  private constructor(
    private readonly options: StackOptions,
    readonly nats: NatsServer,
    readonly redis: RedisServer,
    readonly file: StackFile,
  ) {
    this.state = options.state ?? stateFolder();
  }

  /** Starts everything; on any failure what was started is ended again. */
  static async start(options: StackOptions): Promise<LocalStack> {
    const state = options.state ?? stateFolder();
    for (const folder of ['data', 'logs', 'secrets', 'workspaces'])
      mkdirSync(join(state, folder), { recursive: true, mode: 0o700 });
    rmSync(join(state, LAST_STACK), { force: true });
    const declared = declaredExecutors(options.model.yaml);
    const kinds = [...new Set([...(options.executors ?? BUILT_IN_EXECUTORS), ...declared, ...addedExecutors(state)])];
    const began = performance.now();
    // The servers are there before the stack is; until then a start that fails ends everything anyway.
    const up: { stack?: LocalStack } = {};
    const [nats, redis] = await Promise.all([
      startNatsAsBefore(state, (words) => options.onProgress({ what: 'port', state: 'note', words }), {
        accounts: natsTable(kinds),
        passwords: keptPasswords(state),
        dir: join(state, 'data', 'nats'),
        onCrash: (exit) => up.stack?.reviveServer('nats-server', up.stack.nats, exit),
      }),
      startRedis({
        users: redisUsers(),
        dir: join(state, 'data', 'redis'),
        onCrash: (exit) => up.stack?.reviveServer('redis-server', up.stack.redis, exit),
      }),
    ]);
    options.onProgress({ what: 'nats-server, redis-server', state: 'ready', ms: performance.now() - began });
    const key = await mintApiKey(tenantId(DEMO_TENANT), { name: 'local stack', roles: [...ROLES] });
    const file: StackFile = {
      pid: process.pid,
      api_url: '',
      api_key: key.key,
      nats_url: nats.urlFor('setup'),
      redis_url: redis.urlFor('bootstrap'),
      console_url: '',
      services: {},
      started_at: new Date().toISOString(),
      model: { name: options.model.model, demo: options.model.demo },
      logs: join(state, 'logs'),
      executors: [],
      health: {},
      ready: false,
    };
    const stack = new LocalStack(options, nats, redis, file);
    up.stack = stack;
    try {
      await Promise.race([stack.comeUp(kinds, key), aborted(options.signal)]);
      options.signal?.throwIfAborted();
      return stack;
    } catch (error) {
      await stack.stop();
      throw error;
    }
  }

  private async comeUp(kinds: readonly string[], key: Awaited<ReturnType<typeof mintApiKey>>): Promise<void> {
    await this.setUp(kinds, key);
    if (this.options.signal?.aborted !== true) await this.startServices();
  }

  /** Streams, buckets, Redis functions, and the key of the demo tenant: what an installation does once. */
  private async setUp(kinds: readonly string[], key: Awaited<ReturnType<typeof mintApiKey>>): Promise<void> {
    const bus = await Bus.connect({ url: this.nats.url, ...this.nats.login('setup'), log: silent });
    try {
      await this.makeQueues(bus, kinds);
      await bus
        .kv(BUCKETS.tenants)
        .put(apiKeyEntryName(tenantId(DEMO_TENANT), key.entry.id), JSON.stringify(key.entry));
    } finally {
      await bus.close();
    }
    this.announce(kinds);
    process.on('SIGUSR2', this.onAdded);
    await this.loadFunctions();
    if (this.options.model.file === undefined) writeFileSync(this.configFile, this.options.model.yaml, { mode: 0o600 });
  }

  private async makeQueues(bus: Bus, kinds: readonly string[]): Promise<void> {
    const report = await ensureTopology(bus, {
      kinds,
      ...(this.options.share === undefined ? {} : { share: this.options.share }),
      ...(this.options.ackWaitMs === undefined ? {} : { ackWaitMs: this.options.ackWaitMs }),
    });
    for (const problem of report.problems) this.options.onProgress({ what: 'streams', state: 'note', words: problem });
  }

  /** Those that others run find their password here. */
  private announce(kinds: readonly string[]): void {
    for (const kind of kinds) this.secretFile(`nats-executor-${kind}`, this.nats.login(`executor-${kind}`).pass);
    this.file.executors = [...kinds];
  }

  private readonly onAdded = (): void => {
    this.adding = this.adding.then(() => this.addExecutors());
  };

  /** Makes queue, account and login of the kinds that `yard executor add` has put on the list; nobody is disconnected. */
  private async addExecutors(): Promise<void> {
    const known = this.file.executors ?? [];
    const kinds = [...new Set([...known, ...addedExecutors(this.state)])];
    if (this.stopped !== undefined) return;
    try {
      delete this.file.executor_problem;
      if (kinds.length > known.length) {
        await this.nats.reload(natsTable(kinds));
        const bus = await Bus.connect({ url: this.nats.url, ...this.nats.login('setup'), log: silent });
        await this.makeQueues(bus, kinds).finally(() => bus.close());
        this.announce(kinds);
        const added = kinds.slice(known.length).join(', ');
        this.options.onProgress({ what: `executors ${added}`, state: 'note', words: 'can log in now' });
      }
    } catch (error) {
      this.file.executor_problem = (error as Error).message;
      this.options.onProgress({ what: 'executors', state: 'note', words: (error as Error).message });
    }
    this.writeFile();
  }

  /** Runs at every start of Redis: without an append-only file its functions are gone with it. */
  async loadFunctions(): Promise<void> {
    const redis = connectRedis({ url: this.redis.urlFor('bootstrap') });
    try {
      await loadFunctions(redis);
    } finally {
      redis.disconnect();
    }
  }

  private async startServices(): Promise<void> {
    const kinds = this.options.executors ?? BUILT_IN_EXECUTORS;
    await Promise.all(
      SERVICES.filter(({ executor }) => executor === undefined || kinds.includes(executor)).flatMap((service) =>
        Array.from({ length: this.options.replicas?.[service.name] ?? 1 }, (_, index) =>
          this.startService(service, index),
        ),
      ),
    );
    this.file.ready = true;
    this.writeFile();
  }

  private async startService(service: (typeof SERVICES)[number], index: number): Promise<void> {
    const name = index === 0 ? service.name : `${service.name}-${index + 1}`;
    const began = performance.now();
    const child = new ServiceProcess({
      name,
      entry: serviceEntry(service.name),
      env: this.environment(service, index),
      log: join(this.state, 'logs', `${name}.log`),
      onReady: (line) => {
        this.file.services[name] = line.pid;
        this.file.health![name] = `http://127.0.0.1:${line.healthPort}`;
        if (service.name === 'api' && index === 0 && line.api_url !== undefined) {
          this.file.api_url = line.api_url;
        }
        if (this.file.api_url !== '') this.writeFile();
        this.options.onProgress({ what: name, state: 'ready', ms: performance.now() - began });
      },
      onDeath: (exit) => this.options.onProgress({ what: name, state: 'died', words: `${exit}; it is started again` }),
    });
    this.processes.set(name, child);
    await child.start(READY_MS);
  }

  /** Restarts one process of the stack (as named in `pids`) with extra variables; resolves when it is ready. */
  async restart(name: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
    const child = this.processes.get(name);
    if (child === undefined)
      throw new Error(`no "${name}" runs here; there are: ${[...this.processes.keys()].join(', ')}`);
    await child.restart(env, SERVICE_GRACE_MS, READY_MS);
  }

  /** The variables that another process of this service needs to join the stack. */
  environmentOf(name: string): NodeJS.ProcessEnv {
    const service = SERVICES.find((candidate) => candidate.name === name);
    if (service === undefined) throw new Error(`there is no service "${name}"`);
    return this.environment(service, 1);
  }

  private environment(service: (typeof SERVICES)[number], index: number): NodeJS.ProcessEnv {
    const { nats, redis, options } = this;
    const user = service.executor === undefined ? service.name : `executor-${service.executor}`;
    return {
      ...withoutOurs(process.env),
      YM_NATS_URL: nats.url,
      YM_NATS_USER: user,
      YM_NATS_PASSWORD_FILE: this.secretFile(`nats-${user}`, nats.login(user).pass),
      ...(service.redis
        ? {
            YM_REDIS_URL: redis.url,
            YM_REDIS_USER: service.name,
            YM_REDIS_PASSWORD_FILE: this.secretFile(
              `redis-${service.name}`,
              decodeURIComponent(new URL(redis.urlFor(service.name)).password),
            ),
          }
        : {}),
      YM_CONFIG: this.configFile,
      YM_WORKSPACES: join(this.state, 'workspaces'),
      YM_LOG_LEVEL: options.logLevel ?? 'info',
      YM_PARENT_PID: String(process.pid),
      YM_HOST: '127.0.0.1',
      YM_DRAIN_MS: String(Math.max(500, this.graceMs - 2_000)),
      // The sandbox of MCP servers, where bubblewrap is not on PATH.
      ...(service.name === 'registry' && process.env['YM_BWRAP'] ? { YM_REGISTRY_BWRAP: process.env['YM_BWRAP'] } : {}),
      ...(service.name === 'api'
        ? { YM_API_PORT: String(index === 0 ? (options.apiPort ?? DEFAULT_API_PORT) : 0), YM_API_PORT_FALLBACK: 'true' }
        : {}),
      ...options.env,
      ...options.serviceEnv?.[service.name],
    };
  }

  /** The caller's own file where there is one, so that its changes count; else what was found, written down. */
  private get configFile(): string {
    return this.options.model.file ?? join(this.state, 'config.yaml');
  }

  private secretFile(name: string, secret: string): string {
    const file = join(this.state, 'secrets', name);
    writeFileSync(file, secret, { mode: 0o600 });
    return file;
  }

  private get graceMs(): number {
    return this.options.graceMs ?? SERVICE_GRACE_MS;
  }

  get pids(): ReadonlyMap<string, number | undefined> {
    return new Map([...this.processes].map(([name, child]) => [name, child.pid]));
  }

  /** What each process said when it became ready: its ports, for the api its address. */
  get readyLines(): ReadonlyMap<string, ReadyLine | undefined> {
    return new Map([...this.processes].map(([name, child]) => [name, child.ready]));
  }

  private writeFile(): void {
    if (this.stopped === undefined)
      writeFileSync(join(this.state, 'dev.json'), `${JSON.stringify(this.file, null, 2)}\n`, { mode: 0o600 });
  }

  /** Starts a server that ended by itself again, on its port and with its data. */
  private reviveServer(what: string, server: NatsServer | RedisServer, { code, lastWords }: Exit): void {
    if (this.stopped !== undefined) return;
    const say = this.options.onProgress;
    say({ what, state: 'died', words: `exit code ${code}; it is started again` });
    const revival = (async () => {
      const began = performance.now();
      let failure: unknown = lastWords;
      for (let tries = 0; tries < REVIVALS && this.stopped === undefined; tries++) {
        try {
          await server.startAgain();
          return say({ what, state: 'ready', ms: performance.now() - began });
        } catch (error) {
          failure = error;
          // Its port may be held for as long as what is left of it takes to end.
          await new Promise((resolve) => setTimeout(resolve, 1000));
        }
      }
      if (this.stopped === undefined)
        say({ what, state: 'died', words: `it cannot be started again: ${String(failure)}` });
    })();
    this.revivals.add(revival);
    void revival.finally(() => this.revivals.delete(revival));
  }

  /** Services first, in the reverse of their order, so that nothing in flight loses who it waits for; then the servers. */
  stop(): Promise<void> {
    return (this.stopped ??= this.end());
  }

  private async end(): Promise<void> {
    process.off('SIGUSR2', this.onAdded);
    await this.adding;
    rmSync(join(this.state, 'dev.json'), { force: true });
    const last: LastStack = { api_url: this.file.api_url, stopped_at: new Date().toISOString() };
    if (this.file.api_url !== '') writeFileSync(join(this.state, LAST_STACK), JSON.stringify(last), { mode: 0o600 });
    const order = SERVICES.map(({ name }) => name).reverse();
    for (const name of order)
      await Promise.all(
        [...this.processes]
          .filter(([process]) => process === name || (process.startsWith(`${name}-`) && /-\d+$/.test(process)))
          .map(([, child]) => child.stop(this.graceMs)),
      );
    await Promise.all(this.revivals);
    await Promise.all([this.nats.stop(), this.redis.stop()]);
    for (const name of readdirSync(join(this.state, 'secrets')))
      if (!isOwnExecutors(name)) rmSync(join(this.state, 'secrets', name), { force: true });
  }
}

/** Rejects when the signal aborts; never resolves. */
function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Variables of an outer Yardmaster would mislead the services of this stack; keys of providers pass. */
function withoutOurs(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const ours = new Set(['YM_NATS_SERVER', 'YM_REDIS_SERVER', 'YM_BWRAP']);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('YM_') || ours.has(name)));
}
