import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readSse, type Stack, startStack, wellFormed } from './harness.js';

/** Work that somebody did for a run, in milliseconds of the clock. */
interface Span {
  from: number;
  to: number;
}

const answers: Span[] = [];
let yard: Stack;
beforeAll(async () => {
  yard = await startStack(
    {
      native: {
        native: true,
        script: async ({ messages }) => {
          const span = { from: Date.now(), to: Number.POSITIVE_INFINITY };
          answers.push(span);
          const results = messages.filter((message) => message.role === 'tool').length;
          await sleep(400);
          span.to = Date.now();
          if (results >= 6) return { text: 'done' };
          const call = { name: 'shell_run', arguments: { command: `sleep 0.3; echo ${results} >> log.txt` } };
          return { calls: [call, { name: 'file_list', arguments: { path: '.' } }] };
        },
      },
    },
    { replicas: { dispatcher: 2 } },
  );
});
afterAll(() => yard?.stop());

async function history(conversation: string) {
  const page = (await (await yard.api(`/v1/conversations/${conversation}/messages?limit=100`)).json()) as {
    items: { message?: unknown }[];
  };
  return page.items.map((item) => (item.message ?? item) as Parameters<typeof wellFormed>[0][number]);
}

it('a run whose dispatcher is killed in the middle is completed by another one', async () => {
  const runs = await Promise.all(Array.from({ length: 4 }, () => yard.start({ input: 'go' })));
  await expect
    .poll(
      async () =>
        (await Promise.all(runs.map((run) => yard.events(run.id)))).every((events) =>
          events.some((event) => event.type === 'tool.completed'),
        ),
      { timeout: 20_000 },
    )
    .toBe(true);
  process.kill(yard.stack.pids.get('dispatcher')!, 'SIGKILL');
  for (const run of runs) {
    const done = await yard.settled(run.id, 60_000);
    expect(done).toMatchObject({ state: 'completed', output: 'done' });
    const events = await yard.events(run.id);
    expect(events.map((event) => event.id)).toEqual(events.map((_, index) => index + 1));
    expect(events.filter((event) => event.type.startsWith('run.') && event.type !== 'run.started')).toHaveLength(1);
    expect(wellFormed(await history(done.conversation_id))).toBe(true);
  }
});

/** The calls of some runs to tools of one kind, as their events tell them. */
async function callsOf(runs: readonly { id: string }[], tool: RegExp): Promise<Span[]> {
  const events = (await Promise.all(runs.map((run) => yard.events(run.id)))).flat();
  return events
    .filter(({ type, data }) => type === 'tool.completed' && tool.test(String(data['name'])))
    .map(({ at, data }) => ({ from: Date.parse(at) - Number(data['duration_ms']), to: Date.parse(at) }));
}

/** Watches a process until it is gone. */
async function ending(pid: number) {
  const seen: { at: number; waitedMs: number }[] = [];
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      break;
    }
    seen.push({ at: Date.now(), waitedMs: waitedForCpuMs(pid) });
    await sleep(5);
  }
  const before = (from: number) => seen.findLast(({ at }) => at <= from) ?? seen[0];
  return {
    at: Date.now(),
    /** What it stood in line for a CPU since a moment. That a machine is busy is not lingering. */
    waitedSince: (from: number) => (seen.at(-1)?.waitedMs ?? 0) - (before(from)?.waitedMs ?? 0),
  };
}

/** As the kernel counts it; 0 where it does not tell. */
function waitedForCpuMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** What a service must have finished before it may end: that which it was doing when it was told to. */
const WORK: Record<string, (runs: readonly { id: string }[]) => Promise<Span[]> | Span[]> = {
  api: () => [],
  registry: () => [],
  router: () => answers,
  dispatcher: () => answers,
  'executor-files': (runs) => callsOf(runs, /^file_/),
  'executor-shell': (runs) => callsOf(runs, /^shell_/),
};

/** Is the service in the middle of something? Of services whose work is over at once nobody can say so. */
async function isAtWork(service: string, runs: readonly { id: string }[]): Promise<boolean> {
  return (await IN_FLIGHT[service]?.(runs)) ?? true;
}

const isAnswering = () => answers.some(({ to }) => to === Number.POSITIVE_INFINITY);
const IN_FLIGHT: Record<string, (runs: readonly { id: string }[]) => Promise<boolean> | boolean> = {
  router: isAnswering,
  dispatcher: isAnswering,
  'executor-shell': async (runs) => {
    const events = (await Promise.all(runs.map((run) => yard.events(run.id)))).flat();
    const shell = (type: string) => events.filter((event) => event.type === type && event.data['name'] === 'shell_run');
    return shell('tool.requested').length > shell('tool.completed').length;
  },
};

it.each(Object.keys(WORK))(
  'nothing is lost when %s is ended under load, and it ends within a second of the work that it had begun',
  async (service) => {
    const runs = await Promise.all(Array.from({ length: 4 }, () => yard.start({ input: 'go' })));
    // Streams that would go on for as long as the runs do.
    const streams = runs.map(async (run) => {
      const headers = { accept: 'text/event-stream' };
      await readSse(await yard.api(`/v1/runs/${run.id}/events`, { headers })).catch(() => []);
    });
    // In the middle: tools have run, and the service is at work if its work takes any time.
    const busy = async () => (await callsOf(runs, /./)).length > 0 && (await isAtWork(service, runs));
    await expect.poll(busy, { timeout: 30_000, interval: 10 }).toBe(true);
    const pid = yard.stack.pids.get(service)!;
    const told = Date.now();
    process.kill(pid, 'SIGTERM');
    const ended = await ending(pid);
    // It is started again under the same name; until then the API may be away.
    await expect.poll(() => yard.stack.pids.get(service) !== pid, { timeout: 20_000 }).toBe(true);
    for (const run of runs) {
      const done = await expect
        .poll(() => yard.get(run.id).catch(() => undefined), { timeout: 60_000, interval: 200 })
        .toMatchObject({ state: expect.stringMatching(/completed|failed|incomplete|cancelled/) as unknown as string })
        .then(() => yard.get(run.id));
      expect(done).toMatchObject({ state: 'completed', output: 'done' });
      expect(wellFormed(await history(done.conversation_id))).toBe(true);
    }
    await Promise.all(streams);
    const begun = (await WORK[service]!(runs)).filter(({ from, to }) => from <= told && to > told);
    const workEnded = Math.max(told, ...begun.map(({ to }) => to));
    const lingeredMs = ended.at - workEnded - ended.waitedSince(workEnded);
    if (IN_FLIGHT[service] !== undefined) expect(begun.length).toBeGreaterThan(0);
    expect(lingeredMs).toBeLessThanOrEqual(1_000);
  },
  // The runs may take their 60 s, and the service its 20 to be back.
  120_000,
);

it.each(['nats', 'redis'] as const)('a %s that ends by itself is started again, and the runs go on', async (server) => {
  const runs = await Promise.all(Array.from({ length: 2 }, () => yard.start({ input: 'go' })));
  const before = yard.stack[server].pid;
  process.kill(before, 'SIGKILL');
  const state = (run: string) =>
    yard.get(run).then(
      (view) => view.state,
      () => 'away',
    );
  for (const run of runs) await expect.poll(() => state(run.id), { timeout: 60_000 }).toBe('completed');
  expect(yard.stack[server].pid).not.toBe(before);
});
