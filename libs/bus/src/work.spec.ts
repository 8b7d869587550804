import { setTimeout as sleep } from 'node:timers/promises';
import { toBinary, create } from '@bufbuild/protobuf';
import {
  HEADERS,
  newId,
  type RunMessage,
  RunMessageSchema,
  Runs,
  subjects,
  tenantId,
  YardError,
} from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Bus, ensureTopology, HandBack, type Log, type WorkContext, type Worker, type WorkOptions } from './index.js';

const TENANT = tenantId('acme');
const ACK_WAIT_MS = 1_000;
const logged: [string, Record<string, unknown>][] = [];
const log: Log = {
  debug() {},
  info() {},
  warn: (fields, text) => void logged.push([text, fields as Record<string, unknown>]),
  error: (fields, text) => void logged.push([text, fields as Record<string, unknown>]),
};
let servers: Servers;
let setup: Bus;
let api: Bus;
const dispatchers: Bus[] = [];

const login = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user), log });
beforeAll(async () => {
  servers = await startServers({ executors: ['shell'] });
  [setup, api] = (await Promise.all([login('setup'), login('api')])) as [Bus, Bus];
  await ensureTopology(setup, { kinds: ['shell'], ackWaitMs: ACK_WAIT_MS, share: 8 });
});
beforeEach(async () => {
  logged.length = 0;
  await setup.nc.request('$JS.API.STREAM.PURGE.YM_DLQ', '');
});
afterEach(async () => {
  expect(await state()).toEqual({ messages: 0, ackPending: 0 });
  await Promise.all(dispatchers.splice(0).map((bus) => bus.close()));
});
afterAll(async () => {
  await Promise.all([setup, api].map((bus) => bus.close()));
  await servers.stop();
});

const work = async (
  handler: (message: RunMessage, context: WorkContext) => Promise<void> | void,
  options: Partial<WorkOptions> = {},
): Promise<Worker> => {
  const bus = await login('dispatcher');
  dispatchers.push(bus);
  return bus.work(Runs.work, handler, {
    slots: 2,
    ackWaitMs: ACK_WAIT_MS,
    backoffMs: { base: 20, cap: 50 },
    ...options,
  }) as unknown as Worker;
};
const enqueue = async (runId = newId(), tenant = TENANT) => {
  await api.enqueue(subjects.runStart(tenant), RunMessageSchema, { runId });
  return runId;
};
/** Acks are not waited for, so it may take a moment. */
async function state() {
  for (let tries = 0; ; tries++) {
    const stream = (await setup.nc.request('$JS.API.STREAM.INFO.YM_RUN', '')).json<{ state: { messages: number } }>();
    const consumer = (await setup.nc.request('$JS.API.CONSUMER.INFO.YM_RUN.work', '')).json<{
      num_ack_pending: number;
    }>();
    const found = { messages: stream.state.messages, ackPending: consumer.num_ack_pending };
    if ((found.messages === 0 && found.ackPending === 0) || tries === 60) return found;
    await sleep(50);
  }
}
async function deadLetters(tenant = 'acme') {
  const answer = await setup.nc.request(`$JS.API.DIRECT.GET.YM_DLQ.${subjects.deadLetter('YM_RUN', tenant)}`, '');
  if (answer.headers?.code === 404) return undefined;
  const header = (name: string) => answer.headers!.get(name);
  return {
    reason: header(HEADERS.deadReason),
    subject: header(HEADERS.deadSubject),
    attempts: header(HEADERS.deadAttempts),
    sequence: Number(header(HEADERS.deadSequence)),
    data: Uint8Array.from(answer.data),
  };
}

it('no more than its slots run at once, and none idles while there is work', async () => {
  let running = 0;
  let most = 0;
  let done = 0;
  for (let i = 0; i < 8; i++) await enqueue();
  const worker = await work(async () => {
    most = Math.max(most, ++running);
    await sleep(30);
    running--;
    done++;
  });
  await expect.poll(() => done).toBe(8);
  expect(most).toBe(2);
  await expect.poll(() => worker.counts).toEqual({ slots: 2, running: 0, wanted: 2 });
});

