import { setTimeout as sleep } from 'node:timers/promises';
import { Bus, ensureTopology, HandBack } from '@yardmaster/bus';
import { newId, subjects, tenantId, ToolCallSchema, toolWork } from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { claim, type ClaimDelivery, MAX_ATTEMPTS } from './index.js';

const TENANT = tenantId('acme');
const ACK_WAIT_MS = 1_000;
let servers: Servers;
let setup: Bus;
let dispatcher: Bus;
let executor: Bus;

beforeAll(async () => {
  servers = await startServers({ executors: ['files'] });
  const login = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  [setup, dispatcher, executor] = (await Promise.all(['setup', 'dispatcher', 'executor-files'].map(login))) as [
    Bus,
    Bus,
    Bus,
  ];
  await ensureTopology(setup, { kinds: ['files'], ackWaitMs: ACK_WAIT_MS });
});
afterAll(async () => {
  await Promise.all([setup, dispatcher, executor].map((bus) => bus.close()));
  await servers.stop();
});

const newCall = () => ({ tenant: TENANT, runId: newId(), callId: '1-0', argsHash: '', historySeq: 0n, nonce: newId() });
const delivery = (more: Partial<ClaimDelivery>): ClaimDelivery => ({
  executor: 'a',
  streamSequence: 5,
  deliverySequence: 9,
  deliveryCount: 1,
  afterOutage: false,
  ...more,
});

it('the first delivery claims; the same delivery again is still its claimant', async () => {
  const call = newCall();
  expect(await claim(executor, call, 'unsafe', delivery({}))).toEqual({ is: 'mine', attempt: 1 });
  expect(await claim(executor, call, 'unsafe', delivery({}))).toEqual({ is: 'mine', attempt: 1 });
});

it('another message with the same call is superfluous, on its later deliveries too', async () => {
  const call = newCall();
  await claim(executor, call, 'read', delivery({}));
  expect(await claim(executor, call, 'read', delivery({ executor: 'b', streamSequence: 6 }))).toEqual({
    is: 'duplicate',
  });
  expect(await claim(executor, call, 'read', delivery({ executor: 'b', streamSequence: 6, deliveryCount: 3 }))).toEqual(
    { is: 'duplicate' },
  );
});

it('a later delivery of the same message finds the attempt dead: what may run again does, a few times', async () => {
  const unsafe = newCall();
  await claim(executor, unsafe, 'unsafe', delivery({}));
  const again = delivery({ executor: 'b', deliverySequence: 10, deliveryCount: 2 });
  expect(await claim(executor, unsafe, 'unsafe', again)).toEqual({ is: 'given-up', attempts: 1 });
  const read = newCall();
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const next = delivery({ deliverySequence: 20 + attempt, deliveryCount: attempt });
    expect(await claim(executor, read, 'read', next)).toEqual({ is: 'mine', attempt });
  }
  const last = delivery({ deliverySequence: 30, deliveryCount: 5 });
  expect(await claim(executor, read, 'read', last)).toEqual({ is: 'given-up', attempts: MAX_ATTEMPTS });
});

it('just after an outage a silent attempt gets one more chance', async () => {
  const call = newCall();
  await claim(executor, call, 'unsafe', delivery({}));
  const later = (deliveryCount: number) =>
    claim(
      executor,
      call,
      'unsafe',
      delivery({ executor: 'b', deliverySequence: 10, deliveryCount, afterOutage: true }),
    );
  expect(await later(2)).toEqual({ is: 'in-doubt' });
  expect(await later(3)).toEqual({ is: 'given-up', attempts: 1 });
});

it('of many claimants one wins, and claims hold no nonce', async () => {
  const call = newCall();
  const verdicts = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      claim(executor, call, 'unsafe', delivery({ executor: `e${i}`, streamSequence: i })),
    ),
  );
  expect(verdicts.filter(({ is }) => is === 'mine')).toHaveLength(1);
  const stored: string[] = [];
  const names = await setup.nc.request('$JS.API.STREAM.INFO.YM_CLAIM', JSON.stringify({ subjects_filter: '>' }));
  for (const subject of Object.keys(names.json<{ state: { subjects: Record<string, number> } }>().state.subjects))
    stored.push(subject);
  expect(stored.some((subject) => subject.includes(call.runId))).toBe(true);
  expect(stored.some((subject) => subject.includes(call.nonce))).toBe(false);
});

it('a message handed back with a delay stays hidden for as long as its former holder beats', async () => {
  let deliveries = 0;
  let beat: NodeJS.Timeout | undefined;
  let release: (() => void) | undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  const worker = executor.work(
    toolWork('files'),
    async (_, { deliveryCount, keepAlive }) => {
      deliveries++;
      if (deliveryCount > 1) {
        beat ??= setInterval(keepAlive, ACK_WAIT_MS / 4);
        throw new HandBack(ACK_WAIT_MS / 2);
      }
      await released; // the first holder beats no more until it has been taken for dead
      clearInterval(beat);
    },
    { slots: 3, ackWaitMs: 3_600_000 },
  );
  await dispatcher.enqueue(subjects.tool('files', TENANT), ToolCallSchema, { name: 'x' });
  await expect.poll(() => deliveries, { timeout: 5_000 }).toBe(2);
  await sleep(ACK_WAIT_MS * 2.5);
  expect(deliveries).toBe(2);
  release?.();
  await worker.stop();
  const messages = async () =>
    (await setup.nc.request('$JS.API.STREAM.INFO.YM_TOOL_FILES', '')).json<{ state: { messages: number } }>().state
      .messages;
  await expect.poll(messages).toBe(0);
});
