// Everything that the fault scenarios happen to: all services as processes on real servers, two executors of our own
// tools, a scripted model, and eyes on all of it.
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bus } from '@yardmaster/bus';
import { apiKeyEntryName, BUCKETS, mintApiKey, ROLES, tenantId } from '@yardmaster/contracts';
import { type DemoModel, type Message, type Reaction, startModel } from '@yardmaster/local-stack';
import { stringify } from 'yaml';
import type { RunView, StoredEvent } from '../api-views.ts';

const { LocalStack, DEMO_TENANT } = await import('../../services/yard/dist/stack/local-stack.js');
const { ServiceProcess } = await import('../../services/yard/dist/stack/service-process.js');
type Stack = Awaited<ReturnType<typeof LocalStack.start>>;
type Process = InstanceType<typeof ServiceProcess>;

export { DEMO_TENANT };
export const LEASE_MS = 3_000;
export const ACK_WAIT_MS = 2_000;
/** After this long the leader has swept everything at least twice. */
export const JANITOR_MS = 5_000;

/** A run that a scenario started; the oracle looks at each of them. */
export interface Touched {
  tenant: string;
  run: string;
  conversation: string;
}

export interface Effect {
  kind: 'start' | 'done';
  call: string;
  /** Milliseconds since the epoch. */
  at: number;
  /** With `start` the tool, with `done` what it answered. */
  text: string;
}

/** What the model says to one task: by content, never by count. */
export type Script = (request: {
  /** Messages from the task on. */
  messages: Message[];
  last: Message;
  /** Results of tools since the task. */
  results: Message[];
  n: number;
}) => Reaction | Promise<Reaction>;

/** One request to the model for a task. */
export interface Asked {
  /** Milliseconds since the epoch. */
  at: number;
  results: number;
}

export interface RigOptions {
  slack: number;
  env?: NodeJS.ProcessEnv;
  serviceEnv?: Partial<Record<string, NodeJS.ProcessEnv>>;
  replicas?: Partial<Record<string, number>>;
  slots?: number;
  share?: number;
  ackWaitMs?: number;
  /** More of the platform's configuration. */
  config?: Record<string, unknown>;
}

export interface ApiAnswer {
  status: number;
  text: string;
  json: Record<string, unknown>;
  headers: Headers;
}

export const TERMINAL = ['completed', 'failed', 'cancelled', 'incomplete'];

const TOOLS: Record<string, { effect: string; always_ask?: boolean; registered?: string }> = {
  effect: { effect: 'unsafe' },
  slow: { effect: 'unsafe' },
  ro: { effect: 'read' },
  big: { effect: 'read' },
  poison: { effect: 'read' },
};
export const UNSAFE_TOOLS = new Set(['effect', 'slow']);

export class Rig {
  readonly touched: Touched[] = [];
  readonly deaths: { name: string; exit: string; at: number }[] = [];
  /** Everything that was answered to each tenant. */
  readonly answers = new Map<string, string[]>();
  private readonly keys = new Map<string, string>();
  private readonly scripts = new Map<string, Script>();
  private readonly asks = new Map<string, Asked[]>();
  private readonly executors = new Map<string, Process>();
  private mayDie: { name: string; exit: string }[] = [];
  private tasks = 0;

  readonly stack: Stack;
  readonly model: DemoModel;
  readonly bus: Bus;
  /** Every time limit is multiplied by this. */
  readonly slack: number;
  readonly ackWaitMs: number;
  private readonly state: string;
  private readonly died: { tell?: (name: string, exit: string) => void };

  private constructor(
    parts: Pick<Rig, 'stack' | 'model' | 'bus' | 'slack' | 'ackWaitMs'>,
    state: string,
    died: { tell?: (name: string, exit: string) => void },
  ) {
    this.stack = parts.stack;
    this.model = parts.model;
    this.bus = parts.bus;
    this.slack = parts.slack;
    this.ackWaitMs = parts.ackWaitMs;
    this.state = state;
    this.died = died;
    died.tell = (name, exit) => this.deaths.push({ name, exit, at: performance.now() });
    this.keys.set(DEMO_TENANT, parts.stack.file.api_key);
  }

