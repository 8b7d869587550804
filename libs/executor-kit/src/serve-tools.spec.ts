import { setTimeout as sleep } from 'node:timers/promises';
import { Bus, ensureTopology } from '@yardmaster/bus';
import {
  newId,
  subjects,
  tenantId,
  type ToolCall,
  ToolCallSchema,
  ToolOutputSchema,
  type ToolResult,
  ToolResultSchema,
} from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { type MessageInitShape, toJsonString, create } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { argsHash, defineTool, serveTools, type Tool, type ToolServer } from './index.js';

const TENANT = tenantId('acme');
const ACK_WAIT_MS = 1_000;
let servers: Servers;
let setup: Bus;
let dispatcher: Bus;
let api: Bus;
const open: ToolServer[] = [];

beforeAll(async () => {
  servers = await startServers({ executors: ['files'] });
  const login = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  [setup, dispatcher, api] = (await Promise.all([login('setup'), login('dispatcher'), login('api')])) as [
    Bus,
    Bus,
    Bus,
  ];
  await ensureTopology(setup, { kinds: ['files'], ackWaitMs: ACK_WAIT_MS, share: 64 });
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => (server.bus.isClosed() ? undefined : server.stop())));
  expect(await queued()).toBe(0);
});
afterAll(async () => {
  await Promise.all([setup, dispatcher, api].map((bus) => bus.close()));
  await servers.stop();
});

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const serve = async (...tools: Tool[]) => {
  const { pass } = servers.nats.login('executor-files');
  const server = await serveTools(
    { kind: 'files', url: servers.natsUrl, pass, slots: 2, ackWaitMs: ACK_WAIT_MS, log: quiet },
    tools,
  );
  open.push(server);
  return server;
};
const callOf = (name: string, args: object = {}, more: MessageInitShape<typeof ToolCallSchema> = {}) => ({
  name,
  runId: newId(),
  callId: '1-0',
  nonce: newId(),
  argumentsJson: JSON.stringify(args),
  argsHash: argsHash(JSON.stringify(args)),
  historySeq: 7n,
  tenant: TENANT as string,
  effect: '',
  ...more,
});
type Call = ReturnType<typeof callOf>;
const send = (call: Call) => dispatcher.enqueue(subjects.tool('files', TENANT), ToolCallSchema, call);
const resultOf = async (call: Pick<ToolCall, 'runId' | 'callId' | 'nonce'>): Promise<ToolResult> => {
  for (;;) {
    const found = await dispatcher.getStored(
      'YM_RES',
      subjects.result(TENANT, call.runId, call.callId, call.nonce),
      ToolResultSchema,
    );
    if (found) return found.message;
    await sleep(20);
  }
};
const ask = async (call: Call) => {
  await send(call);
  return resultOf(call);
};
/** Acks are not waited for, so the queue may take a moment to be empty. */
async function queued(): Promise<number> {
  for (let tries = 0; ; tries++) {
    const answer = await setup.nc.request('$JS.API.STREAM.INFO.YM_TOOL_FILES', '');
    const { messages } = answer.json<{ state: { messages: number } }>().state;
    if (messages === 0 || tries === 100) return messages;
    await sleep(50);
  }
}

it('runs a call, shows its output, stores its result and empties the queue', async () => {
  const call = callOf('echo', { text: 'hi' });
  const shown: string[] = [];
  const deaf = api.hear(
    subjects.delta(TENANT, call.runId),
    ToolOutputSchema,
    ({ stream, text, offset }) => void shown.push(`${stream} ${text} ${offset}`),
  );
  await api.flush();
  await serve(
    defineTool<{ text: string }>({
      name: 'echo',
      description: '',
      effect: 'read',
      input: {},
      run: ({ text }, context) => {
        context.output('stdout', 'so ');
        context.output('stdout', 'far');
        return { output: text, verdict: { tenant: context.tenant } };
      },
    }),
  );
  const result = await ask(call);
  expect(result).toMatchObject({
    runId: call.runId,
    callId: '1-0',
    argsHash: call.argsHash,
    historySeq: 7n,
    ok: true,
    output: 'hi',
    attempt: 1,
    verdictJson: '{"tenant":"acme"}',
  });
  await expect.poll(() => shown).toEqual(['stdout so  0', 'stdout far 3']);
  deaf();
});

