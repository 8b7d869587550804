import {
  BUCKETS,
  RunEventSchema,
  STREAMS,
  subjects,
  tenantId,
  ToolCallSchema,
  ToolResultSchema,
  toolWork,
  type YardError,
} from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Bus, ensureTopology } from './index.js';

const TENANT = tenantId('acme');
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
let servers: Servers;
let setup: Bus;
let api: Bus;
let dispatcher: Bus;
let registry: Bus;
let executor: Bus;

beforeAll(async () => {
  servers = await startServers({ executors: ['shell'] });
  const login = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user), log: quiet });
  const users = ['setup', 'api', 'dispatcher', 'registry', 'executor-shell'];
  [setup, api, dispatcher, registry, executor] = (await Promise.all(users.map(login))) as [Bus, Bus, Bus, Bus, Bus];
});
afterAll(async () => {
  await Promise.all([setup, api, dispatcher, registry, executor].map((bus) => bus.close()));
  await servers.stop();
});
const failing = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('it succeeded'),
    (error: unknown) => error as YardError,
  );

describe('the topology', () => {
  it('is made once, changed where it differs, and says what it cannot change', async () => {
    expect(await failing(api.enqueue(subjects.runStart(TENANT), RunEventSchema, {}))).toMatchObject({
      class: 'UNAVAILABLE',
      code: 'YM-NO-STREAM',
    });
    const made = await ensureTopology(setup, { kinds: ['shell'] });
    expect(made.created).toEqual(
      expect.arrayContaining(['YM_RUN', 'YM_RUN.work', 'YM_TOOL_SHELL', 'YM_TOOL_SHELL.work', 'KV_ym_tools']),
    );
    expect(await ensureTopology(setup, { kinds: ['shell'] })).toEqual({ created: [], updated: [], problems: [] });
    const changed = await ensureTopology(setup, { kinds: ['shell'], share: 4, ackWaitMs: 2_000 });
    expect(changed.updated).toEqual([
      'YM_RUN (max_msgs_per_subject)',
      'YM_RUN.work (ack_wait)',
      'YM_TOOL_SHELL (max_msgs_per_subject)',
      'YM_TOOL_SHELL.work (ack_wait)',
      'YM_TOOL_MCP (max_msgs_per_subject)',
      'YM_TOOL_MCP.work (ack_wait)',
    ]);
    await setup.nc.request('$JS.API.STREAM.DELETE.YM_CMD', '');
    await setup.nc.request(
      '$JS.API.STREAM.CREATE.YM_CMD',
      JSON.stringify({ name: 'YM_CMD', subjects: ['ym.cmd.*.*'], retention: 'interest', storage: 'memory' }),
    );
    const { problems } = await ensureTopology(setup, { kinds: ['shell'] });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(/YM_CMD: retention is "interest", not "limits"/);
    await setup.nc.request('$JS.API.STREAM.DELETE.YM_CMD', '');
    await ensureTopology(setup, { kinds: ['shell'] });
  });
});

describe('first writer wins', () => {
  it('one of many at the same moment, whatever accounts they are in', async () => {
    const subject = subjects.result(TENANT, 'run', '1-0', 'nonce');
    const publish = (i: number) =>
      (i % 2 ? executor : dispatcher).publishOnce(subject, ToolResultSchema, { output: String(i) });
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => publish(i)));
    expect(answers.filter((answer) => answer === 'stored')).toHaveLength(1);
    const stored = await dispatcher.getStored(STREAMS.results.name, subject, ToolResultSchema);
    expect(stored?.message.output).toBe(String(answers.indexOf('stored')));
  });

  it('also when the second writer does not ask for it', async () => {
    const subject = subjects.result(TENANT, 'run', '1-1', 'nonce');
    await executor.publishOnce(subject, ToolResultSchema, { output: 'first' });
    expect(await failing(dispatcher.enqueue(subject, ToolResultSchema, { output: 'second' }))).toMatchObject({
      code: 'YM-QUEUE-FULL',
    });
    expect((await dispatcher.getStored(STREAMS.results.name, subject, ToolResultSchema))?.message.output).toBe('first');
  });

  it('what is not there is not there', async () => {
    expect(
      await dispatcher.getStored(STREAMS.results.name, subjects.result(TENANT, 'no', '1-0', 'n'), ToolResultSchema),
    ).toBeUndefined();
  });
});

