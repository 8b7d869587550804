import { type ConversationMessage, newId, tenantId } from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectRedis, ConversationStore, loadFunctions, type PendingCall, type Taken } from './index.js';

const acme = tenantId('acme');
const other = tenantId('other');
let servers: Servers;
let api: ConversationStore;
let one: ConversationStore;
let two: ConversationStore;

async function load(target: Servers): Promise<void> {
  const bootstrap = connectRedis({ url: target.redis.urlFor('bootstrap') });
  await loadFunctions(bootstrap);
  bootstrap.disconnect();
}
const connect = (target: Servers, login: string, owner: string, maxConversationBytes = 1_000_000) =>
  ConversationStore.connect({ url: target.redis.urlFor(login), owner, retention: { maxConversationBytes } });

beforeAll(async () => {
  servers = await startServers({ executors: [] });
  await load(servers);
  [api, one, two] = await Promise.all([
    connect(servers, 'api', 'api'),
    connect(servers, 'dispatcher', 'one'),
    connect(servers, 'dispatcher', 'two'),
  ]);
});
afterAll(async () => {
  await Promise.all([api, one, two].map((store) => store.close()));
  await servers.stop();
});

const user = (content: string): ConversationMessage => ({ type: 'chat', role: 'user', content });
const calls = (id: string): ConversationMessage => ({
  type: 'assistant_tool_calls',
  text: null,
  tool_calls: [{ id, name: 'ro', arguments: '{}' }],
  reasoning_content: null,
});
const results = (id: string): ConversationMessage => ({
  type: 'tool_results',
  results: [{ tool_call_id: id, content: 'ok' }],
});

interface StartOptions {
  conversation?: string;
  onBusy?: 'enqueue' | 'reject' | 'interrupt';
  agent?: string;
}
async function start(options: StartOptions = {}) {
  const ref = { tenant: acme, conversation: options.conversation ?? newId(), run: newId() };
  const created = await api.createRun({
    ...ref,
    specJson: '{"input":"hello"}',
    newConversation: options.conversation === undefined,
    ...(options.onBusy && { onBusy: options.onBusy }),
    ...(options.agent && { agent: options.agent }),
  });
  await created.indexed;
  return { ...ref, created };
}
async function take(
  store: ConversationStore,
  ref: Awaited<ReturnType<typeof start>>,
  deliverySequence = 1,
  leaseMs = 60_000,
) {
  const acquired = await store.acquire({ ...ref, deliverySequence, leaseMs });
  if (acquired.kind !== 'acquired') throw new Error(`not acquired: ${acquired.kind}`);
  return { ...ref, fence: acquired.fence, seq: acquired.seq };
}
const texts = (items: { json: string }[]) =>
  items.map(({ json }) => (JSON.parse(json) as { content?: string }).content);