it('answers what it will not or cannot run with a failed result', async () => {
  const boom = defineTool({
    name: 'boom',
    description: '',
    effect: 'read',
    input: {},
    run: () => Promise.reject(new Error('no such file')),
  });
  await serve(boom);
  expect(await ask(callOf('boom'))).toMatchObject({ ok: false, reason: 'failed', output: 'no such file' });
  expect(await ask(callOf('other'))).toMatchObject({
    ok: false,
    reason: 'refused',
    output: 'This executor has no tool "other". It has: boom.',
  });
  expect(await ask(callOf('boom', { a: 1 }, { argsHash: argsHash('{"a":2}') }))).toMatchObject({
    ok: false,
    reason: 'refused',
  });
  expect(await ask(callOf('boom', {}, { tenant: 'other' }))).toMatchObject({ ok: false, reason: 'refused' });
  expect(await ask(callOf('boom', {}, { argumentsJson: '[1]', argsHash: argsHash('[1]') }))).toMatchObject({
    ok: false,
    reason: 'refused',
  });
});

it('a call that cannot be read gets a failed result when its identity can be', async () => {
  await serve();
  const call = callOf('echo');
  const good = await import('@bufbuild/protobuf').then(({ toBinary }) =>
    toBinary(ToolCallSchema, create(ToolCallSchema, call)),
  );
  // A string field (7, workspace 11) with bytes that are no UTF-8, then a truncated field.
  const damaged = Uint8Array.from([...good, 0x5a, 0x02, 0xff, 0xfe, 0x5a, 0x7f, 0x01]);
  await setup.nc.request(subjects.tool('files', TENANT), damaged);
  expect(await resultOf(call)).toMatchObject({ ok: false, reason: 'failed', argsHash: call.argsHash, historySeq: 7n });
  await setup.nc.request(subjects.tool('files', TENANT), Uint8Array.from([0x5a, 0x7f, 0x01]));
  expect(await queued()).toBe(0);
});

it('an executor that speaks JSON is asked and answers in JSON', async () => {
  await serve(
    defineTool({ name: 'echo', description: '', effect: 'read', input: {}, run: () => '\u0001'.repeat(300_000) }),
  );
  const call = callOf('echo');
  const { headers } = await import('@nats-io/transport-node');
  const json = headers();
  json.set('Ym-Encoding', 'json');
  await setup.nc.request(subjects.tool('files', TENANT), toJsonString(ToolCallSchema, create(ToolCallSchema, call)), {
    timeout: 2000,
    headers: json,
  });
  const result = await resultOf(call);
  expect(result.ok).toBe(true);
  expect(Number(result.outputCutChars)).toBeGreaterThan(200_000);
});

it('a long output keeps its beginning and its end', async () => {
  await serve(
    defineTool({
      name: 'long',
      description: '',
      effect: 'read',
      input: {},
      run: () => `begin${'ä'.repeat(400_000)}end`,
    }),
  );
  const { output, outputCutChars } = await ask(callOf('long'));
  expect(Buffer.byteLength(output)).toBeLessThanOrEqual(256 * 1024);
  expect(output.startsWith('begin') && output.endsWith('end')).toBe(true);
  const mark = /\n\[\.\.\. (\d+) characters left out \.\.\.\]\n/.exec(output)!;
  expect(mark[1]).toBe(String(outputCutChars));
  expect(output.length - mark[0].length + Number(outputCutChars)).toBe(400_008);
});

it('a call whose time is up or whose run is cancelled is ended, and calls of a cancelled run do not begin', async () => {
  let began = 0;
  await serve(
    defineTool({
      name: 'wait',
      description: '',
      effect: 'unsafe',
      input: {},
      run: (_, { signal }) => {
        began++;
        return new Promise((_resolve, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason as Error)),
        );
      },
    }),
  );
  expect(await ask(callOf('wait', {}, { timeoutMs: 50 }))).toMatchObject({
    ok: false,
    reason: 'timeout',
    outcomeUnknown: true,
  });
  const call = callOf('wait');
  await send(call);
  await expect.poll(() => began, { timeout: 10_000 }).toBe(2);
  dispatcher.nc.publish(subjects.cancel(TENANT, call.runId));
  expect(await resultOf(call)).toMatchObject({ ok: false, reason: 'cancelled' });
  expect(await ask({ ...call, callId: '1-1' })).toMatchObject({
    ok: false,
    reason: 'cancelled',
    output: 'Cancelled before it began.',
  });
  expect(began).toBe(2);
});