describe('numbered messages', () => {
  it('are appended behind the last one only, and read back in order from anywhere', async () => {
    const subject = subjects.event(TENANT, 'run1');
    const sequences: number[] = [];
    for (let n = 1; n <= 600; n++)
      sequences.push(
        await dispatcher.append(
          subject,
          RunEventSchema,
          { n: BigInt(n) },
          { expectedLastSubjectSequence: sequences.at(-1) ?? 0 },
        ),
      );
    expect(
      await failing(dispatcher.append(subject, RunEventSchema, {}, { expectedLastSubjectSequence: sequences[3]! })),
    ).toMatchObject({ class: 'CONFLICT', code: 'YM-SEQUENCE' });
    const read = async (fromSequence?: number) => {
      const numbers: number[] = [];
      for await (const { message, sequence } of api.readSubject('YM_EVT', subject, RunEventSchema, { fromSequence })) {
        numbers.push(Number(message.n));
        expect(sequence).toBe(sequences[numbers.at(-1)! - 1]);
      }
      return numbers;
    };
    expect(await read()).toEqual(Array.from({ length: 600 }, (_, i) => i + 1));
    expect(await read(sequences[597])).toEqual([598, 599, 600]);
    expect(await read(sequences.at(-1)! + 1)).toEqual([]);
    for await (const { message } of api.readSubject('YM_EVT', subject, RunEventSchema)) if (message.n === 3n) break; // a reader may leave
    expect(await api.readSubject('YM_EVT', subjects.event(TENANT, 'none'), RunEventSchema).next()).toMatchObject({
      done: true,
    });
  });

  it('can be deleted one by one', async () => {
    const { sequence } = await dispatcher.enqueue(subjects.tool('shell', TENANT), ToolCallSchema, {});
    expect(await dispatcher.deleteMessage(toolWork('shell').stream, sequence)).toBe(true);
    expect(await dispatcher.deleteMessage(toolWork('shell').stream, sequence)).toBe(false);
  });
});

