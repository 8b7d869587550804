import { describe, expect, it } from 'vitest';
import { DeadlineBoard } from './deadline-board.js';
import { type Candidate, endpointOf } from './candidate.js';
import { CircuitBreakers } from './circuit-breaker.js';
import type { Clock } from './clock.js';
import { EndpointLoad } from './endpoint-load.js';
import type { AttemptRecord, Frame } from './frame.js';
import { RetryBudgets } from './retry-budget.js';
import { RouteMemory } from './route-memory.js';
import { type ChatRun, runChat, type FailoverDeps } from './run-chat.js';
import type { Transport, TransportRequest, TransportResponse } from './transport.js';

/** Time that passes only when nothing else can happen. */
class FakeClock implements Clock {
  time = 1_700_000_000_000;
  private timers: { at: number; callback: () => void }[] = [];
  constructor(readonly random: () => number) {}
  now(): number {
    return this.time;
  }
  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.time + Math.max(0, ms), callback };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((other) => other !== timer);
    };
  }
  async drive<T>(work: Promise<T>): Promise<T> {
    let over = false;
    work.then(
      () => (over = true),
      () => (over = true),
    );
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (over) return work;
      const next = this.timers.reduce<(typeof this.timers)[number] | undefined>(
        (a, b) => (a === undefined || b.at < a.at ? b : a),
        undefined,
      );
      if (next === undefined) throw new Error('everything waits and no timer is set');
      this.timers = this.timers.filter((timer) => timer !== next);
      this.time = Math.max(this.time, next.at);
      next.callback();
    }
  }
}

const sse = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

/** What a server does with one request: steps, each after a wait. */
interface Play {
  status: number;
  headers?: Record<string, string>;
  steps: { wait: number; bytes?: string; end?: 'orderly' | 'broken' | 'never' }[];
}

class FakeTransport implements Transport {
  readonly sent: { at: number; key: string; model: string }[] = [];
  constructor(
    private readonly clock: FakeClock,
    private readonly play: (request: TransportRequest) => Play | 'refused' | 'hang',
  ) {}

  async send(request: TransportRequest): Promise<TransportResponse> {
    const { model } = JSON.parse(request.body) as { model: string };
    this.sent.push({ at: this.clock.now(), key: request.headers['authorization'] ?? '', model });
    const play = this.play(request);
    if (play === 'refused') throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
    if (play === 'hang')
      return new Promise((_, reject) => request.signal.addEventListener('abort', () => reject(new Error('aborted'))));
    const steps = [...play.steps];
    let dead = false;
    return {
      status: play.status,
      headers: play.headers ?? {},
      next: () =>
        new Promise((resolve, reject) => {
          if (dead || request.signal.aborted) return reject(new Error('aborted'));
          request.signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true });
          const step = steps.shift();
          if (step === undefined || step.end === 'never') return;
          this.clock.after(step.wait, () => {
            if (step.bytes !== undefined) resolve(new TextEncoder().encode(step.bytes));
            else if (step.end === 'orderly') resolve(null);
            else reject(Object.assign(new Error('reset'), { code: 'ECONNRESET' }));
          });
        }),
      release: () => undefined,
      destroy: () => {
        dead = true;
      },
    };
  }
}

function answer(words: readonly string[], until: number, end: 'orderly' | 'broken' | 'never'): Play {
  const steps: Play['steps'] = words
    .slice(0, until)
    .map((word) => ({ wait: 5, bytes: sse({ choices: [{ delta: { content: word } }] }) }));
  if (until >= words.length)
    steps.push({
      wait: 5,
      bytes: sse({
        choices: [{ delta: {}, finish_reason: 'stop' }],
        usage: { prompt_tokens: 3, completion_tokens: words.length },
      }),
    });
  steps.push({ wait: 5, end });
  return { status: 200, steps };
}

const error = (status: number, headers: Record<string, string> = {}): Play => ({
  status,
  headers,
  steps: [
    { wait: 1, bytes: '{"error":{"message":"no","code":"x"}}' },
    { wait: 1, end: 'orderly' },
  ],
});