it('an unsafe call whose executor died is not started again: its outcome is unknown', async () => {
  let starts = 0;
  const hang = (effect: 'unsafe' | 'read') =>
    defineTool({
      name: effect,
      description: '',
      effect,
      input: {},
      run: () => (starts++ === 0 ? new Promise<string>(() => {}) : 'again'),
    });
  for (const effect of ['unsafe', 'read'] as const) {
    starts = 0;
    const first = await serve(hang(effect));
    const call = callOf(effect);
    await send(call);
    await expect.poll(() => starts, { timeout: 10_000 }).toBe(1);
    await first.bus.nc.close(); // as a kill: no ack, no beat any more
    await serve(hang(effect));
    const result = await resultOf(call);
    if (effect === 'unsafe') expect([starts, result.reason, result.outcomeUnknown]).toEqual([1, 'interrupted', true]);
    else expect([starts, result.output, result.attempt]).toEqual([2, 'again', 2]);
    await Promise.all(open.splice(0).map((server) => (server.bus.isClosed() ? undefined : server.stop())));
  }
});

it('the registry may make a tool stricter than its author did, not laxer', async () => {
  let starts = 0;
  const tool = () =>
    defineTool({
      name: 'tool',
      description: '',
      effect: 'read',
      input: {},
      run: () => (starts++ === 0 ? new Promise<string>(() => {}) : 'again'),
    });
  const first = await serve(tool());
  const call = callOf('tool', {}, { effect: 'unsafe' });
  await send(call);
  await expect.poll(() => starts, { timeout: 10_000 }).toBe(1);
  await first.bus.nc.close();
  await serve(tool());
  expect((await resultOf(call)).reason).toBe('interrupted');
  expect(starts).toBe(1);
});

it('the same call published twice is started once and has one result', async () => {
  const starts = new Map<string, number>();
  const tool = () =>
    defineTool({
      name: 'effect',
      description: '',
      effect: 'unsafe',
      input: {},
      run: async (_, { runId }) => {
        starts.set(runId, (starts.get(runId) ?? 0) + 1);
        await sleep(100);
        return 'done';
      },
    });
  const calls = Array.from({ length: 10 }, () => callOf('effect'));
  await Promise.all(calls.flatMap((call) => [send(call), send(call)]));
  await Promise.all([serve(tool()), serve(tool())]);
  for (const call of calls) {
    expect((await resultOf(call)).output).toBe('done');
    expect(starts.get(call.runId)).toBe(1);
  }
});

it('a stop waits for what runs and leaves the rest in the queue', async () => {
  const tool = (ms: number) =>
    defineTool({
      name: 'slow',
      description: '',
      effect: 'unsafe',
      input: {},
      run: async () => (await sleep(ms), 'done'),
    });
  const first = await serve(tool(400));
  const calls = Array.from({ length: 5 }, () => callOf('slow'));
  for (const call of calls) await send(call);
  await expect.poll(() => first.counts.running).toBe(2);
  await first.stop();
  await serve(tool(1));
  for (const call of calls) expect((await resultOf(call)).output).toBe('done');
});

it('an outage of the server interrupts nothing: what runs goes on and its result counts', async () => {
  let starts = 0;
  const tool = () =>
    defineTool({
      name: 'slow',
      description: '',
      effect: 'unsafe',
      input: {},
      run: async () => {
        starts++;
        await sleep(4_000);
        return 'done';
      },
    });
  await Promise.all([serve(tool()), serve(tool()), serve(tool())]);
  const call = callOf('slow');
  await send(call);
  await expect.poll(() => starts, { timeout: 10_000 }).toBe(1);
  await servers.nats.kill();
  await sleep(1_500); // longer than the ack wait
  await servers.nats.startAgain();
  await expect.poll(() => dispatcher.status(), { timeout: 5_000 }).toBe('connected');
  expect((await resultOf(call)).output).toBe('done');
  expect(starts).toBe(1);
});

it('garbage in the queue holds nothing up for longer than an ack wait', async () => {
  const server = await serve(
    defineTool({ name: 'echo', description: '', effect: 'unsafe', input: {}, run: () => 'done' }),
  );
  for (const garbage of ['', 'abc', '']) await setup.nc.request(subjects.tool('files', TENANT), garbage);
  const calls = Array.from({ length: 4 }, () => callOf('echo'));
  for (const call of calls) await send(call);
  for (const call of calls) expect((await resultOf(call)).output).toBe('done');
  await expect.poll(() => server.counts, { timeout: 3_000 }).toEqual({ slots: 2, running: 0, wanted: 2 });
  expect(await queued()).toBe(0);
});