describe('buckets', () => {
  const text = (value: Uint8Array) => {
    const decoded = new TextDecoder().decode(value);
    if (decoded === 'bad') throw new Error('bad value');
    return decoded;
  };

  it('are written by those who may, read and followed by the others', async () => {
    const snapshot = await dispatcher.watch(BUCKETS.tools, text);
    expect(snapshot.current.size).toBe(0);
    const kv = registry.kv(BUCKETS.tools);
    const first = await kv.create('acme.sh', 'one');
    expect((await failing(kv.create('acme.sh', 'two'))).class).toBe('CONFLICT');
    const second = await kv.update('acme.sh', 'two', first);
    expect((await failing(kv.update('acme.sh', 'three', first))).class).toBe('CONFLICT');
    await expect.poll(() => snapshot.current.get('acme.sh')).toBe('two');
    expect(snapshot.revision).toBe(second);
    await kv.put('acme.sh', 'bad');
    await kv.put('acme.other', 'x');
    await expect
      .poll(() => [...snapshot.current])
      .toEqual([
        ['acme.sh', 'two'],
        ['acme.other', 'x'],
      ]); // what cannot be read does not take away what could
    const late = await api.watch(BUCKETS.tools, text);
    expect([...late.current]).toEqual([['acme.other', 'x']]);
    await kv.delete('acme.sh');
    await kv.delete('acme.other');
    await expect.poll(() => snapshot.current.size).toBe(0);
    expect(await kv.get('acme.sh')).toBeUndefined();
    const third = await kv.create('acme.sh', 'three');
    const item = await kv.get('acme.sh');
    expect([text(item!.value), item!.revision]).toEqual(['three', third]);
    snapshot.stop();
    late.stop();
    expect((await failing(dispatcher.kv(BUCKETS.tools).put('a', 'b'))).class).toBe('DENIED');
    expect((await failing(kv.get('a.*'))).code).toBe('YM-KV-KEY');
  });

  it('a bucket with many keys is whole when the watch resolves', async () => {
    const kv = registry.kv(BUCKETS.tools);
    await Promise.all(Array.from({ length: 500 }, (_, i) => kv.put(`many.${i}`, String(i))));
    const snapshot = await dispatcher.watch(BUCKETS.tools, text);
    expect([...snapshot.current.keys()].filter((key) => key.startsWith('many.'))).toHaveLength(500);
    snapshot.stop();
  });

  it('tell which keys have changed, and never change what was taken of them', async () => {
    const kv = registry.kv(BUCKETS.tools);
    await kv.put('told.1', 'one');
    const snapshot = await dispatcher.watch(BUCKETS.tools, text);
    const taken = snapshot.current;
    const told: [string[], string | undefined, number][] = [];
    snapshot.onChange(({ revision }, changed) => told.push([[...changed], snapshot.get([...changed][0]!), revision]));
    const second = await kv.put('told.1', 'two');
    await expect.poll(() => told).toEqual([[['told.1'], 'two', second]]);
    const third = await kv.update('told.2', 'new', (await kv.state('told.2')).revision);
    await expect.poll(() => told).toHaveLength(2);
    expect(told[1]).toEqual([['told.2'], 'new', third]);
    await kv.delete('told.1');
    await expect.poll(() => told.at(-1)?.slice(0, 2)).toEqual([['told.1'], undefined]);
    expect([taken.get('told.1'), taken.has('told.2')]).toEqual(['one', false]);
    snapshot.stop();
  });

  it('lose the marks of deleted keys, but never the newest entry or a key that was written again', async () => {
    const follower = await Bus.connect({ url: servers.natsUrl, ...servers.nats.login('registry'), log: quiet });
    const kv = follower.kv(BUCKETS.tools);
    const written = Array.from({ length: 20 }, (_, i) => `swept.${i}`);
    await Promise.all(written.map((key) => kv.put(key, key)));
    const snapshot = await follower.watch(BUCKETS.tools, text, { sweep: { olderThanMs: 100, everyMs: 20 } });
    await Promise.all(written.map((key) => kv.delete(key)));
    await kv.put('swept.0', 'again');
    expect(await kv.state('swept.1')).toMatchObject({ value: undefined, revision: expect.any(Number) as number });
    const { revision: last } = await kv.state('swept.19');
    await expect.poll(() => snapshot.get('swept.0')).toBe('again');
    await expect
      .poll(async () => Promise.all(written.slice(1).map(async (key) => (await kv.state(key)).revision)))
      .toEqual(written.slice(1).map(() => 0));
    expect(snapshot.revision).toBeGreaterThan(last);
    expect(text((await kv.get('swept.0'))!.value)).toBe('again');
    // The mark of the last deletion is the newest entry until something else is written.
    await kv.delete('swept.0');
    const { revision: newest } = await kv.state('swept.0');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await kv.state('swept.0')).revision).toBe(newest);
    await kv.put('swept.other', 'x');
    await expect.poll(async () => (await kv.state('swept.0')).revision).toBe(0);
    expect(await kv.update('swept.0', 'new', 0)).toBeGreaterThan(newest);
    await follower.close();
  });

  it('stay when they are young', async () => {
    const follower = await Bus.connect({ url: servers.natsUrl, ...servers.nats.login('registry'), log: quiet });
    await follower.watch(BUCKETS.tools, text, { sweep: { olderThanMs: 60_000, everyMs: 10 } });
    const kv = follower.kv(BUCKETS.tools);
    await kv.put('young.1', 'x');
    await kv.delete('young.1');
    await kv.put('young.2', 'x');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await kv.state('young.1')).revision).toBeGreaterThan(0);
    await follower.close();
  });

  it('a watch resolves when marks are removed while it reads', async () => {
    const kv = registry.kv(BUCKETS.tools);
    await kv.put('whole.1', 'x');
    for (let round = 0; round < 5; round++) {
      const keys = Array.from({ length: 1_000 }, (_, i) => `gone.${i}`);
      await Promise.all(keys.map((key) => kv.delete(key)));
      const marks = await Promise.all(keys.map(async (key) => (await kv.state(key)).revision));
      await kv.put('whole.2', String(round));
      const watching = dispatcher.watch(BUCKETS.tools, text);
      await new Promise((resolve) => setTimeout(resolve, round * 4));
      const removed = await Promise.all(marks.map((mark) => registry.deleteMessage('KV_ym_tools', mark)));
      expect(removed.every(Boolean)).toBe(true);
      const snapshot = await watching;
      expect([snapshot.get('whole.1'), snapshot.get('whole.2')]).toEqual(['x', String(round)]);
      await kv.put('whole.2', 'after');
      await expect.poll(() => snapshot.get('whole.2')).toBe('after');
      snapshot.stop();
    }
  });
});
