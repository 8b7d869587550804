import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DynamicModule, Module } from '@nestjs/common';
import { Bus, ensureTopology, HandBack } from '@yardmaster/bus';
import {
  apiKeyEntryName,
  BUCKETS,
  ERROR_CATALOGUE,
  Fleet,
  messages,
  mintApiKey,
  newId,
  Registry,
  ROLES,
  Router,
  type Role,
  Runs,
  subjects,
  tenantId,
  YardError,
} from '@yardmaster/contracts';
import { connectRedis, ConversationStore, loadFunctions, usageDay } from '@yardmaster/conversation';
import {
  BUS,
  createLogger,
  Health,
  HEALTH,
  loadConfig,
  LOGGER,
  SERVICE,
  type ServiceContext,
} from '@yardmaster/service-kit';
import { type Servers, startServers } from '@yardmaster/testkit';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { ApiModule } from './api.module.js';
import { ApiConfig } from './config.js';
import { createApi, listen } from './http/application.js';
import type { FeedEvent } from './runs/run-feed.js';

@Module({})
class Root {}

const acme = tenantId('acme');
const globex = tenantId('globex');
let servers: Servers;
let setup: Bus;
let worker: Bus;
let store: ConversationStore;
let routerStore: ConversationStore;
let acmeKey: string;
let globexKey: string;
let readerKey: string;
const replicas: { url: string; close(): Promise<void> }[] = [];

const CONFIG = `
providers:
  local: { kind: llamacpp, models: [qwen3-7b] }
routing: { default_model: qwen3-7b }
agents:
  coder: { model: qwen3-7b, tools: [shell_run] }
`;

