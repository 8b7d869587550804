import { setTimeout as sleep } from 'node:timers/promises';
import { BUCKETS, newId, Registry, RunMessageSchema, Runs, subjects, tenantId } from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Bus, ensureTopology } from './index.js';

const TENANT = tenantId('acme');
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
let servers: Servers;
let bus: Bus;

beforeAll(async () => {
  servers = await startServers();
  bus = await Bus.connect({ url: servers.natsUrl, user: 'dispatcher', log: quiet });
  await ensureTopology(bus, { kinds: [], ackWaitMs: 1_000 });
});
afterAll(async () => {
  await bus.close();
  await servers.stop();
});

it('after the server was killed, requests, work and buckets go on by themselves', async () => {
  const text = (value: Uint8Array) => new TextDecoder().decode(value);
  const seen: string[] = [];
  let starts = 0;
  bus.serve(Registry.validate, ({ name }) => ({ message: name }));
  const worker = bus.work(
    Runs.work,
    async ({ runId }) => {
      starts++;
      await sleep(runId.startsWith('slow') ? 1_500 : 0);
      seen.push(runId);
    },
    { slots: 2, ackWaitMs: 1_000 },
  );
  const snapshot = await bus.watch(BUCKETS.providers, text);
  const before = snapshot.current;
  let changes = 0;
  snapshot.onChange(() => changes++);
  const kv = bus.kv(BUCKETS.providers);
  await kv.put('a', '1');
  await expect.poll(() => snapshot.current.get('a')).toBe('1');
  expect(before.size).toBe(0); // a snapshot once taken does not change

  await bus.enqueue(subjects.runStart(TENANT), RunMessageSchema, { runId: 'slow1' });
  await expect.poll(() => starts).toBe(1);
  await servers.nats.kill();
  await expect.poll(() => bus.status()).toBe('disconnected');
  await sleep(500);
  await servers.nats.startAgain();
  await expect.poll(() => bus.status(), { timeout: 5_000 }).toBe('connected');

  const { message } = await bus.request(Registry.validate, TENANT, { name: 'again' }, { timeoutMs: 2_000 });
  expect(message).toBe('again');
  const runId = newId();
  await expect
    .poll(
      () =>
        bus.enqueue(subjects.runStart(TENANT), RunMessageSchema, { runId }, { msgId: runId }).then(
          () => true,
          () => false,
        ),
      { timeout: 5_000 },
    )
    .toBe(true);
  await expect.poll(() => seen, { timeout: 5_000 }).toContain(runId);
  await expect.poll(() => seen, { timeout: 5_000 }).toContain('slow1');
  await kv.put('b', '2');
  await kv.delete('a');
  await expect.poll(() => [...snapshot.current], { timeout: 5_000 }).toEqual([['b', '2']]);
  expect(changes).toBeGreaterThan(0);
  snapshot.stop();
  await worker.stop();
});

it('a bus that is started before its server waits for it', async () => {
  await servers.nats.kill();
  const waiting = Bus.connect({ url: servers.natsUrl, user: 'api', log: quiet });
  await sleep(700);
  await servers.nats.startAgain();
  const late = await waiting;
  expect(late.status()).toBe('connected');
  await late.close();
});