it('a tenant whose share is used up is refused, others are not', async () => {
  for (let i = 0; i < 8; i++) await enqueue();
  const error = await enqueue().then(
    () => undefined,
    (thrown: unknown) => thrown as YardError,
  );
  expect([error?.class, error?.code]).toEqual(['EXHAUSTED', 'YM-QUEUE-FULL']);
  await enqueue(newId(), tenantId('other'));
  await work(() => {});
});

it('a message id makes a publish that is repeated count once', async () => {
  const put = () => api.enqueue(subjects.runStart(TENANT), RunMessageSchema, { runId: 'r' }, { msgId: 'r' });
  expect((await put()).duplicate).toBe(false);
  expect((await put()).duplicate).toBe(true);
  const seen: string[] = [];
  await work(({ runId }) => void seen.push(runId));
  await expect.poll(() => seen).toEqual(['r']);
});

it('work that takes longer than the ack wait is kept alive', async () => {
  let starts = 0;
  let done = 0;
  await work(async () => {
    starts++;
    await sleep(ACK_WAIT_MS * 2.5);
    done++;
  });
  await enqueue();
  await expect.poll(() => done, { timeout: 5_000 }).toBe(1);
  expect(starts).toBe(1);
});

it('past the ceiling it is not kept alive any more: the message goes to somebody else, and the handler is told', async () => {
  const seen: number[] = [];
  let reason: YardError | undefined;
  await work(
    async (_, { deliveryCount, signal }) => {
      seen.push(deliveryCount);
      if (deliveryCount > 1) return;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      reason = signal.reason as YardError;
      throw new Error('too late to say so');
    },
    { ceilingMs: 600 },
  );
  await enqueue();
  await expect.poll(() => seen, { timeout: 5_000 }).toEqual([1, 2]);
  expect(reason?.code).toBe('YM-WORK-CEILING');
});

it('what failed is tried again with a delay, and after the last attempt it is a dead letter', async () => {
  const at: number[] = [];
  await work(
    () => {
      at.push(performance.now());
      throw new YardError('UNAVAILABLE', 'YM-TEST', 'Not now.', { retryAfterMs: 150 });
    },
    { maxAttempts: 3 },
  );
  const runId = await enqueue();
  await expect
    .poll(() => deadLetters(), { timeout: 5_000 })
    .toMatchObject({ reason: 'UNAVAILABLE YM-TEST: Not now.', subject: 'ym.run.start.acme', attempts: '3' });
  expect(at).toHaveLength(3);
  expect(at[1]! - at[0]!).toBeGreaterThanOrEqual(145);
  expect((await deadLetters())!.data).toEqual(toBinary(RunMessageSchema, create(RunMessageSchema, { runId })));
  expect(
    logged.some(([text, { streamSequence }]) => text === 'a message is given up' && typeof streamSequence === 'number'),
  ).toBe(true);
});

it('what can never succeed is a dead letter at once', async () => {
  let tries = 0;
  await work(() => {
    tries++;
    throw new YardError('INVALID', 'YM-TEST', 'Never.\r\nNats-Msg-Id: forged');
  });
  await enqueue();
  await expect
    .poll(() => deadLetters())
    .toMatchObject({ attempts: '1', reason: expect.stringContaining('Never. Nats-Msg-Id') as string });
  expect(tries).toBe(1);
});

it('what cannot be read is a dead letter with its bytes', async () => {
  let tries = 0;
  await work(() => void tries++);
  const damaged = Uint8Array.of(0x0a, 0x7f, 1);
  await api.nc.request(subjects.runStart(TENANT), damaged);
  await expect
    .poll(() => deadLetters())
    .toMatchObject({ reason: expect.stringContaining('YM-UNDECODABLE') as string, data: damaged });
  expect(tries).toBe(0);
});

