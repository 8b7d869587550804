import { setTimeout as sleep } from 'node:timers/promises';
import {
  BUCKETS,
  Registry,
  Router,
  subjects,
  tenantId,
  toolWork,
  ToolResultSchema,
  RunEventSchema,
  ToolCallSchema,
  type YardError,
} from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Bus, ensureTopology } from './index.js';

const TENANT = tenantId('acme');
let servers: Servers;
const buses: Bus[] = [];
const login = async (user: string) => {
  const bus = await Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  buses.push(bus);
  return bus;
};
let setup: Bus;
let api: Bus;
let dispatcher: Bus;
let router: Bus;
let registry: Bus;
let executor: Bus;

beforeAll(async () => {
  servers = await startServers({ executors: ['shell'] });
  [setup, api, dispatcher, router, registry, executor] = (await Promise.all(
    ['setup', 'api', 'dispatcher', 'router', 'registry', 'executor-shell'].map(login),
  )) as [Bus, Bus, Bus, Bus, Bus, Bus];
  const report = await ensureTopology(setup, { kinds: ['shell'], ackWaitMs: 2_000 });
  expect(report.problems).toEqual([]);
  expect(report.created).toContain('YM_TOOL_SHELL.work');
  expect(await ensureTopology(setup, { kinds: ['shell'], ackWaitMs: 2_000 })).toEqual({
    created: [],
    updated: [],
    problems: [],
  });
});
afterAll(async () => {
  await Promise.all(buses.map((bus) => bus.close()));
  await servers.stop();
});

const failing = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('it succeeded');
    },
    (error: unknown) => error as YardError,
  );

describe('questions', () => {
  it('are answered, with the tenant and the deadline', async () => {
    const served = registry.serve(Registry.validate, (request, context) => ({
      ok: true,
      message: `${request.name} ${context.tenant} ${context.deadlineMs}`,
    }));
    await registry.flush();
    const answer = await dispatcher.request(
      Registry.validate,
      TENANT,
      { name: 'x', argumentsJson: '{}' },
      { timeoutMs: 1000 },
    );
    expect(answer.message).toBe('x acme 1000');
    await served.stop();
    const error = await failing(dispatcher.request(Registry.validate, TENANT, {}, { timeoutMs: 1000 }));
    expect([error.class, error.code]).toEqual(['UNAVAILABLE', 'YM-NO-RESPONDERS']);
  });
});

describe('streamed answers', () => {
  it('arrive frame by frame', async () => {
    const served = router.serveStream(Router.chat, async (request, context) => {
      for (let i = 0; i < 3; i++) context.send({ kind: { case: 'delta', value: `${request.model}${i}` } });
      await sleep(1);
    });
    await router.flush();
    const seen: unknown[] = [];
    for await (const frame of dispatcher.stream(
      Router.chat,
      TENANT,
      { model: 'm' },
      { requestId: 'r1', timeoutMs: 5000 },
    ))
      seen.push(frame.kind.value);
    expect(seen).toEqual(['m0', 'm1', 'm2']);
    await served.stop();
  });
});

describe('work', () => {
  it('is done in an executor account and answered once', async () => {
    const seen: object[] = [];
    const worker = executor.work(
      toolWork('shell'),
      async (call, context) => {
        const { tenant, subject, deliveryCount, streamSequence } = context;
        seen.push({ name: call.name, tenant, subject, deliveryCount, streamSequence });
        const subject2 = subjects.result(TENANT, call.runId, call.callId, call.nonce);
        expect(await executor.publishOnce(subject2, ToolResultSchema, { ok: true, output: 'a' })).toBe('stored');
        expect(await executor.publishOnce(subject2, ToolResultSchema, { ok: true, output: 'b' })).toBe('exists');
      },
      { slots: 2, ackWaitMs: 2000 },
    );
    await dispatcher.enqueue(subjects.tool('shell', TENANT), ToolCallSchema, {
      name: 't',
      runId: 'r',
      callId: '1-0',
      nonce: 'n',
    });
    await expect.poll(() => seen.length).toBe(1);
    expect(seen[0]).toMatchObject({ name: 't', tenant: 'acme', subject: 'ym.tool.shell.acme', deliveryCount: 1 });
    await expect
      .poll(
        async () =>
          (await dispatcher.getStored('YM_RES', subjects.result(TENANT, 'r', '1-0', 'n'), ToolResultSchema))?.message
            .output,
      )
      .toBe('a');
    await worker.stop();
  });
});

describe('buckets', () => {
  it('are read, written and watched', async () => {
    const snapshot = await router.watch(BUCKETS.tools, (value) => new TextDecoder().decode(value));
    expect(snapshot.current.size).toBe(0);
    const kv = registry.kv(BUCKETS.tools);
    const revision = await kv.create('a.b', 'one');
    expect((await failing(kv.create('a.b', 'two'))).class).toBe('CONFLICT');
    await kv.update('a.b', 'two', revision);
    await expect.poll(() => snapshot.current.get('a.b')).toBe('two');
    const other = await dispatcher.watch(BUCKETS.tools, (value) => new TextDecoder().decode(value));
    expect([...other.current]).toEqual([['a.b', 'two']]);
    await kv.delete('a.b');
    await expect.poll(() => snapshot.current.size).toBe(0);
    await kv.create('a.b', 'three');
    expect(new TextDecoder().decode((await kv.get('a.b'))!.value)).toBe('three');
  });
});

describe('stored messages', () => {
  it('are appended in order and read back', async () => {
    const subject = subjects.event(TENANT, 'run1');
    let last = 0;
    for (let n = 1; n <= 300; n++)
      last = await dispatcher.append(
        subject,
        RunEventSchema,
        { n: BigInt(n), runId: 'run1' },
        { expectedLastSubjectSequence: last },
      );
    expect(
      (await failing(dispatcher.append(subject, RunEventSchema, {}, { expectedLastSubjectSequence: 1 }))).class,
    ).toBe('CONFLICT');
    const numbers: number[] = [];
    for await (const { message } of api.readSubject('YM_EVT', subject, RunEventSchema)) numbers.push(Number(message.n));
    expect(numbers).toEqual(Array.from({ length: 300 }, (_, i) => i + 1));
  });
});