test('a turn is written step by step, and the record moves with the history', async () => {
  const run = await take(one, await start());
  let seq = await one.append({ ...run, expectedSeq: 0, items: [user('hi')], record: { state: 'running' } });
  const pending: PendingCall[] = [
    {
      call: '1-0',
      providerId: 'call_0',
      name: 'ro',
      argumentsJson: '{}',
      argsHash: 'h',
      historySeq: 2,
      nonce: 'n',
      effect: 'read',
      kind: 'shell',
    },
  ];
  seq = await one.append({ ...run, expectedSeq: seq, items: [calls('call_0')], record: { pending, steps: 1 } });
  expect((await api.getRun(acme, run.run)).pending).toEqual(pending);
  seq = await one.append({ ...run, expectedSeq: seq, items: [results('call_0')], record: { pending: [] } });
  const done = await one.finish({
    ...run,
    expectedSeq: seq,
    items: [{ type: 'chat', role: 'assistant', content: 'done' }],
    record: { state: 'completed', output: 'done', costUsd: 0.25, promptTokens: 10 },
  });
  expect(done).toEqual({ seq: 4, state: 'completed', next: undefined });
  const record = await api.getRun(acme, run.run);
  expect(record).toMatchObject({
    state: 'completed',
    output: 'done',
    steps: 1,
    costUsd: 0.25,
    pending: [],
    attempts: 0,
  });
  expect(record.endedMs).toBeGreaterThanOrEqual(record.startedMs!);
  expect((await one.window(run)).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  expect(await two.acquire({ ...run, deliverySequence: 2, leaseMs: 1 })).toMatchObject({ kind: 'ended' });
  await expect(one.append({ ...run, expectedSeq: 4, items: [user('late')] })).rejects.toMatchObject({
    code: 'YM-RUN-ENDED',
  });
});

test('while a lease lives nobody else gets the conversation; afterwards the old owner can write nothing', async () => {
  const ref = await start();
  const first = await take(one, ref, 7, 80);
  expect(first.fence).toBe(7);
  expect(await two.acquire({ ...ref, deliverySequence: 8, leaseMs: 1_000 })).toMatchObject({
    kind: 'busy',
    owner: 'one',
    run: ref.run,
    waiting: false,
  });
  await one.renew({ ...first, leaseMs: 80 });
  await new Promise((resolve) => setTimeout(resolve, 120));
  const second = await take(two, ref, 3);
  expect(second.fence).toBe(8);
  await expect(one.append({ ...first, expectedSeq: 0, items: [user('stale')] })).rejects.toMatchObject({
    class: 'CONFLICT',
    code: 'YM-FENCED',
    details: { stored_fence: 8 },
  });
  await expect(one.renew({ ...first, leaseMs: 80 })).rejects.toMatchObject({ code: 'YM-FENCED' });
  await expect(one.release(first)).rejects.toMatchObject({ code: 'YM-FENCED' });
  expect((await api.getRun(acme, ref.run)).attempts).toBe(2);
  await two.release({ ...second, handBack: true });
  expect((await api.getRun(acme, ref.run)).attempts).toBe(1);
  expect((await take(one, ref, 1)).fence).toBe(9);
});

test('a write that is sent twice happened once, another write in its place is a conflict', async () => {
  const run = await take(one, await start());
  const write = { ...run, expectedSeq: 0, items: [user('a'), user('b')] };
  expect(await one.append(write)).toBe(2);
  expect(await one.append(write)).toBe(2);
  await expect(one.append({ ...run, expectedSeq: 0, items: [user('a'), user('c')] })).rejects.toMatchObject({
    code: 'YM-SEQ-CONFLICT',
    details: { stored_seq: 2 },
  });
  await expect(one.append({ ...run, expectedSeq: 5, items: [user('x')] })).rejects.toMatchObject({
    code: 'YM-STATE-LOST',
    details: { lost: 'seq', stored_seq: 2 },
  });
  const final = { ...run, expectedSeq: 2, items: [user('z')], record: { state: 'completed' as const } };
  const waiting = await start({ conversation: run.conversation });
  expect(await one.finish(final)).toEqual({ seq: 3, state: 'completed', next: waiting.run });
  expect(await one.finish(final)).toEqual({ seq: 3, state: 'completed', next: waiting.run });
  expect(texts(await api.window(run))).toEqual(['a', 'b', 'z']);
});

test('one run at a time: others wait in order, are refused, or push in front', async () => {
  const first = await start();
  expect(first.created.kind).toBe('started');
  const { conversation } = first;
  const second = await start({ conversation });
  const third = await start({ conversation, onBusy: 'interrupt' });
  expect(second.created).toMatchObject({ kind: 'waiting', active: first.run });
  await expect(start({ conversation, onBusy: 'reject' })).rejects.toMatchObject({
    code: 'YM-CONVERSATION-BUSY',
    details: { run: first.run },
  });
  expect((await api.listRuns(acme, { conversation })).items.map(({ id }) => id)).toEqual([
    third.run,
    second.run,
    first.run,
  ]);
  // A worker that meets a waiting run too early is told to let it go.
  expect(await two.acquire({ ...second, deliverySequence: 1, leaseMs: 1 })).toMatchObject({
    kind: 'busy',
    run: first.run,
    waiting: true,
  });
  const held = await take(one, first);
  expect((await one.finish({ ...held, expectedSeq: 0, items: [], record: { state: 'failed' } })).next).toBe(third.run);
  const next = await take(two, third);
  expect((await two.finish({ ...next, expectedSeq: 0, items: [], record: { state: 'completed' } })).next).toBe(
    second.run,
  );
  // Still queued and not yet taken: the conversation is its own already.
  expect((await api.getConversation(acme, conversation)).activeRun).toBe(second.run);
});

test('creating a run again changes nothing; an unknown conversation is refused', async () => {
  const ref = { tenant: acme, conversation: newId(), run: newId(), specJson: '{}', newConversation: true };
  const tries = await Promise.all(Array.from({ length: 10 }, () => api.createRun(ref)));
  expect(tries.filter(({ kind }) => kind === 'started')).toHaveLength(1);
  expect(tries.filter(({ kind }) => kind === 'exists')).toHaveLength(9);
  await Promise.all(tries.map(({ indexed }) => indexed));
  expect((await api.listRuns(acme, { conversation: ref.conversation })).items).toHaveLength(1);
  const unknown = { ...ref, conversation: newId(), run: newId(), newConversation: false };
  await expect(api.createRun(unknown)).rejects.toMatchObject({ class: 'NOT_FOUND', code: 'YM-CONVERSATION-UNKNOWN' });
  await expect(api.getRun(acme, unknown.run)).rejects.toMatchObject({ class: 'NOT_FOUND' });
});

test('a cancel that was accepted wins over a completion, one that comes too late is told so', async () => {
  const run = await take(one, await start());
  await one.append({ ...run, expectedSeq: 0, items: [user('hi')], record: { state: 'running' } });
  expect((await api.requestCancel(acme, run.run, 'changed my mind')).outcome).toBe('requested');
  expect((await api.requestCancel(acme, run.run)).outcome).toBe('already');
  expect((await api.listRuns(acme, { state: 'cancelling' })).items.map(({ id }) => id)).toContain(run.run);
  await one.append({ ...run, expectedSeq: 1, items: [calls('1')], record: { state: 'running' } });
  expect((await api.getRun(acme, run.run)).state).toBe('cancelling');
  const done = await one.finish({ ...run, expectedSeq: 2, items: [results('1')], record: { state: 'completed' } });
  expect(done.state).toBe('cancelled');
  expect((await api.requestCancel(acme, run.run)).outcome).toBe('ended');
  await expect(api.requestCancel(other, run.run)).rejects.toMatchObject({ class: 'NOT_FOUND' });
});

test('a cancelled run that never had its conversation is ended where it waits', async () => {
  const first = await start();
  const second = await start({ conversation: first.conversation });
  expect(await one.cancelWaiting(second)).toBe(false);
  await api.requestCancel(acme, second.run);
  expect(await one.cancelWaiting(second)).toBe(true);
  expect((await api.getRun(acme, second.run)).state).toBe('cancelled');
  const held = await take(one, first);
  const done = await one.finish({ ...held, expectedSeq: 0, items: [], record: { state: 'completed' } });
  expect(done.next).toBeUndefined();
});

test('a parked run has no lease and keeps its conversation; one decision per call counts', async () => {
  const run = await take(one, await start());
  await one.append({
    ...run,
    expectedSeq: 0,
    items: [user('hi'), calls('c')],
    record: {
      state: 'waiting_approval',
      pending: [
        {
          call: '1-0',
          providerId: 'c',
          name: 'effect',
          argumentsJson: '{"x":1}',
          argsHash: 'hash',
          historySeq: 2,
          nonce: 'n',
          effect: 'unsafe',
          kind: 'shell',
          approval: 'waiting',
        },
      ],
    },
    release: true,
  });
  expect((await start({ conversation: run.conversation })).created.kind).toBe('waiting');
  const record = await api.getRun(acme, run.run);
  const yes = { decision: 'approve' as const, argsHash: 'hash', by: 'key1' };
  await expect(api.decide(record, '1-1', yes)).rejects.toMatchObject({ class: 'NOT_FOUND' });
  await expect(api.decide(record, '1-0', { ...yes, argsHash: 'else' })).rejects.toMatchObject({
    code: 'YM-APPROVAL-ARGS',
  });
  const tries = await Promise.allSettled(Array.from({ length: 5 }, () => api.decide(record, '1-0', yes)));
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  const again = await two.acquire({ ...run, deliverySequence: 1, leaseMs: 1_000 });
  expect(again).toMatchObject({ kind: 'acquired', seq: 2, record: { decisions: { '1-0': { decision: 'approve' } } } });
});

test('steering messages wait for the agent and are read once', async () => {
  const run = await take(one, await start());
  expect(await api.steer(run, 'use the other file')).toBe(1);
  expect(await api.steer(run, 'and hurry')).toBe(2);
  const { steering } = await one.getRun(acme, run.run);
  expect(steering).toEqual([
    { n: 1, text: 'use the other file' },
    { n: 2, text: 'and hurry' },
  ]);
  await one.append({ ...run, expectedSeq: 0, items: steering.map(({ text }) => user(text)), record: { steerDone: 2 } });
  expect((await one.getRun(acme, run.run)).steering).toEqual([]);
});

test('the window is the newest part, without results whose call is outside of it', async () => {
  const run = await take(one, await start());
  const items = Array.from({ length: 450 }, (_, i) =>
    i % 3 === 0 ? user(`u${i}`) : i % 3 === 1 ? calls(`${i}`) : results(`${i - 1}`),
  );
  await one.append({ ...run, expectedSeq: 0, items });
  expect((await one.window(run)).map(({ seq }) => seq)).toEqual(Array.from({ length: 450 }, (_, i) => i + 1));
  expect((await one.window({ ...run, limit: 4 })).map(({ seq }) => seq)).toEqual([448, 449, 450]);
  expect((await one.window({ ...run, upToSeq: 10, limit: 3 })).map(({ seq }) => seq)).toEqual([8, 9, 10]);
  const small = await one.window({ ...run, maxBytes: 300 });
  expect(small.reduce((bytes, { json }) => bytes + json.length, 0)).toBeLessThanOrEqual(300);
  expect(small.at(-1)?.seq).toBe(450);
  const router = await connect(servers, 'router', 'router');
  expect(await router.window({ ...run, limit: 10 })).toHaveLength(9);
  await expect(router.append({ ...run, expectedSeq: 450, items: [user('no')] })).rejects.toMatchObject({
    class: 'INTERNAL',
  });
  await router.close();
});

test('a summary stands for what it replaces, in windows that reach that far', async () => {
  const run = await take(one, await start());
  await one.append({ ...run, expectedSeq: 0, items: [user('a'), user('b'), user('c'), user('d')] });
  await one.compact({ ...run, upToSeq: 2, summary: user('a and b') });
  await expect(one.compact({ ...run, upToSeq: 9, summary: user('') })).rejects.toMatchObject({ class: 'CONFLICT' });
  expect(texts(await one.window(run))).toEqual(['a and b', 'c', 'd']);
  expect(texts(await one.window({ ...run, limit: 1 }))).toEqual(['d']);
  expect(texts(await one.window({ ...run, upToSeq: 1 }))).toEqual(['a']);
  expect(texts(await api.listItems(run))).toEqual(['a', 'b', 'c', 'd']);
});

test('a cache of windows answers what the store would, whatever was written, compacted or lost meanwhile', async () => {
  const run = await take(one, await start());
  const router = await connect(servers, 'router', 'router');
  const cache = router.windowCache({ conversations: 2, chars: 100_000, limit: 7 });
  const same = async (upToSeq: number) => {
    const expected = await one.window({ ...run, upToSeq, limit: 7 });
    expect(await cache.window({ ...run, upToSeq })).toEqual(expected);
    expect(await cache.window({ ...run, upToSeq })).toEqual(expected);
    return expected;
  };
  await same(0);
  let seq = await one.append({ ...run, expectedSeq: 0, items: [user('a'), calls('1'), results('1')] });
  await same(seq);
  for (let n = 2; n < 9; n++) {
    const more = n % 3 === 0 ? [calls(`${n}`), results(`${n}`)] : [user('x'.repeat(n))];
    seq = await one.append({ ...run, expectedSeq: seq, items: more });
    if (n % 2 === 0) await same(seq);
    await same(seq - 1);
  }
  await one.compact({ ...run, upToSeq: seq - 2, summary: user('so far') });
  expect(texts(await same(seq))[0]).toBe('so far');
  await same(seq - 3);
  seq = await one.append({
    ...run,
    expectedSeq: seq,
    items: Array.from({ length: 230 }, (_, n) => user(`many ${n}`)),
  });
  await same(seq);
  // A Redis that lost its last writes, and got others under their numbers.
  await one.finish({ ...run, expectedSeq: seq, items: [], record: { state: 'completed' } });
  await api.deleteConversation(run);
  const ref = { tenant: acme, conversation: run.conversation, run: newId() };
  await api.createRun({ ...ref, specJson: '{}', newConversation: true });
  const again = await one.acquire({ ...ref, deliverySequence: 1_000, leaseMs: 60_000 });
  if (again.kind !== 'acquired') throw new Error(`not acquired: ${again.kind}`);
  const other = Array.from({ length: seq + 5 }, (_, n) => user(`other ${n}`));
  await one.append({ ...ref, fence: again.fence, expectedSeq: 0, items: other });
  expect(texts(await same(seq - 3)).at(-1)).toBe(`other ${seq - 4}`);
  expect(texts(await same(seq + 5)).at(-1)).toBe(`other ${seq + 4}`);
  expect(texts(await same(seq)).at(-1)).toBe(`other ${seq - 1}`);
  await router.close();
});

test('a conversation has a size limit that still lets its run end', async () => {
  const small = await connect(servers, 'dispatcher', 'small', 500);
  const run = await take(small, await start());
  const seq = await small.append({ ...run, expectedSeq: 0, items: [user('x'.repeat(400))] });
  await expect(small.append({ ...run, expectedSeq: seq, items: [user('x'.repeat(400))] })).rejects.toMatchObject({
    class: 'EXHAUSTED',
    code: 'YM-CONVERSATION-FULL',
  });
  expect((await small.finish({ ...run, expectedSeq: seq, items: [], record: { state: 'failed' } })).state).toBe(
    'failed',
  );
  await small.close();
});

test('lists are filtered, paged and only show the own tenant', async () => {
  const agent = `agent-${newId()}`;
  const made = [];
  for (let i = 0; i < 7; i++) made.push((await start({ agent })).run);
  const pages: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await api.listRuns(acme, { agent, state: 'queued', limit: 3, ...(cursor && { cursor }) });
    pages.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  } while (cursor);
  expect(pages).toEqual([...made].reverse());
  expect((await api.listRuns(other)).items).toEqual([]);
  await expect(api.getRun(other, made[0]!)).rejects.toMatchObject({ class: 'NOT_FOUND' });
  await expect(api.listRuns(acme, { cursor: 'nonsense' })).rejects.toMatchObject({ code: 'YM-CURSOR' });
  expect((await api.countRuns(acme)).queued).toBeGreaterThanOrEqual(7);
});