it('what nobody here works on is a dead letter, under no tenant when it names none', async () => {
  await setup.nc.request(
    '$JS.API.STREAM.UPDATE.YM_RUN',
    JSON.stringify({
      ...(await setup.nc.request('$JS.API.STREAM.INFO.YM_RUN', '')).json<{ config: object }>().config,
      subjects: ['ym.run.>'],
    }),
  );
  await work(() => {});
  await api.nc.request('ym.run.other.acme', '');
  await expect
    .poll(() => deadLetters())
    .toMatchObject({ reason: expect.stringContaining('YM-UNKNOWN-WORK') as string });
  await api.nc.request('ym.run.start.NotATenant', '');
  await expect.poll(() => deadLetters('unknown')).toMatchObject({ subject: 'ym.run.start.NotATenant' });
  await ensureTopology(setup, { kinds: ['shell'], ackWaitMs: ACK_WAIT_MS, share: 8 });
});

it('a dead letter that cannot be kept is not dropped', async () => {
  let broken = true;
  const kept: string[] = [];
  await work(
    () => {
      throw new YardError('INVALID', 'YM-TEST', 'Never.');
    },
    {
      onDead: async ({ reason }) => {
        if (broken) throw new Error('no room');
        kept.push(reason.code);
        await Promise.resolve();
      },
    },
  );
  await enqueue();
  await expect.poll(() => logged.some(([text]) => text.includes('it stays'))).toBe(true);
  broken = false;
  await expect.poll(() => kept).toEqual(['YM-TEST']);
});

it('the caller may count attempts itself, and what is handed back does not count', async () => {
  const counts: number[] = [];
  let handed = 0;
  await work(
    (_, { deliveryCount }) => {
      counts.push(deliveryCount);
      if (handed++ < 6) throw new HandBack();
      if (handed < 9) throw new YardError('UNAVAILABLE', 'YM-TEST', 'Not now.');
    },
    { maxAttempts: 3 },
  );
  await enqueue();
  await expect.poll(() => counts, { timeout: 3_000 }).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(await deadLetters()).toBeUndefined();

  let tries = 0;
  await Promise.all(dispatchers.splice(0).map((bus) => bus.close()));
  await work(
    () => {
      if (++tries < 8) throw new YardError('UNAVAILABLE', 'YM-TEST', 'Not now.');
    },
    { maxAttempts: 2, attempts: () => 0 },
  );
  await enqueue();
  await expect.poll(() => tries, { timeout: 3_000 }).toBe(8);
});

it('a stop hands back what was not begun and waits for what runs', async () => {
  let begun = 0;
  let done = 0;
  const handler = async () => {
    begun++;
    await sleep(300);
    done++;
  };
  for (let i = 0; i < 6; i++) await enqueue();
  const worker = await work(handler);
  await expect.poll(() => begun).toBe(2);
  const began = performance.now();
  await worker.stop();
  expect([begun, done]).toEqual([2, 2]);
  expect(performance.now() - began).toBeGreaterThan(150);
  await work(handler, { slots: 4 });
  // Nothing waits for its ack wait: all the rest is there at once.
  await expect.poll(() => done, { timeout: 800 }).toBe(6);
});

it('delivery sequences grow over redeliveries, so that they can fence', async () => {
  const fences: number[] = [];
  await work(
    (_, { deliverySequence, deliveryCount }) => {
      fences.push(deliverySequence);
      if (deliveryCount < 4) throw new YardError('CONFLICT', 'YM-TEST', 'Again.');
    },
    { confirmAck: true },
  );
  await enqueue();
  await expect.poll(() => fences.length).toBe(4);
  expect(fences).toEqual([...fences].sort((a, b) => a - b));
  expect(new Set(fences).size).toBe(4);
});

it('a queue that is made after its workers have started is worked on', async () => {
  await setup.nc.request('$JS.API.CONSUMER.DELETE.YM_RUN.work', '');
  const seen: string[] = [];
  await work(({ runId }) => void seen.push(runId));
  await sleep(300);
  await ensureTopology(setup, { kinds: ['shell'], ackWaitMs: ACK_WAIT_MS, share: 8 });
  const runId = await enqueue();
  await expect.poll(() => seen, { timeout: 5_000 }).toEqual([runId]);
});