  static async start(options: RigOptions): Promise<Rig> {
    const state = mkdtempSync(join(tmpdir(), 'yardmaster-faults-'));
    const holder: { rig?: Rig } = {};
    const model = await startModel({ voice: 'native', script: ({ messages }) => holder.rig!.react(messages) });
    const died: { tell?: (name: string, exit: string) => void } = {};
    const ackWaitMs = options.ackWaitMs ?? ACK_WAIT_MS;
    let stack: Stack | undefined;
    let bus: Bus | undefined;
    try {
      const provider = { kind: 'openai', base_url: model.url, auth: 'none', native_tools: true, models: ['demo'] };
      const yaml = stringify({
        providers: { fake: provider },
        routing: { default_model: 'demo', providers: ['fake'], retries: 0, backoff_ms: 10 },
        ...options.config,
      });
      stack = await LocalStack.start({
        state,
        model: { yaml, words: '', model: 'demo', demo: true },
        apiPort: 0,
        executors: ['shell', 'files', 'fault'],
        ackWaitMs,
        ...(options.share === undefined ? {} : { share: options.share }),
        replicas: { 'executor-shell': 0, 'executor-files': 0, dispatcher: 2, api: 2, ...options.replicas },
        env: {
          YM_DISPATCHER_LEASE_MS: String(LEASE_MS),
          YM_DISPATCHER_ACK_WAIT_MS: String(ackWaitMs),
          YM_DISPATCHER_SWEEP_MS: '300',
          YM_DISPATCHER_JANITOR_MS: '1000',
          ...options.env,
        },
        ...(options.serviceEnv === undefined ? {} : { serviceEnv: options.serviceEnv }),
        onProgress: ({ what, state: now, words }) => {
          if (now === 'died') died.tell?.(what, words?.split(';')[0] ?? '');
        },
      });
      bus = await Bus.connect({ url: stack.nats.url, ...stack.nats.login('setup'), log: SILENT });
      const rig = new Rig({ stack, model, bus, slack: options.slack, ackWaitMs }, state, died);
      holder.rig = rig;
      await Promise.all([rig.startExecutor('fault-1', options.slots), rig.startExecutor('fault-2', options.slots)]);
      await rig.registerTools(DEMO_TENANT);
      return rig;
    } catch (error) {
      await bus?.close().catch(() => {});
      await stack?.stop();
      await model.stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.executors.values()].map((executor) => executor.stop(3_000)));
    await this.bus.close().catch(() => {});
    await this.stack.stop();
    await this.model.stop();
    rmSync(this.state, { recursive: true, force: true, maxRetries: 3 });
  }

  // -- processes --

  private async startExecutor(name: string, slots = 8): Promise<void> {
    const secret = join(this.state, 'secrets', `nats-${name}`);
    mkdirSync(join(this.state, 'secrets'), { recursive: true });
    writeFileSync(secret, this.stack.nats.login('executor-fault').pass, { mode: 0o600 });
    const executor = new ServiceProcess({
      name,
      entry: join(import.meta.dirname, 'executor.ts'),
      env: {
        ...process.env,
        YM_NATS_URL: this.stack.nats.url,
        YM_NATS_PASSWORD_FILE: secret,
        YM_PARENT_PID: String(process.pid),
        FAULT_EFFECTS: this.effectsFile,
        FAULT_SLOTS: String(slots),
        FAULT_ACK_WAIT_MS: String(this.ackWaitMs),
      },
      log: join(this.state, 'logs', `${name}.log`),
      onDeath: (exit) => this.died.tell?.(name, exit),
    });
    this.executors.set(name, executor);
    await executor.start(60_000);
  }

  private async stopExecutors(): Promise<void> {
    await Promise.all([...this.executors.values()].map((executor) => executor.stop(3_000)));
    this.executors.clear();
  }

  /** Runs `work` while no executor is there; then two new ones start at the same moment. */
  async withoutExecutors(work: () => Promise<void>): Promise<void> {
    await this.stopExecutors();
    await work();
    await Promise.all([this.startExecutor('fault-1'), this.startExecutor('fault-2')]);
  }

  /** Names of the processes of a service. */
  processesOf(service: string): string[] {
    if (service === 'executor') return [...this.executors.keys()];
    return [...this.stack.pids.keys()].filter(
      (name) => name === service || (name.startsWith(`${service}-`) && /-\d+$/.test(name)),
    );
  }

  pid(name: string): number | undefined {
    return this.executors.get(name)?.pid ?? this.stack.pids.get(name);
  }

  async restart(name: string, env: NodeJS.ProcessEnv = {}): Promise<void> {
    const executor = this.executors.get(name);
    if (executor !== undefined) await executor.restart(env, 5_000, 60_000);
    else await this.stack.restart(name, env);
  }

  /** The death of this process belongs to the scenario. */
  expectDeath(name: string, exit = 'SIGKILL'): void {
    this.mayDie.push({ name, exit });
  }

  /** Ends a process as a power cut would. */
  kill(name: string): void {
    this.expectDeath(name);
    process.kill(this.pid(name)!, 'SIGKILL');
  }

  get unexpectedDeaths(): string[] {
    const allowed = [...this.mayDie];
    return this.deaths.flatMap(({ name, exit }) => {
      const at = allowed.findIndex((each) => each.name === name && each.exit === exit);
      if (at >= 0) allowed.splice(at, 1);
      return at >= 0 ? [] : [`${name} ended by itself (${exit})`];
    });
  }

  /**
   * Arms a failpoint in one process of a service and begins tasks until it is that process that gets there. Answers the
   * task that met it, and when.
   */
  async fall<T>(failpoint: string, begin: () => Promise<T>): Promise<{ task: T; at: number; name: string }> {
    const service = failpoint.slice(0, failpoint.indexOf('.'));
    const name = this.processesOf(service)[0]!;
    // A call of the others can last for long: without them it is the armed executor that gets the first one.
    const others = service === 'executor' ? this.processesOf(service).slice(1) : [];
    for (const other of others) await this.executors.get(other)!.stop(5_000);
    const before = this.deaths.length;
    await this.restart(name, { YM_FAILPOINT: failpoint });
    this.expectDeath(name);
    const died = async () => {
      const death = this.deaths.slice(before).find((each) => each.name === name);
      if (death !== undefined) for (const other of others.splice(0)) await this.startExecutor(other);
      return death;
    };
    for (let tries = 0; tries < 30; tries++) {
      const task = await begin();
      const run = (task as { id?: string }).id;
      for (;;) {
        const death = await died();
        if (death !== undefined) return { task, at: death.at, name };
        if (run !== undefined && TERMINAL.includes((await this.get(run)).state)) break;
        await sleep(20);
      }
      // Its death may be noticed after the run of somebody else has ended; one of ours it would have broken off.
      await sleep(50);
      const death = await died();
      if (death !== undefined) return { task, at: death.at, name };
    }
    throw new Error(`no run got to ${failpoint} in ${name}`);
  }

  // -- the model --

  private async react(messages: Message[]): Promise<Reaction> {
    const at = messages.findLastIndex((message) => message.role === 'user' && /\[\[\w+\]\]/.test(plain(message)));
    const tag = /\[\[(\w+)\]\]/.exec(at < 0 ? '' : plain(messages[at]!))?.[1] ?? '';
    const since = messages.slice(at);
    const results = since.filter((message) => message.role === 'tool');
    const asked = this.asks.get(tag) ?? [];
    this.asks.set(tag, asked);
    asked.push({ at: Date.now(), results: results.length });
    const script = this.scripts.get(tag);
    if (script === undefined) return { text: 'done' };
    return script({ messages: since, last: since.at(-1)!, results, n: asked.length });
  }

  /** A task's text, by which the model knows its script. */
  task(script: Script, more = ''): string {
    const tag = `task${++this.tasks}`;
    this.scripts.set(tag, script);
    return `[[${tag}]] ${more}`;
  }

  /** The requests that the model saw for a task. */
  asked(text: string): Asked[] {
    return this.asks.get(/\[\[(\w+)\]\]/.exec(text)![1]!) ?? [];
  }

  // -- the API --

  /** An API key of a tenant, made when it is first asked for. */
  async key(tenant: string): Promise<string> {
    const known = this.keys.get(tenant);
    if (known !== undefined) return known;
    const minted = await mintApiKey(tenantId(tenant), { name: 'faults', roles: [...ROLES] });
    await this.bus
      .kv(BUCKETS.tenants)
      .put(apiKeyEntryName(tenantId(tenant), minted.entry.id), JSON.stringify(minted.entry));
    this.keys.set(tenant, minted.key);
    await this.until(async () => (await this.api('/v1/me', { tenant })).status === 200, 'the new key works', 10_000);
    await this.until(
      async () => (await this.api('/v1/me', { tenant, replica: 1 })).status === 200,
      'it works everywhere',
      10_000,
    );
    await this.registerTools(tenant);
    return minted.key;
  }

  private async registerTools(tenant: string): Promise<void> {
    const parameters = {
      type: 'object',
      properties: { x: { type: 'string' }, n: { type: 'number' }, ms: { type: 'number' } },
      additionalProperties: false,
    };
    for (const [name, { effect }] of Object.entries(TOOLS)) await this.putTool(tenant, name, { effect, parameters });
    await this.until(
      async () => {
        const text = this.task(() => ({ text: 'ready' }));
        const run = await this.start({ input: text, tools: Object.keys(TOOLS) }, { tenant });
        return (await this.settled(run.id, { tenant })).state === 'completed';
      },
      'the dispatchers know the tools',
      15_000,
    );
  }

  async putTool(tenant: string, name: string, more: Record<string, unknown>): Promise<void> {
    const body = {
      description: `${name} of the fault scenarios`,
      kind: 'fault',
      category: 'execute',
      timeout_ms: 120_000,
      ...more,
    };
    const answer = await this.api(`/v1/tools/${name}`, { method: 'PUT', json: body, tenant });
    if (answer.status >= 300) throw new Error(`the tool ${name} was not registered: ${answer.status} ${answer.text}`);
  }

  url(replica = 0): string {
    const name = this.processesOf('api')[replica]!;
    const url = this.stack.readyLines.get(name)?.api_url;
    if (url === undefined) throw new Error(`${name} is not up`);
    return url;
  }

  async raw(
    path: string,
    {
      json,
      tenant = DEMO_TENANT,
      replica = 0,
      ...init
    }: RequestInit & { json?: unknown; tenant?: string; replica?: number } = {},
  ): Promise<Response> {
    const key = this.keys.get(tenant) ?? (await this.key(tenant));
    return fetch(`${this.url(replica)}${path}`, {
      ...init,
      ...(json === undefined ? {} : { method: init.method ?? 'POST', body: JSON.stringify(json) }),
      headers: {
        authorization: `Bearer ${key}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(init.headers as Record<string, string>),
      },
    });
  }

  async api(path: string, init: Parameters<Rig['raw']>[1] = {}): Promise<ApiAnswer> {
    const response = await this.raw(path, init);
    const text = await response.text();
    const tenant = init.tenant ?? DEMO_TENANT;
    const kept = this.answers.get(tenant) ?? [];
    this.answers.set(tenant, kept);
    kept.push(text);
    let json: Record<string, unknown> = {};
    try {
      json = JSON.parse(text) as Record<string, unknown>;
    } catch {
      // Not every answer is JSON.
    }
    return { status: response.status, text, json, headers: response.headers };
  }

  /** Starts a run and remembers it for the oracle. */
  async start(
    body: Record<string, unknown>,
    { tenant = DEMO_TENANT, replica = 0, key }: { tenant?: string; replica?: number; key?: string } = {},
  ): Promise<RunView> {
    const answer = await this.api('/v1/runs', {
      json: { tools: Object.keys(TOOLS), ...body },
      tenant,
      replica,
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
    });
    if (answer.status >= 300) throw new Error(`POST /v1/runs: ${answer.status} ${answer.text}`);
    const run = answer.json as unknown as RunView;
    this.touch(run, tenant);
    return run;
  }

  touch(run: RunView, tenant = DEMO_TENANT): void {
    if (!this.touched.some((each) => each.run === run.id))
      this.touched.push({ tenant, run: run.id, conversation: run.conversation_id });
  }

  async get(run: string, { tenant = DEMO_TENANT }: { tenant?: string } = {}): Promise<RunView> {
    // A replica that has just been killed is no news about the run.
    for (let replica = 0, tries = 0; ; replica = 1 - replica, tries++) {
      try {
        const answer = await this.api(`/v1/runs/${run}`, { tenant, replica });
        if (answer.status === 200) return answer.json as unknown as RunView;
        if (answer.status < 500 || tries > 40) throw new Error(`GET run ${run}: ${answer.status} ${answer.text}`);
      } catch (error) {
        if (tries > 40 || (error as Error).message.startsWith('GET run')) throw error;
      }
      await sleep(100);
    }
  }

  /** Waits until the run is over or parked. The time limit is multiplied by the rig's slack. */
  async settled(
    run: string,
    { tenant = DEMO_TENANT, ms = 30_000 }: { tenant?: string; ms?: number } = {},
  ): Promise<RunView> {
    const end = performance.now() + ms * this.slack;
    for (;;) {
      const view = await this.get(run, { tenant });
      if ([...TERMINAL, 'waiting_approval'].includes(view.state)) return view;
      if (performance.now() > end) throw new Error(`run ${run} is still ${view.state} after ${ms * this.slack} ms`);
      await sleep(25);
    }
  }

  async events(run: string, tenant = DEMO_TENANT): Promise<StoredEvent[]> {
    const found: StoredEvent[] = [];
    for (let last = 0; ;) {
      const answer = await this.api(`/v1/runs/${run}/events?after=${last}`, {
        tenant,
        headers: { accept: 'application/json' },
      });
      const items = (answer.json['items'] ?? []) as StoredEvent[];
      if (items.length === 0) return found;
      found.push(...items);
      last = items.at(-1)!.id;
    }
  }

  // -- what happened --

  get effectsFile(): string {
    return join(this.state, 'effects.log');
  }

  effects(run?: string): Effect[] {
    if (!existsSync(this.effectsFile)) return [];
    return readFileSync(this.effectsFile, 'utf8')
      .split('\n')
      .flatMap((line) => {
        const [, kind, call, at, text] = /^(start|done) (\S+) (\d+) (.*)$/.exec(line) ?? [];
        return kind && call && (run === undefined || call.startsWith(`${run}/`))
          ? [{ kind: kind as Effect['kind'], call, at: Number(at), text: text ?? '' }]
          : [];
      });
  }

  starts = (run: string) => this.effects(run).filter(({ kind }) => kind === 'start').length;
  dones = (run: string) => this.effects(run).filter(({ kind }) => kind === 'done').length;

  /** Process groups that the tools' commands started and that still live. */
  livingCommands(): number[] {
    if (!existsSync(this.effectsFile)) return [];
    return readFileSync(this.effectsFile, 'utf8')
      .split('\n')
      .flatMap((line) => {
        const pid = Number(/^process (\d+)$/.exec(line)?.[1] ?? 0);
        if (pid === 0) return [];
        try {
          process.kill(-pid, 0);
          return [pid];
        } catch {
          return [];
        }
      });
  }

  /** Writes an effect that a scenario makes up; for tests of the oracle. */
  note(line: string): void {
    appendFileSync(this.effectsFile, `${line}\n`);
  }

  logs(): Map<string, string> {
    const folder = join(this.state, 'logs');
    return new Map(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), 'utf8')]));
  }

  /** Waits until `holds`; the time is multiplied by the slack. */
  async until(holds: () => Promise<boolean> | boolean, what: string, ms = 15_000): Promise<void> {
    const end = performance.now() + ms * this.slack;
    let last: unknown;
    for (;;) {
      try {
        if (await holds()) return;
        last = undefined;
      } catch (error) {
        last = error;
      }
      if (performance.now() > end)
        throw new Error(`not within ${Math.round(ms * this.slack)} ms: ${what}${last ? ` (${String(last)})` : ''}`);
      await sleep(25);
    }
  }
}

export const plain = ({ content }: Message): string =>
  typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? '').join('');

/** One call of the tool, then `done`. */
export const twoCalls =
  (name: string, args: Record<string, unknown> = { x: 'a' }): Script =>
  ({ last }) =>
    last.role === 'user' ? { calls: [{ name, arguments: args }] } : { text: 'done' };

/** So many rounds of one call of `ro`, each with a new argument. */
export const rounds =
  (count: number, ms = 0): Script =>
  ({ results }) =>
    results.length < count
      ? { calls: [{ name: 'ro', arguments: { x: `round ${results.length}`, ...(ms === 0 ? {} : { ms }) } }] }
      : { text: 'done' };

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