async function startApi(env: Record<string, string> = {}) {
  const { user, pass } = servers.nats.login('api');
  const bus = await Bus.connect({ url: servers.natsUrl, user, pass });
  const log = createLogger('api', 'silent');
  const health = new Health('api');
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-api-'));
  const file = join(folder, 'config.yaml');
  writeFileSync(file, CONFIG);
  const redis = new URL(servers.redis.urlFor('api'));
  const secret = join(folder, 'redis');
  writeFileSync(secret, redis.password);
  const config = loadConfig(ApiConfig, {
    YM_API_PORT: '0',
    YM_REDIS_URL: `redis://${redis.host}`,
    YM_REDIS_USER: redis.username,
    YM_REDIS_PASSWORD_FILE: secret,
    YM_CONFIG: file,
    YM_API_RPC_TIMEOUT_MS: '2000',
    YM_API_SSE_KEEPALIVE_MS: '200',
    ...env,
  });
  const closers: (() => Promise<void> | void)[] = [];
  const context: ServiceContext<ApiConfig> = {
    name: 'api',
    instance: newId(),
    config,
    log,
    health,
    bus,
    onClose: (close) => closers.push(close),
  };
  const root: DynamicModule = {
    module: Root,
    global: true,
    imports: [ApiModule],
    providers: [
      { provide: BUS, useValue: bus },
      { provide: LOGGER, useValue: log },
      { provide: HEALTH, useValue: health },
      { provide: SERVICE, useValue: context },
    ],
    exports: [BUS, LOGGER, HEALTH, SERVICE],
  };
  const { app, listening } = await listen(await createApi(root, context), context);
  const replica = {
    url: listening.api_url,
    async close() {
      await app.close();
      for (const close of closers) await close();
      await bus.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  replicas.push(replica);
  return replica;
}

async function makeKey(tenant: typeof acme, roles: Role[]): Promise<string> {
  const { key, entry } = await mintApiKey(tenant, { name: 'test', roles });
  await setup.kv(BUCKETS.tenants).put(apiKeyEntryName(tenant, entry.id), JSON.stringify(entry));
  return key;
}

beforeAll(async () => {
  servers = await startServers({ executors: [] });
  const connect = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  [setup, worker] = await Promise.all([connect('setup'), connect('dispatcher')]);
  await ensureTopology(setup, { kinds: [], ackWaitMs: 2_000 });
  const bootstrap = connectRedis({ url: servers.redis.urlFor('bootstrap') });
  await loadFunctions(bootstrap);
  bootstrap.disconnect();
  store = await ConversationStore.connect({ url: servers.redis.urlFor('dispatcher'), owner: 'test' });
  routerStore = await ConversationStore.connect({ url: servers.redis.urlFor('router'), owner: 'router' });
  acmeKey = await makeKey(acme, [...ROLES]);
  globexKey = await makeKey(globex, [...ROLES]);
  readerKey = await makeKey(acme, ['runs:read']);
  const registry = await connect('registry');
  registry.serve(Registry.resolve, ({ names }) => ({
    tools: [],
    unknown: Object.fromEntries(names.filter((name) => name !== 'shell_run').map((name) => [name, ''])),
  }));
  registry.serve(Registry.list, () => ({ tools: [{ name: 'shell_run', parametersJson: '{"type":"object"}' }] }));
  registry.serve(Registry.get, ({ name }) => {
    throw new YardError('NOT_FOUND', 'YM-TOOL-UNKNOWN', `There is no tool "${name}".`);
  });
  registry.serve(Registry.validate, ({ argumentsJson }) => ({
    ok: argumentsJson === '{"a":1}',
    argumentsJson,
    message: 'a must be 1',
  }));
  const router = await connect('router');
  router.serve(Router.providers, () => ({
    defaultModel: 'qwen3-7b',
    providers: [{ name: 'local', kind: 'llamacpp', models: ['qwen3-7b', 'small'], health: 'up', demo: true }],
  }));
  router.serve(Router.plan, ({ model }) => ({
    candidates: [{ provider: 'local', model, dialect: 'hermes', usable: true }],
  }));
  router.serve(Router.embed, ({ inputs }) => ({
    model: 'small',
    vectors: inputs.map((text) => ({ values: [text.length, 0.5] })),
  }));
  router.serveStream(Router.chat, async (request, context) => {
    const asked = JSON.parse(request.inlineMessagesJson || (await routerStore.bodies.get(acme, request.inlineKey))) as {
      content: string;
    }[];
    const text = String(asked.at(-1)?.content);
    const tools = request.inlineToolsJson !== '';
    const dialect = text === 'as text' ? 'hermes' : 'native';
    const native = tools && dialect === 'native';
    if (text === 'fail') throw new YardError('UNAVAILABLE', 'YM-LLM-EXHAUSTED', 'No provider answered.');
    context.send({
      kind: { case: 'start', value: { provider: 'local', model: 'qwen3-7b', dialect, attempt: 1 } },
    });
    if (text === 'restart') {
      context.send({ kind: { case: 'delta', value: 'half' } });
      context.send({ kind: { case: 'attemptReset', value: { reason: 'reset' } } });
    }
    const pieces =
      dialect === 'native'
        ? ['You said ', `${text.length} letters`]
        : ['Let me look.\n<tool_', 'call>\n{"name": "look", "arguments": {"x": 1}}\n</tool_call>'];
    for (const piece of pieces) context.send({ kind: { case: 'delta', value: piece } });
    const usage = { promptTokens: 3, completionTokens: 4 };
    const calls = native ? [{ index: 0, id: 'call_1', name: 'look', arguments: '{"x":1}' }] : [];
    const end = {
      finishReason: native ? 'tool_calls' : 'stop',
      text: pieces.join(''),
      usage,
      calls,
      provider: 'local',
      model: 'qwen3-7b',
      dialect,
    };
    context.send({ kind: { case: 'end', value: end } });
  });
  await Promise.all([registry.flush(), router.flush()]);
  await startApi();
  await startApi();
}, 60_000);

afterAll(async () => {
  await Promise.all(replicas.map((replica) => replica.close()));
  await Promise.all([setup.close(), worker.close(), store.close(), routerStore.close()]);
  await servers.stop();
});

/** A machine with other work to do takes its time. */
const poll = <T>(get: () => T) => expect.poll(get, { timeout: 20_000, interval: 20 });

// Answers are read as by a caller who has no types of ours.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
type Answered = any;

interface CallOptions {
  key?: string | null;
  replica?: number;
  headers?: Record<string, string>;
  raw?: string;
}
async function call(method: string, path: string, body?: unknown, options: CallOptions = {}) {
  const response = await fetch(replicas[options.replica ?? 0]!.url + path, {
    method,
    headers: {
      ...(options.key !== null && { authorization: `Bearer ${options.key ?? acmeKey}` }),
      ...((body !== undefined || options.raw !== undefined) && { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...((body !== undefined || options.raw !== undefined) && { body: options.raw ?? JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: (text === '' ? undefined : JSON.parse(text)) as Answered,
  };
}

const jobs: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(jobs.splice(0).map((work) => work.stop()));
});

/** Plays the dispatcher for every run: a fixed number of steps, then the end. */
function workOnRuns(options: { steps?: number; deltas?: string[]; gapMs?: number; hold?: Promise<unknown> } = {}) {
  const runs: string[] = [];
  const work = worker.work(
    Runs.work,
    async (message, context) => {
      const tenant = tenantId(context.subject.split('.')[3]!);
      const ref = { tenant, conversation: message.conversationId, run: message.runId };
      const held = await store.acquire({ ...ref, deliverySequence: context.deliverySequence, leaseMs: 5_000 });
      if (held.kind !== 'acquired') return;
      runs.push(message.runId);
      const mine = { ...ref, fence: held.fence };
      const cancelled = held.record?.state === 'cancelling';
      let n = 0;
      let sequence = 0;
      const emit = async (type: string, data: object = {}) => {
        const event = {
          n: BigInt(++n),
          runId: ref.run,
          type,
          atMs: BigInt(Date.now()),
          dataJson: JSON.stringify(data),
        };
        sequence = await worker.append(
          subjects.event(tenant, ref.run),
          messages.events,
          { events: [event] },
          {
            expectedLastSubjectSequence: sequence,
          },
        );
      };
      await emit('run.started');
      let seq = held.seq;
      if (!cancelled && !held.started)
        seq = await store.append({
          ...mine,
          expectedSeq: seq,
          items: [{ type: 'chat', role: 'user', content: 'x' }],
          record: { state: 'running' },
        });
      for (let step = 1; !cancelled && step <= (options.steps ?? 1); step++) {
        await emit('step.started', { step });
        let offset = 0;
        for (const text of options.deltas ?? []) {
          worker.publish(subjects.delta(tenant, ref.run), messages.event, {
            runId: ref.run,
            type: 'message.delta',
            dataJson: JSON.stringify({ step, offset, text }),
          });
          offset += text.length;
        }
        await options.hold;
        if (options.gapMs) await new Promise((resolve) => setTimeout(resolve, options.gapMs));
      }
      const output = options.deltas?.join('').slice(0, 100) ?? 'done';
      const written = await store.finish({
        ...mine,
        expectedSeq: seq,
        items: cancelled ? [] : [{ type: 'chat', role: 'assistant', content: output }],
        record: { state: cancelled ? 'cancelled' : 'completed', output },
      });
      await emit(`run.${written.state}`, { output });
      if (written.next !== undefined)
        await worker.enqueue(subjects.runStart(tenant), Runs.work.message, {
          runId: written.next,
          conversationId: ref.conversation,
          reason: 'start',
        });
    },
    { slots: 4, ackWaitMs: 2_000 },
  );
  jobs.push(work);
  return { runs, stop: () => work.stop() };
}

/** Reads a stream until it ends, or until `stop` says so. */
async function readEvents(
  path: string,
  options: CallOptions & { stop?: (events: FeedEvent[]) => boolean; onOpen?: () => void } = {},
) {
  const response = await fetch(replicas[options.replica ?? 0]!.url + path, {
    headers: { authorization: `Bearer ${options.key ?? acmeKey}`, accept: 'text/event-stream', ...options.headers },
  });
  const events: FeedEvent[] = [];
  let text = '';
  if (response.status !== 200) return { status: response.status, events, text, headers: response.headers };
  const decoder = new TextDecoder();
  let rest = '';
  options.onOpen?.();
  for await (const chunk of response.body!) {
    const frames = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
    rest = frames.pop()!;
    for (const frame of frames) {
      if (frame.startsWith(':')) text += `${frame}\n`;
      const data = frame.split('\n').find((line) => line.startsWith('data: '));
      if (data !== undefined) events.push(JSON.parse(data.slice(6)) as FeedEvent);
    }
    if (options.stop?.(events)) break;
  }
  return { status: response.status, events, text, headers: response.headers };
}
const ids = (events: FeedEvent[]) => events.flatMap(({ id }) => (id === undefined ? [] : [id]));

test('a run is recorded and queued, and can be read and listed', async () => {
  const started = await call('POST', '/v1/runs', { input: 'hello', metadata: { a: 1 }, limits: { max_iterations: 3 } });
  expect(started.status).toBe(201);
  expect(started.headers.get('location')).toBe(`/v1/runs/${started.body.id}`);
  expect(started.body).toMatchObject({ state: 'queued', metadata: { a: 1 }, steps: 0, usage: { total_tokens: 0 } });
  expect((await call('GET', `/v1/runs/${started.body.id}`, undefined, { replica: 1 })).body.id).toBe(started.body.id);
  const listed = await call('GET', '/v1/runs?state=queued&limit=5');
  expect(listed.body.items.map((run: { id: string }) => run.id)).toContain(started.body.id);
  const record = await store.getRun(acme, started.body.id);
  expect(JSON.parse(record.specJson)).toMatchObject({
    input: 'hello',
    limits: { maxIterations: 3 },
    conversationId: record.conversation,
  });
  const jobs = workOnRuns();
  await poll(async () => (await call('GET', `/v1/runs/${started.body.id}`)).body.state).toBe('completed');
  await jobs.stop();
  const history = await call('GET', `/v1/conversations/${started.body.conversation_id}/messages`);
  expect(history.body.items.map(({ seq, role }: { seq: number; role: string }) => [seq, role])).toEqual([
    [1, 'user'],
    [2, 'assistant'],
  ]);
});

test('every fault of a request is named, with what was probably meant', async () => {
  const answer = await call('POST', '/v1/runs', {
    input: '',
    limits: { max_cost_usd: -1 },
    on_busy: 'wait',
    stremas: true,
  });
  expect(answer.status).toBe(400);
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  expect(answer.body).toMatchObject({
    type: '/errors/YM-REQ-INVALID',
    status: 400,
    class: 'INVALID',
    code: 'YM-REQ-INVALID',
    instance: '/v1/runs',
  });
  expect(answer.body.trace_id).toMatch(/^[0-9a-f]{32}$/);
  expect(answer.body.errors.map((fault: { pointer: string }) => fault.pointer).sort()).toEqual([
    '/input',
    '/limits/max_cost_usd',
    '/on_busy',
    '/stremas',
  ]);
  expect(answer.body.detail).toContain('/limits/max_cost_usd must be > 0 (got -1)');
  expect(answer.body.detail).toContain('/stremas is unknown, did you mean "stream"?');
});

test.each([
  ['agent', { agent: 'codr' }, 'YM-AGENT-UNKNOWN', 'coder'],
  ['model', { model: 'qwen3-8b' }, 'YM-MODEL-UNKNOWN', 'qwen3-7b'],
  ['tool', { tools: ['shell_run', 'shel_run'] }, 'YM-TOOL-UNKNOWN', 'shell_run'],
])('an unknown %s is named with the known ones', async (_, part, code, near) => {
  const answer = await call('POST', '/v1/runs', { input: 'x', ...part });
  expect([answer.status, answer.body.code, answer.body.did_you_mean]).toEqual([404, code, near]);
  expect(answer.body.known).toContain(near);
});

test('a conversation that is not there is a 404, the same as another tenant’s', async () => {
  const mine = (await call('POST', '/v1/conversations', {})).body;
  const strip = (body: { detail: string }) => ({
    ...body,
    instance: '',
    unknown: [],
    trace_id: '',
    detail: body.detail.replace(/[0-9a-f-]{36}/, 'ID'),
  });
  const [foreign, missing] = await Promise.all([
    call('POST', '/v1/runs', { input: 'x', conversation_id: mine.id }, { key: globexKey }),
    call('POST', '/v1/runs', { input: 'x', conversation_id: newId() }, { key: globexKey }),
  ]);
  expect([foreign.status, strip(foreign.body)]).toEqual([404, strip(missing.body)]);
  const run = (await call('POST', '/v1/runs', { input: 'x', conversation_id: mine.id })).body;
  for (const [method, path, body] of [
    ['GET', ''],
    ['GET', '/events'],
    ['POST', '/cancel', {}],
    ['POST', '/messages', { text: 'x' }],
    ['GET', '/approvals'],
    ['POST', '/approvals/1-0', { decision: 'approve', args_hash: '0'.repeat(64) }],
  ] as const) {
    const [theirs, none] = await Promise.all(
      [run.id, newId()].map((id) => call(method, `/v1/runs/${id}${path}`, body, { key: globexKey })),
    );
    expect([path, theirs!.status, strip(theirs!.body)]).toEqual([path, 404, strip(none!.body)]);
  }
  expect((await call('GET', `/v1/runs/${run.id}`)).body.state).toBe('queued');
  const jobs = workOnRuns();
  await poll(async () => (await call('GET', `/v1/runs/${run.id}`)).body.state).toBe('completed');
  await jobs.stop();
});

test('the same Idempotency-Key gets the same run from any replica, another body is refused', async () => {
  const headers = { 'idempotency-key': newId() };
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => call('POST', '/v1/runs', { input: 'once' }, { headers, replica: i % 2 })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  const other = await call('POST', '/v1/runs', { input: 'twice' }, { headers });
  expect([other.status, other.body.code, other.body.run]).toEqual([
    422,
    'YM-IDEMPOTENCY-MISMATCH',
    answers[0]!.body.id,
  ]);
  const jobs = workOnRuns();
  await poll(async () => (await call('GET', `/v1/runs/${answers[0]!.body.id}`)).body.state).toBe('completed');
  await jobs.stop();
  expect(jobs.runs.filter((run) => run === answers[0]!.body.id)).toHaveLength(1);
});

test('what the queue refuses waits in the tenant’s list', async () => {
  const tenant = tenantId('crowd');
  const key = await makeKey(tenant, [...ROLES]);
  await poll(async () => (await call('GET', '/v1/me', undefined, { key })).status).toBe(200);
  const made = [];
  for (let i = 0; i < 18; i++) made.push((await call('POST', '/v1/runs', { input: 'x' }, { key })).status);
  expect(new Set(made)).toEqual(new Set([201]));
  expect(await store.admission.count(tenant)).toBe(2);
  const jobs = workOnRuns();
  await poll(async () => (await store.countRuns(tenant)).completed).toBe(16);
  await jobs.stop();
});

test('one conversation has one run: reject refuses, interrupt cancels', async () => {
  const first = (await call('POST', '/v1/runs', { input: 'a' })).body;
  const conversation_id = first.conversation_id;
  const busy = await call('POST', '/v1/runs', { input: 'b', conversation_id, on_busy: 'reject' });
  expect([busy.status, busy.body.type, busy.body.run]).toEqual([409, '/errors/YM-CONVERSATION-BUSY', first.id]);
  const second = (await call('POST', '/v1/runs', { input: 'c', conversation_id })).body;
  const third = (await call('POST', '/v1/runs', { input: 'd', conversation_id, on_busy: 'interrupt' })).body;
  expect((await call('GET', `/v1/runs/${first.id}`)).body.state).toBe('cancelling');
  const jobs = workOnRuns();
  await poll(async () => (await call('GET', `/v1/runs/${second.id}`)).body.state).toBe('completed');
  await jobs.stop();
  expect((await call('GET', `/v1/runs/${first.id}`)).body.state).toBe('cancelled');
  expect(jobs.runs).toEqual([first.id, third.id, second.id]);
});

test('a cancel is accepted once or more, and refused after the end', async () => {
  const run = (await call('POST', '/v1/runs', { input: 'a' })).body;
  const heard: string[] = [];
  const stop = worker.hear(subjects.cancel(acme, run.id), messages.command, ({ kind }) => void heard.push(kind));
  await worker.flush();
  expect((await call('POST', `/v1/runs/${run.id}/cancel`, { reason: 'no' })).status).toBe(202);
  expect((await call('POST', `/v1/runs/${run.id}/cancel`)).status).toBe(202);
  expect(heard).toContain('cancel');
  stop();
  const jobs = workOnRuns();
  await expect
    .poll(async () => (await call('GET', `/v1/runs/${run.id}`)).body)
    .toMatchObject({ state: 'cancelled', cancel_reason: 'no' });
  await jobs.stop();
  const late = await call('POST', `/v1/runs/${run.id}/cancel`);
  expect([late.status, late.body.code]).toEqual([409, 'YM-RUN-ENDED']);
  expect((await call('POST', `/v1/runs/${run.id}/messages`, { text: 'x' })).status).toBe(409);
});

test('twenty readers that leave and come back elsewhere see every event once', async () => {
  const run = (await call('POST', '/v1/runs', { input: 'a' })).body;
  const readers = Array.from({ length: 20 }, async (_, reader) => {
    const seen: number[] = [];
    for (let turn = 0; ; turn++) {
      const headers: Record<string, string> = seen.length > 0 ? { 'last-event-id': String(seen.at(-1)) } : {};
      const { status, events } = await readEvents(`/v1/runs/${run.id}/events`, {
        replica: (reader + turn) % 2,
        headers,
        stop: (events) => ids(events).length >= 7,
      });
      seen.push(...ids(events).slice(0, 7));
      if (status === 204) return seen;
      if (events.at(-1)?.type === 'run.completed' && ids(events).length <= 7) return seen;
    }
  });
  const jobs = workOnRuns({ steps: 30, gapMs: 10 });
  for (const seen of await Promise.all(readers)) expect(seen).toEqual(Array.from({ length: 32 }, (_, i) => i + 1));
  await jobs.stop();
  const tail = await readEvents(`/v1/runs/${run.id}/events?after=29`);
  expect(tail.events.map(({ type }) => type)).toEqual(
    ['step.started', 'step.started', 'run.completed'].slice(0, tail.events.length),
  );
  expect(ids(tail.events)).toEqual([30, 31, 32]);
  expect((await readEvents(`/v1/runs/${run.id}/events`, { headers: { 'last-event-id': '32' } })).status).toBe(204);
  const page = await call('GET', `/v1/runs/${run.id}/events?limit=10`, undefined, {
    headers: { accept: 'application/json' },
  });
  expect([page.body.items.length, page.body.next_cursor]).toEqual([10, '10']);
}, 30_000);

test('text comes as it is written, and who joins later is told what was written so far', async () => {
  const run = (await call('POST', '/v1/runs', { input: 'a' })).body;
  const texts = (events: FeedEvent[], type: string) =>
    events.filter((event) => event.type === type).map(({ data }) => data['text']);
  let release: (() => void) | undefined;
  const hold = new Promise<void>((resolve) => (release = resolve));
  let written: (() => void) | undefined;
  const bothWritten = new Promise<void>((resolve) => (written = resolve));
  const early = readEvents(`/v1/runs/${run.id}/events`, {
    onOpen: () => workOnRuns({ deltas: ['Hello ', 'world'], hold }),
    stop(events) {
      if (texts(events, 'message.delta').length === 2) written!();
      return false;
    },
  });
  await bothWritten;
  const late = await readEvents(`/v1/runs/${run.id}/events`, {
    headers: { 'last-event-id': '2' },
    stop(events) {
      if (texts(events, 'message.partial').length === 1) setTimeout(release!, 500);
      return false;
    },
  });
  expect(texts((await early).events, 'message.delta')).toEqual(['Hello ', 'world']);
  expect(texts(late.events, 'message.partial')).toEqual(['Hello world']);
  expect(ids(late.events)).toEqual([3]);
  expect(late.text).toContain(': keep-alive');
});

test('with stream the events come at once', async () => {
  const jobs = workOnRuns({ deltas: ['Hi'] });
  const response = await fetch(`${replicas[0]!.url}/v1/runs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${acmeKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ input: 'x', stream: true }),
  });
  expect(response.status).toBe(200);
  expect(response.headers.get('location')).toMatch(/^\/v1\/runs\//);
  const text = await response.text();
  await jobs.stop();
  expect(text).toContain('event: run.started');
  expect(text).toContain('event: run.completed');
});

test('a reader that does not read costs no memory, and gets all stored events afterwards', async () => {
  const run = (await call('POST', '/v1/runs', { input: 'a' })).body;
  const url = new URL(`${replicas[0]!.url}/v1/runs/${run.id}/events`);
  const stuck = httpRequest(url, { headers: { authorization: `Bearer ${acmeKey}` } }, (response) => response.pause());
  stuck.on('error', () => undefined);
  stuck.end();
  await new Promise((resolve) => setTimeout(resolve, 100));
  const reading = readEvents(`/v1/runs/${run.id}/events`);
  const jobs = workOnRuns({ deltas: Array.from({ length: 200 }, () => 'x'.repeat(100_000)), gapMs: 500 });
  const { events } = await reading;
  await jobs.stop();
  expect(ids(events)).toEqual([1, 2, 3]);
  stuck.destroy();
  expect(ids((await readEvents(`/v1/runs/${run.id}/events?after=0`)).events)).toEqual([1, 2, 3]);
}, 30_000);

test('approvals are listed with what they are about, and decided once', async () => {
  const run = (await call('POST', '/v1/runs', { input: 'a' })).body;
  const hash = 'ab'.repeat(32);
  const work = worker.work(
    Runs.work,
    async (message, context) => {
      if (message.runId !== run.id) throw new HandBack();
      const ref = { tenant: acme, conversation: message.conversationId, run: message.runId };
      const held = await store.acquire({ ...ref, deliverySequence: context.deliverySequence, leaseMs: 5_000 });
      if (held.kind !== 'acquired') return;
      if (Object.keys(held.record?.decisions ?? {}).length > 0) {
        await store.finish({
          ...ref,
          fence: held.fence,
          expectedSeq: held.seq,
          items: [],
          record: { state: 'completed', output: 'ok', pending: [] },
        });
        return;
      }
      const pending = {
        call: '1-0',
        providerId: 'c',
        name: 'effect',
        argumentsJson: '{"x":1}',
        argsHash: hash,
        historySeq: 1,
        nonce: 'n',
        effect: 'unsafe' as const,
        kind: 'shell',
        approval: 'waiting' as const,
      };
      await store.append({
        ...ref,
        fence: held.fence,
        expectedSeq: held.seq,
        items: [],
        record: { state: 'waiting_approval', pending: [pending] },
        release: true,
      });
    },
    { slots: 4, ackWaitMs: 2_000 },
  );
  jobs.push(work);
  await poll(async () => (await call('GET', `/v1/runs/${run.id}`)).body.state).toBe('waiting_approval');
  const list = await call('GET', `/v1/runs/${run.id}/approvals`);
  expect(list.body.items).toMatchObject([
    { call: '1-0', tool: 'effect', arguments: { x: 1 }, args_hash: hash, state: 'waiting' },
  ]);
  const url = `/v1/runs/${run.id}/approvals/1-0`;
  expect((await call('POST', url, { decision: 'approve', args_hash: 'cd'.repeat(32) })).status).toBe(409);
  expect((await call('POST', url, { decision: 'approve', args_hash: hash })).body.state).toBe('approved');
  await poll(async () => (await call('GET', `/v1/runs/${run.id}`)).body.state).toBe('completed');
  await work.stop();
  const again = await call('POST', url, { decision: 'approve', args_hash: hash });
  expect([again.status, again.body.code]).toEqual([409, 'YM-APPROVAL-DECIDED']);
});

test('without a valid key there is one answer, and a key may do what its roles say', async () => {
  const [tenant, id] = acmeKey.slice(3).split('_') as [string, string];
  const bad = ['', 'nonsense', `ym_${tenant}_${id}_${'0'.repeat(64)}`, acmeKey.replace('acme', 'globex')];
  const answers = await Promise.all(bad.map((key) => call('GET', '/v1/me', undefined, { key })));
  answers.push(await call('GET', '/v1/me', undefined, { key: null }));
  for (const { status, body, headers } of answers) {
    expect([status, body.code, body.detail]).toEqual([401, 'YM-UNAUTHENTICATED', answers[0]!.body.detail]);
    expect(headers.get('www-authenticate')).toContain('Bearer');
  }
  const denied = await call('POST', '/v1/runs', { input: 'x' }, { key: readerKey });
  expect([denied.status, denied.body.code, denied.body.needs]).toEqual([403, 'YM-ROLE', 'runs:write']);
  expect((await call('GET', '/v1/me', undefined, { key: readerKey })).body).toMatchObject({
    tenant: 'acme',
    key: { roles: ['runs:read'] },
  });
});

test('a path is protected however it is spelt, and a foreign Host is refused', async () => {
  for (const path of ['/%76%31/me', '//v1/me', '/V1/me', '/v1/me/', '/v1/../v1/me', '/v1/runs/..%2f..%2fme'])
    expect([path, [401, 404].includes((await call('GET', path, undefined, { key: null })).status)]).toEqual([
      path,
      true,
    ]);
  const status = await new Promise((resolve) => {
    const url = new URL(`${replicas[0]!.url}/v1/me`);
    httpRequest(url, { headers: { host: 'evil.example', authorization: `Bearer ${acmeKey}` } }, (response) =>
      resolve(response.statusCode),
    ).end();
  });
  expect(status).toBe(421);
});

test('members named like those of every object stay what they are', async () => {
  const started = await call('POST', '/v1/runs', { input: 'x', metadata: { constructor: 1, toString: 'x' } });
  expect(started.body.metadata).toEqual({ constructor: 1, toString: 'x' });
  const stray = await call('POST', '/v1/runs', { input: 'x', constructor: {}, state: 'completed', tenant: 'globex' });
  expect(stray.body.errors.map((fault: { pointer: string }) => fault.pointer).sort()).toEqual([
    '/constructor',
    '/state',
    '/tenant',
  ]);
  const deep = await call('POST', '/v1/runs', {
    input: 'x',
    toString: 1,
    limits: { max_iterations: 1, constructor: 1 },
  });
  expect(deep.body.errors.map((fault: { pointer: string }) => fault.pointer).sort()).toEqual([
    '/limits/constructor',
    '/toString',
  ]);
  expect((await call('GET', '/v1/runs?toString=1')).status).toBe(400);
  const tools = await call('POST', '/v1/runs', { input: 'x', tools: ['__proto__'] });
  expect([tools.status, tools.body.code]).toEqual([404, 'YM-TOOL-UNKNOWN']);
  const proto = await call('POST', '/v1/runs', undefined, { raw: '{"input":"x","metadata":{"__proto__":{"a":1}}}' });
  expect([proto.status, proto.body.code]).toEqual([400, 'YM-JSON-PROTO']);
});

test('a stream ends when its key is revoked', async () => {
  const made = (await call('POST', '/v1/tenants/acme/keys', { name: 'short', roles: ['runs:read'] })).body;
  const run = (await call('POST', '/v1/runs', { input: 'x' })).body;
  await poll(async () => (await call('GET', '/v1/me', undefined, { key: made.key })).status).toBe(200);
  const reading = readEvents(`/v1/runs/${run.id}/events`, {
    key: made.key,
    onOpen: () => void call('DELETE', `/v1/tenants/acme/keys/${made.id}`),
  });
  await expect(reading).rejects.toThrow('terminated');
});

test('keys are made, listed without their secret, and revoked at once', async () => {
  const made = await call('POST', '/v1/tenants/acme/keys', { name: 'ci' });
  expect(made.status).toBe(201);
  await expect
    .poll(async () => (await call('GET', '/v1/me', undefined, { key: made.body.key, replica: 1 })).status)
    .toBe(200);
  const listed = await call('GET', '/v1/tenants/acme/keys');
  expect(JSON.stringify(listed.body)).not.toContain(made.body.key.split('_')[3]);
  expect(listed.body.items.map((key: { id: string }) => key.id)).toContain(made.body.id);
  expect((await call('DELETE', `/v1/tenants/acme/keys/${made.body.id}`)).status).toBe(204);
  await poll(async () => (await call('GET', '/v1/me', undefined, { key: made.body.key })).status).toBe(401);
  expect((await call('GET', '/v1/tenants/globex/keys')).status).toBe(404);
});

test('bodies that are too large, too deep, compressed or no JSON are refused', async () => {
  const big = await call('POST', '/v1/runs', { input: 'x'.repeat(1_500_000) });
  expect([big.status, big.body.code]).toEqual([413, 'YM-BODY-SIZE']);
  expect(big.body.detail).toContain('1048576');
  // Far more than the buffers between client and server hold: the answer must not be lost in a reset.
  const huge = await call('POST', '/v1/runs', { input: 'x'.repeat(20_000_000) });
  expect([huge.status, huge.body.code]).toEqual([413, 'YM-BODY-SIZE']);
  const deep = await call('POST', '/v1/runs', undefined, { raw: `{"input":${'['.repeat(100)}${']'.repeat(100)}}` });
  expect([deep.status, deep.body.code]).toEqual([400, 'YM-JSON-DEPTH']);
  const zipped = await call('POST', '/v1/runs', { input: 'x' }, { headers: { 'content-encoding': 'gzip' } });
  expect([zipped.status, zipped.body.code]).toEqual([415, 'YM-CONTENT-ENCODING']);
  const text = await call('POST', '/v1/runs', { input: 'x' }, { headers: { 'content-type': 'text/plain' } });
  expect([text.status, text.body.code]).toEqual([415, 'YM-MEDIA-TYPE']);
  const broken = await call('POST', '/v1/runs', undefined, { raw: '{"input": "x"' });
  expect([broken.status, broken.body.code]).toEqual([400, 'YM-JSON-SYNTAX']);
  const nowhere = await call('GET', '/v1/nowhere');
  expect([nowhere.status, nowhere.body.code]).toEqual([404, 'YM-ROUTE-UNKNOWN']);
});

test('tools, providers and errors are there', async () => {
  expect((await call('GET', '/v1/tools')).body.items).toMatchObject([
    { name: 'shell_run', parameters: { type: 'object' } },
  ]);
  expect((await call('GET', '/v1/tools/nope')).body).toMatchObject({ status: 404, code: 'YM-TOOL-UNKNOWN' });
  expect((await call('POST', '/v1/tools/shell_run/validate', { arguments: { a: 1 } })).body).toEqual({
    ok: true,
    arguments: { a: 1 },
  });
  expect((await call('POST', '/v1/tools/shell_run/validate', { arguments: { a: 2 } })).body).toEqual({
    ok: false,
    message: 'a must be 1',
  });
  expect((await call('GET', '/v1/providers')).body).toMatchObject({
    default_model: 'qwen3-7b',
    items: [{ name: 'local', demo: true, health: 'up' }],
  });
  expect((await call('POST', '/v1/providers/plan', { agent: 'coder' })).body.candidates).toMatchObject([
    { provider: 'local', model: 'qwen3-7b' },
  ]);
  expect((await call('GET', '/errors/YM-RUN-UNKNOWN', undefined, { key: null })).body).toMatchObject({
    status: 404,
    class: 'NOT_FOUND',
  });
  expect((await call('GET', '/errors/YM-NOPE', undefined, { key: null })).status).toBe(404);
  for (const entry of Object.values(ERROR_CATALOGUE)) expect(entry.remedy).not.toBe('');
});

test('the fleet: nothing where none ever was, then what its leader says, then that it is away', async () => {
  expect(await call('GET', '/v1/fleet')).toMatchObject({
    status: 200,
    body: { mode: 'none', leader: null, stale: false, executors: [], pods: [], decisions: [] },
  });
  const { user, pass } = servers.nats.login('fleet');
  const fleet = await Bus.connect({ url: servers.natsUrl, user, pass });
  fleet.serve(Fleet.view, () => ({
    leader: 'fleet-1',
    writtenMs: BigInt(Date.now()),
    executors: [{ name: 'shell', kinds: ['shell'], min: 0, max: 9, current: 2, desired: 2, need: 5n, state: 'ok' }],
    pods: [{ provider: 'local', name: 'llama-0', state: 'loading', reason: 'it loads its model', slots: 4 }],
    decisions: [{ atMs: 1_700_000_000_000n, executor: 'shell', action: 'up', from: 1, to: 2, reason: '5 calls' }],
  }));
  await fleet.flush();
  expect((await call('GET', '/v1/fleet')).body).toMatchObject({
    mode: 'kubernetes',
    leader: 'fleet-1',
    stale: false,
    executors: [{ name: 'shell', current: 2, desired: 2, need: 5, state: 'ok' }],
    pods: [{ name: 'llama-0', state: 'loading', slots: 4, context: null, native_tools: null }],
    decisions: [{ at: '2023-11-14T22:13:20.000Z', action: 'up', from: 1, to: 2, reason: '5 calls' }],
  });
  await fleet.kv(BUCKETS.fleet).put('state', '{}');
  await fleet.close();
  expect(await call('GET', '/v1/fleet')).toMatchObject({
    status: 503,
    body: { code: 'YM-FLEET-AWAY', class: 'UNAVAILABLE' },
  });
});

test('conversations are made, listed, compacted and deleted', async () => {
  const made = (await call('POST', '/v1/conversations', {}, { key: globexKey })).body;
  const run = (await call('POST', '/v1/runs', { input: 'x', conversation_id: made.id }, { key: globexKey })).body;
  expect((await call('DELETE', `/v1/conversations/${made.id}`, undefined, { key: globexKey })).status).toBe(409);
  const jobs = workOnRuns();
  await expect
    .poll(async () => (await call('GET', `/v1/runs/${run.id}`, undefined, { key: globexKey })).body.state)
    .toBe('completed');
  await jobs.stop();
  const compacted = await call(
    'POST',
    `/v1/conversations/${made.id}/compact`,
    { up_to_seq: 1, summary: 'said x' },
    { key: globexKey },
  );
  expect(compacted.body).toMatchObject({ messages: 2, compacted_up_to: 1 });
  expect(
    (await call('GET', '/v1/conversations', undefined, { key: globexKey })).body.items.map(
      ({ id }: { id: string }) => id,
    ),
  ).toContain(made.id);
  expect((await call('DELETE', `/v1/conversations/${made.id}`, undefined, { key: globexKey })).status).toBe(204);
  expect((await call('GET', `/v1/conversations/${made.id}`, undefined, { key: globexKey })).status).toBe(404);
});

test('the document describes the routes, and health is told', async () => {
  const document = await call('GET', '/openapi.json', undefined, { key: null });
  expect(document.body.openapi).toBe('3.1.0');
  expect(Object.keys(document.body.paths)).toEqual(
    expect.arrayContaining(['/v1/runs', '/v1/runs/{id}/events', '/v1/chat/completions']),
  );
  expect(document.body.components.schemas.StartRunDto.properties).toHaveProperty('conversation_id');
  expect(document.body.paths['/v1/runs'].post.responses['201'].content['application/json'].schema.$ref).toBe(
    '#/components/schemas/Run',
  );
  // Every reference leads somewhere.
  for (const [, name] of JSON.stringify(document.body).matchAll(/#\/components\/schemas\/(\w+)/g))
    expect(document.body.components.schemas).toHaveProperty(name!);
  const docs = await fetch(`${replicas[0]!.url}/docs`);
  expect([docs.status, docs.headers.get('content-type')?.split(';')[0]]).toEqual([200, 'text/html']);
  expect((await call('GET', '/livez', undefined, { key: null })).status).toBe(200);
  expect((await call('GET', '/readyz', undefined, { key: null })).body.status).toBe('ready');
});

test('the official OpenAI client works: whole, streamed, with tools, with errors, embeddings, models', async () => {
  const client = new OpenAI({ apiKey: acmeKey, baseURL: `${replicas[0]!.url}/v1`, maxRetries: 0 });
  const ask = (content: string) => ({ model: 'qwen3-7b', messages: [{ role: 'user' as const, content }] });
  const whole = await client.chat.completions.create({ ...ask('hello'), frequency_penalty: 0.5, user: 'u' });
  expect(whole.choices[0]!.message.content).toBe('You said 5 letters');
  expect(whole.usage).toMatchObject({ prompt_tokens: 3, total_tokens: 7 });
  const long = await client.chat.completions.create(ask('x'.repeat(300_000)));
  expect(long.choices[0]!.message.content).toBe('You said 300000 letters');
  let text = '';
  let usage: unknown;
  for await (const chunk of await client.chat.completions.create({
    ...ask('hello'),
    stream: true,
    stream_options: { include_usage: true },
  })) {
    text += chunk.choices[0]?.delta.content ?? '';
    usage = chunk.usage ?? usage;
  }
  expect([text, usage]).toMatchObject(['You said 5 letters', { completion_tokens: 4 }]);
  const tools = [
    {
      type: 'function' as const,
      function: { name: 'look', parameters: { type: 'object', properties: { x: { type: 'number' } } } },
    },
  ];
  const called = await client.chat.completions.create({ ...ask('hello'), tools });
  expect(called.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { tool_calls: [{ id: 'call_1', function: { name: 'look', arguments: '{"x":1}' } }] },
  });
  // A model that writes its calls as text: the caller does not see the difference.
  const asText = await client.chat.completions.create({ ...ask('as text'), tools });
  expect(asText.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: { content: 'Let me look.', tool_calls: [{ function: { name: 'look', arguments: '{"x":1}' } }] },
  });
  let streamed = '';
  const names: string[] = [];
  for await (const chunk of await client.chat.completions.create({ ...ask('as text'), tools, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? '';
    for (const made of chunk.choices[0]?.delta.tool_calls ?? []) names.push(made.function!.name!);
  }
  expect([streamed, names]).toEqual(['Let me look.', ['look']]);
  const followed = await client.chat.completions.create({
    model: 'qwen3-7b',
    messages: [
      ...ask('hello').messages,
      called.choices[0]!.message,
      { role: 'tool', tool_call_id: 'call_1', content: 'seen' },
      { role: 'user', content: 'and?' },
    ],
  });
  expect(followed.choices[0]!.message.content).toBe('You said 4 letters');
  await expect(client.chat.completions.create(ask('fail'))).rejects.toMatchObject({
    status: 503,
    code: 'YM-LLM-EXHAUSTED',
  });
  await expect(client.chat.completions.create({ ...ask('x'), model: 'gpt-9' })).rejects.toMatchObject({
    status: 404,
    type: 'not_found_error',
  });
  await expect(
    client.chat.completions.create({
      model: 'qwen3-7b',
      messages: [{ role: 'tool', tool_call_id: 'no', content: '' }],
    }),
  ).rejects.toMatchObject({ status: 400, param: 'messages[0].tool_call_id' });
  const broken = async () => {
    for await (const chunk of await client.chat.completions.create({ ...ask('restart'), stream: true })) void chunk;
  };
  await expect(broken()).rejects.toMatchObject({ code: 'YM-STREAM-RESTARTED' });
  expect((await client.models.list()).data.map(({ id }) => id)).toEqual(['qwen3-7b', 'small', 'agent:coder']);
  const vectors = await client.embeddings.create({ model: 'small', input: ['abc', 'de'] });
  expect(vectors.data.map(({ embedding }) => [...embedding])).toEqual([
    [3, 0.5],
    [2, 0.5],
  ]);
});

test('the model agent:<name> is a run of that agent', async () => {
  const client = new OpenAI({ apiKey: acmeKey, baseURL: `${replicas[1]!.url}/v1`, maxRetries: 0 });
  const jobs = workOnRuns({ deltas: ['It ', 'works'] });
  const ask = { model: 'agent:coder', messages: [{ role: 'user' as const, content: 'do it' }] };
  const whole = await client.chat.completions.create(ask);
  expect(whole.choices[0]!.message.content).toBe('It works');
  let text = '';
  for await (const chunk of await client.chat.completions.create({ ...ask, stream: true }))
    text += chunk.choices[0]?.delta.content ?? '';
  expect(text).toBe('It works');
  await jobs.stop();
  await expect(client.chat.completions.create({ ...ask, model: 'agent:nobody' })).rejects.toMatchObject({
    status: 404,
  });
  const { runs } = jobs;
  expect((await store.getRun(acme, runs[0]!)).agent).toBe('coder');
});

test('a completion that its client repeats is one run, and is not repeated once there is a run', async () => {
  workOnRuns();
  const body = { model: 'agent:coder', messages: [{ role: 'user', content: 'just once' }] };
  const ask = (retries: number) =>
    call('POST', '/v1/chat/completions', body, { headers: { 'x-stainless-retry-count': String(retries) } });
  const first = await ask(0);
  expect([first.status, first.headers.get('x-should-retry')]).toEqual([200, 'false']);
  expect((await ask(1)).body.run_id).toBe(first.body.run_id);
  expect((await ask(0)).body.run_id).not.toBe(first.body.run_id);
});

test('a tenant may be limited to a rate', async () => {
  await startApi({ YM_API_REQUESTS_PER_MINUTE: '3' });
  const key = await makeKey(tenantId('slow'), [...ROLES]);
  const me = () => call('GET', '/v1/me', undefined, { key, replica: replicas.length - 1 });
  await poll(async () => (await me()).status).not.toBe(401);
  const answers = [];
  for (let i = 0; i < 4; i++) answers.push(await me());
  const last = answers.at(-1)!;
  expect([last.status, last.body.code]).toEqual([429, 'YM-RATE']);
  expect(Number(last.headers.get('retry-after'))).toBeGreaterThan(0);
});

test('quotas are set as a whole by administrators of the tenant, and the rate of one counts at once', async () => {
  const lean = tenantId('lean');
  const key = await makeKey(lean, [...ROLES]);
  const path = '/v1/tenants/lean/quotas';
  const none = { tokens_per_day: null, cost_usd_per_day: null, requests_per_minute: null };
  await expect.poll(async () => (await call('GET', path, undefined, { key })).status).toBe(200);
  expect((await call('GET', path, undefined, { key })).body).toEqual(none);
  const put = await call(
    'PUT',
    path,
    { tokens_per_day: 5000, cost_usd_per_day: 1.5, requests_per_minute: null },
    { key },
  );
  expect(put.body).toEqual({ ...none, tokens_per_day: 5000, cost_usd_per_day: 1.5 });
  await expect.poll(async () => (await call('GET', path, undefined, { key })).body.tokens_per_day).toBe(5000);
  expect((await call('PUT', path, { tokens_per_day: -1 }, { key })).status).toBe(400);
  expect((await call('PUT', path, { tokens: 1 }, { key })).status).toBe(400);
  expect((await call('GET', '/v1/tenants/lean/quotas')).status).toBe(404);
  expect((await call('PUT', '/v1/tenants/acme/quotas', {}, { key: readerKey })).status).toBe(403);
  await call('PUT', path, { requests_per_minute: 2 }, { key });
  await expect.poll(async () => (await call('GET', '/v1/me', undefined, { key })).status).toBe(429);
});

test('usage is shown a day each, newest first', async () => {
  const day = usageDay(Date.now());
  await routerStore.limits.addUsage(acme, day, {
    requests: 2,
    attempts: 3,
    failed_attempts: 1,
    prompt_tokens: 100,
    completion_tokens: 20,
    cost_usd: 0.125,
    'p:local:tokens': 120,
  });
  const { status, body } = await call('GET', '/v1/tenants/acme/usage?days=2');
  expect(status).toBe(200);
  expect(body.items).toHaveLength(2);
  expect(body.items[0]).toMatchObject({
    day,
    requests: 2,
    attempts: 3,
    failed_attempts: 1,
    total_tokens: 120,
    cost_usd: 0.125,
    providers: { local: { attempts: 0, tokens: 120, cost_usd: 0 } },
  });
  expect(body.items[1]).toMatchObject({ total_tokens: 0, providers: {} });
  expect((await call('GET', '/v1/tenants/acme/usage?days=41')).status).toBe(400);
  expect((await call('GET', '/v1/tenants/globex/usage')).status).toBe(404);
});

test('a path that no route can read is refused in the same shape', async () => {
  for (const [path, status] of [
    ['/v1/runs/%', 400],
    ['/v1/runs/%F0%28', 400],
    [`/v1/runs/${'a'.repeat(201)}`, 404],
  ] as const) {
    const refused = await call('GET', path);
    expect([refused.status, refused.body.status, typeof refused.body.code]).toEqual([status, status, 'string']);
    expect(refused.body.trace_id).toMatch(/^[0-9a-f]{32}$/);
  }
});

test('a text that is cut in the middle of a character is refused, whichever member it is in', async () => {
  for (const raw of ['{"input":"x\\ud83d"}', '{"input":"x","metadata":{"\\ude00":1}}']) {
    const refused = await call('POST', '/v1/runs', undefined, { raw });
    expect([refused.status, refused.body.code]).toEqual([400, 'YM-JSON-TEXT']);
  }
  expect((await call('POST', '/v1/runs', undefined, { raw: '{"input":"\\ud83d\\ude00"}' })).status).toBe(201);
});