test('conversations are made, listed and deleted, but not under a run', async () => {
  const tenant = tenantId('lists');
  const made = [await api.createConversation(tenant), await api.createConversation(tenant)];
  expect((await api.listConversations(tenant)).items.map(({ id }) => id)).toEqual(made.map(({ id }) => id).reverse());
  await api.deleteConversation({ tenant, conversation: made[0]!.id });
  await expect(api.getConversation(tenant, made[0]!.id)).rejects.toMatchObject({ class: 'NOT_FOUND' });
  await expect(api.getConversation(acme, made[1]!.id)).rejects.toMatchObject({ class: 'NOT_FOUND' });
  const run = await start();
  await expect(api.deleteConversation(run)).rejects.toMatchObject({ code: 'YM-CONVERSATION-BUSY' });
});

test('an Idempotency-Key stands for the first body and its run', async () => {
  const ids = () => ({ run: newId(), conversation: newId() });
  const key = newId();
  const claims = await Promise.all(Array.from({ length: 20 }, () => api.idempotency.claim(acme, key, 'body', ids())));
  expect(new Set(claims.map(({ run }) => run)).size).toBe(1);
  expect(claims.filter(({ fresh }) => fresh)).toHaveLength(1);
  await expect(api.idempotency.claim(acme, key, 'other', ids())).rejects.toMatchObject({
    code: 'YM-IDEMPOTENCY-MISMATCH',
    details: { run: claims[0]!.run },
  });
  expect((await api.idempotency.claim(other, key, 'other', ids())).fresh).toBe(true);
});