function candidates(count: number, keys = 1): Candidate[] {
  return Array.from({ length: count }, (_, i) => ({
    provider: `p${i}`,
    kind: 'openai',
    model: `m${i}`,
    dialect: 'native',
    family: 'openai-chat',
    baseUrl: `http://p${i}.test/v1`,
    auth: { style: 'bearer' },
    keys: Array.from({ length: keys }, (_, k) => ({ id: `k${i}${k}`, reveal: () => `secret${i}${k}` })),
    timeouts: { connectMs: 1_000, firstTokenMs: 3_000, idleMs: 3_000, totalMs: 20_000 },
    retries: 2,
    backoffMs: 200,
    quirks: {},
    reasoningFallback: true,
    inlineThink: true,
    responsesFallback: true,
  }));
}

function depsOf(clock: FakeClock, transport: Transport, records: AttemptRecord[] = []): FailoverDeps {
  return {
    clock,
    transport,
    keys: new DeadlineBoard(),
    breakers: new CircuitBreakers(clock),
    budgets: new RetryBudgets(),
    routes: new RouteMemory(clock),
    onAttempt: (record) => records.push(record),
  };
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

async function collect(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const out: Frame[] = [];
  for await (const frame of frames) out.push(frame);
  return out;
}

describe('laws of a request, over 1000 random mixes of faults', () => {
  it('the text after restarts is that of the answer, no success is cut, and the deadline holds', async () => {
    let answered = 0;
    for (let run = 0; run < 1000; run++) {
      const random = seeded(run);
      const clock = new FakeClock(random);
      const pick = <T>(...of: T[]): T => of[Math.floor(random() * of.length)]!;
      const written = new Map<string, string>();
      let calls = 0;
      const transport = new FakeTransport(clock, () => {
        const words = Array.from({ length: 8 }, (_, i) => `${calls}.${i} `);
        const fault = pick<Play | 'refused' | 'hang'>(
          'refused',
          'hang',
          error(pick(500, 503, 529, 401, 404, 400)),
          error(429, pick<Record<string, string>>({}, { 'retry-after': '86400' }, { 'retry-after': '0.3' })),
          answer(words, Math.floor(random() * 8), pick('orderly', 'broken', 'never')),
          answer(words, 8, pick('orderly', 'broken', 'never')),
        );
        if (typeof fault === 'object' && fault.status === 200) written.set(`${calls}`, words.join(''));
        calls++;
        return fault;
      });
      const start = clock.now();
      const deadlineAt = start + 500 + Math.floor(random() * 30_000);
      const records: AttemptRecord[] = [];
      const frames = await clock.drive(
        collect(
          runChat(
            {
              id: `r${run}`,
              deadlineAt,
              render: () => ({ input: { messages: [] }, turnsCut: 0 }),
              signal: new AbortController().signal,
              restartAfterCommit: true,
            },
            candidates(1 + Math.floor(random() * 3), 1 + Math.floor(random() * 3)),
            depsOf(clock, transport, records),
          ),
        ),
      );
      const context = `run ${run}`;
      expect(clock.now(), context).toBeLessThanOrEqual(deadlineAt + 100);
      const last = frames.at(-1);
      let text = '';
      for (const frame of frames) {
        if (frame.type === 'delta') text += frame.text;
        if (frame.type === 'attempt_reset') text = '';
      }
      expect(['end', 'error'], context).toContain(last?.type);
      if (last?.type === 'end') {
        answered++;
        expect(text, context).toBe(last.result.text);
        expect([...written.values()], context).toContain(text);
        expect(
          records.filter((record) => record.outcome === 'ok'),
          context,
        ).toHaveLength(1);
      }
      expect(records.length, context).toBe(transport.sent.length);
      expect(records.length, context).toBeLessThanOrEqual(8);
    }
    // Neither kind of ending may be so rare that its laws were not tried.
    expect(answered).toBeGreaterThan(250);
    expect(answered).toBeLessThan(950);
  });

  it('a throttled key gets not one request before its deadline', async () => {
    for (let run = 0; run < 200; run++) {
      const random = seeded(run);
      const clock = new FakeClock(random);
      const until = new Map<string, number>();
      let early = 0;
      const transport = new FakeTransport(clock, (request) => {
        const key = request.headers['authorization'] ?? '';
        if (clock.now() < (until.get(key) ?? 0)) early++;
        if (random() < 0.5) return answer(['ok'], 1, 'orderly');
        const seconds = 0.2 + Math.floor(random() * 100) / 10;
        until.set(key, Math.max(until.get(key) ?? 0, clock.now() + seconds * 1000));
        return error(429, { 'retry-after': String(seconds) });
      });
      const deps = depsOf(clock, transport);
      for (let i = 0; i < 5; i++) {
        await clock.drive(
          collect(
            runChat(
              {
                id: `r${i}`,
                deadlineAt: clock.now() + 20_000,
                render: () => ({ input: { messages: [] }, turnsCut: 0 }),
                signal: new AbortController().signal,
                restartAfterCommit: true,
              },
              candidates(1, 3),
              deps,
            ),
          ),
        );
      }
      expect(early, `run ${run}`).toBe(0);
    }
  });
});

describe('the deadline board', () => {
  it('a deadline only grows, whatever the order of messages', () => {
    const board = new DeadlineBoard();
    board.extend('a', 100, 'x');
    board.merge({ id: 'a', until: 50, reason: 'y' });
    expect(board.active('a', 60)).toMatchObject({ until: 100, reason: 'x' });
    board.merge({ id: 'a', until: 200, reason: 'z' });
    expect(board.active('a', 150)).toMatchObject({ until: 200 });
    expect(board.active('a', 200)).toBeUndefined();
  });

  it('tells others what it learnt itself, and not what it was told', () => {
    const told: string[] = [];
    const board = new DeadlineBoard({ publish: (entry) => told.push(entry.id) });
    board.extend('own', 100, 'x');
    board.extend('own', 90, 'x');
    board.merge({ id: 'other', until: 100, reason: 'x' });
    expect(told).toEqual(['own']);
  });
});

describe('the circuit breaker', () => {
  it('lets one probe through per interval, and closes on its success', () => {
    const clock = new FakeClock(Math.random);
    const breakers = new CircuitBreakers(clock, { failures: 3, openMs: 5_000 });
    for (let i = 0; i < 3; i++) breakers.failed('e');
    expect(breakers.state('e')).toBe('open');
    let probes = 0;
    for (let i = 0; i < 300; i++) {
      clock.time += 100;
      if (breakers.readyAt('e') > clock.now()) continue;
      expect(breakers.enter('e')).toBe(true);
      probes++;
      breakers.failed('e');
    }
    expect(probes).toBeLessThanOrEqual(6);
    clock.time += 5_000;
    breakers.enter('e');
    expect(breakers.readyAt('e')).toBeGreaterThan(clock.now());
    breakers.succeeded('e');
    expect(breakers.state('e')).toBe('closed');
  });
});

describe('pods of one provider', () => {
  const pods = (count: number): Candidate[] =>
    candidates(count).map((one, i) => ({
      ...one,
      provider: 'local',
      kind: 'llamacpp',
      model: 'm',
      keys: [],
      auth: { style: 'none' },
      pod: `pod-${i}`,
    }));
  const ask = async (
    clock: FakeClock,
    deps: FailoverDeps,
    all: Candidate[],
    more: Partial<ChatRun> = {},
  ): Promise<Frame[]> => {
    const frames: Frame[] = [];
    const chat = {
      id: 'r',
      deadlineAt: clock.now() + 60_000,
      render: () => ({ input: { messages: [{ role: 'user' as const, content: 'hi' }] }, turnsCut: 0 }),
      signal: new AbortController().signal,
      restartAfterCommit: true,
      ...more,
    };
    const read = async () => {
      for await (const frame of runChat(chat, all, deps)) frames.push(frame);
    };
    await clock.drive(read());
    return frames;
  };
  const hostOf = ({ url }: TransportRequest) => new URL(url).host;

  it('nobody listens at one: the next is asked at once, and the first one is left alone from then on', async () => {
    const clock = new FakeClock(() => 0.5);
    const asked: string[] = [];
    const transport = new FakeTransport(clock, (request) => {
      asked.push(hostOf(request));
      return hostOf(request) === 'p0.test' ? 'refused' : answer(['a'], 1, 'orderly');
    });
    const deps = depsOf(clock, transport);
    const startedAt = clock.now();
    expect((await ask(clock, deps, pods(2))).at(-1)?.type).toBe('end');
    expect(asked).toEqual(['p0.test', 'p1.test']);
    expect(transport.sent[1]!.at).toBe(startedAt);
    expect((await ask(clock, deps, pods(2))).at(-1)?.type).toBe('end');
    expect(asked).toEqual(['p0.test', 'p1.test', 'p1.test']);
    // Half-open after five seconds: one probe.
    clock.time += 5_001;
    await ask(clock, deps, pods(2));
    expect(asked.slice(3)).toEqual(['p0.test', 'p1.test']);
  });

  it('two failures of other kinds eject one; the first is taken for bad luck', async () => {
    const clock = new FakeClock(() => 0.5);
    const asked: string[] = [];
    const transport = new FakeTransport(clock, (request) => {
      asked.push(hostOf(request));
      return hostOf(request) === 'p0.test' ? error(503) : answer(['a'], 1, 'orderly');
    });
    const deps = depsOf(clock, transport);
    for (let i = 0; i < 3; i++) expect((await ask(clock, deps, pods(2))).at(-1)?.type).toBe('end');
    expect(asked).toEqual(['p0.test', 'p1.test', 'p0.test', 'p1.test', 'p1.test']);
  });

  it('one that begins to drain or to load while a request is tried gets nothing more of it', async () => {
    const clock = new FakeClock(() => 0.5);
    const asked: string[] = [];
    const transport = new FakeTransport(clock, (request) => {
      asked.push(hostOf(request));
      return asked.length < 4 ? error(503) : answer(['a'], 1, 'orderly');
    });
    const isServing = ({ pod }: Candidate) => pod !== 'pod-0' || asked.length === 0;
    const frames = await ask(clock, depsOf(clock, transport), pods(2), { isServing });
    expect(asked).toEqual(['p0.test', 'p1.test', 'p1.test', 'p1.test']);
    expect(frames.at(-1)?.type).toBe('end');
  });

  it('when none of them serves any more the request ends, and may be made again', async () => {
    const clock = new FakeClock(() => 0.5);
    const transport = new FakeTransport(clock, () => error(503));
    const isServing = () => transport.sent.length === 0;
    const frames = await ask(clock, depsOf(clock, transport), pods(2), { isServing });
    expect(transport.sent).toHaveLength(1);
    expect(frames.at(-1)).toMatchObject({ type: 'error', error: { code: 'YM-LLM-EXHAUSTED', class: 'UNAVAILABLE' } });
  });

  it('what is under way at each of them is counted while it lasts, whatever its end', async () => {
    const clock = new FakeClock(() => 0.5);
    const load = new EndpointLoad();
    const seen: number[] = [];
    const all = pods(2);
    const transport = new FakeTransport(clock, (request) => {
      const one = all.find(({ baseUrl }) => request.url.startsWith(baseUrl))!;
      seen.push(load.inFlight(endpointOf(one)));
      return seen.length === 1 ? error(503) : answer(['a'], 1, 'orderly');
    });
    await ask(clock, { ...depsOf(clock, transport), load }, all);
    expect(seen).toEqual([1, 1]);
    expect(all.map((one) => load.inFlight(endpointOf(one)))).toEqual([0, 0]);
  });

  it('a probe of one that does not say a word costs its request five seconds while another could serve', async () => {
    const clock = new FakeClock(() => 0.5);
    const transport = new FakeTransport(clock, (request) =>
      hostOf(request) === 'p0.test' ? 'hang' : answer(['a'], 1, 'orderly'),
    );
    const deps = depsOf(clock, transport);
    const patient = pods(2).map((one) => ({ ...one, timeouts: { ...one.timeouts, firstTokenMs: 300_000 } }));
    for (let i = 0; i < 2; i++) deps.breakers.failed(endpointOf(patient[0]!), 2);
    clock.time += 5_001;
    const startedAt = clock.now();
    expect((await ask(clock, deps, patient)).at(-1)?.type).toBe('end');
    expect(transport.sent[1]!.at - startedAt).toBe(5_000);
  });

  it('one that is alone is tried again, as every provider', async () => {
    const clock = new FakeClock(() => 0.5);
    let tries = 0;
    const transport = new FakeTransport(clock, () => (++tries < 3 ? error(503) : answer(['a'], 1, 'orderly')));
    expect((await ask(clock, depsOf(clock, transport), pods(1))).at(-1)?.type).toBe('end');
    expect(tries).toBe(3);
  });
});