test('runs that the queue refused come back in order until they are admitted', async () => {
  const [a, b] = [await start(), await start()];
  await api.admission.wait(a);
  await api.admission.wait(b);
  await api.admission.wait(a);
  expect(await one.admission.tenants()).toEqual([acme]);
  expect((await one.admission.next(acme, 5)).map(({ run }) => run)).toEqual([a.run, b.run]);
  await one.admission.admitted(acme, a.run);
  await one.admission.admitted(acme, b.run);
  expect(await one.admission.tenants()).toEqual([]);
});

test('a bucket refills, counters add up, bodies are their tenant’s', async () => {
  const bucket = { perSecond: 10, size: 2 };
  const taken: Taken[] = [];
  for (let i = 0; i < 3; i++) taken.push(await api.limits.take(acme, 'requests', bucket));
  expect(taken.map(({ allowed }) => allowed)).toEqual([true, true, false]);
  expect(taken[2]!.retryAfterMs).toBeGreaterThan(0);
  await new Promise((resolve) => setTimeout(resolve, taken[2]!.retryAfterMs + 20));
  expect((await api.limits.take(acme, 'requests', bucket)).allowed).toBe(true);
  await api.limits.addUsage(acme, 'day', { tokens: 5, cost_usd: 0.5 });
  expect(await api.limits.addUsage(acme, 'day', { tokens: 7 })).toEqual({ tokens: 12 });
  expect(await api.limits.usage(acme, 'day')).toEqual({ tokens: 12, cost_usd: 0.5 });
  const key = await api.bodies.put(acme, '[1]');
  expect(await api.bodies.get(acme, key)).toBe('[1]');
  await expect(api.bodies.get(other, key)).rejects.toMatchObject({ class: 'NOT_FOUND' });
});

test('timers come back until they are done, and one process leads', async () => {
  await one.timers.add('approval:x', 0);
  await one.timers.add('deadline:y', 60_000);
  expect(await one.timers.due(10, 30)).toEqual(['approval:x']);
  expect(await one.timers.due(10, 30)).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await two.timers.due()).toEqual(['approval:x']);
  await two.timers.done('approval:x');
  expect(await one.leadership.lead('sweep', 1_000)).toBe(true);
  expect(await two.leadership.lead('sweep', 1_000)).toBe(false);
  await one.leadership.resign('sweep');
  expect(await two.leadership.lead('sweep', 1_000)).toBe(true);
});

test('everything of a conversation expires', async () => {
  const run = await take(one, await start());
  await one.append({ ...run, expectedSeq: 0, items: [user('hi')], record: { state: 'running' } });
  await start({ conversation: run.conversation });
  const tag = `{acme:${run.conversation}}`;
  for (const key of [`ym:h:${tag}`, `ym:m:${tag}`, `ym:q:${tag}`, `ym:r:${tag}:${run.run}`, `ym:ix:${run.run}`])
    expect([key, (await one.redis.pttl(key)) > 0]).toEqual([key, true]);
});

test('a Redis that comes back empty ends the run as lost, and the fence does not go backwards', async () => {
  const volatile = await startServers({ executors: [], persistence: 'off' });
  await load(volatile);
  const a = await connect(volatile, 'dispatcher', 'a');
  const b = await connect(volatile, 'dispatcher', 'b');
  const ref = { tenant: acme, conversation: newId(), run: newId() };
  await a.createRun({ ...ref, specJson: '{}', newConversation: true });
  const held = await a.acquire({ ...ref, deliverySequence: 40, leaseMs: 1_000 });
  if (held.kind !== 'acquired') throw new Error(held.kind);
  const mine = { ...ref, fence: held.fence };
  await a.append({ ...mine, expectedSeq: 0, items: [user('hi')], record: { state: 'running' } });
  await volatile.redis.kill();
  await volatile.redis.startAgain();
  await expect(a.append({ ...mine, expectedSeq: 1, items: [user('x')] })).rejects.toMatchObject({
    class: 'UNAVAILABLE',
    code: 'YM-STORE-UNREADY',
  });
  await expect(a.checkReady()).rejects.toMatchObject({ code: 'YM-STORE-UNREADY' });
  await load(volatile);
  await a.checkReady();
  await expect(a.append({ ...mine, expectedSeq: 1, items: [user('x')] })).rejects.toMatchObject({
    code: 'YM-STATE-LOST',
  });
  await expect(a.renew({ ...mine, leaseMs: 10 })).rejects.toMatchObject({ code: 'YM-STATE-LOST' });
  // The redelivery finds no record; whoever has the message ends the run.
  const again = await b.acquire({ ...ref, deliverySequence: 41, leaseMs: 1_000 });
  expect(again).toMatchObject({ kind: 'acquired', fence: 41, seq: 0, record: undefined });
  expect((await b.failLost({ ...ref, fence: 41 }, 'Redis lost it.')).state).toBe('failed');
  expect(await b.getRun(acme, ref.run)).toMatchObject({ state: 'failed', error: { code: 'state_lost' } });
  await expect(a.append({ ...mine, expectedSeq: 1, items: [user('x')] })).rejects.toMatchObject({ code: 'YM-FENCED' });
  const fresh = { ...ref, run: newId() };
  expect((await a.createRun({ ...fresh, specJson: '{}' })).kind).toBe('started');
  expect(await a.acquire({ ...fresh, deliverySequence: 2, leaseMs: 1_000 })).toMatchObject({
    kind: 'acquired',
    fence: 42,
  });
  await Promise.all([a.close(), b.close()]);
  await volatile.stop();
});
