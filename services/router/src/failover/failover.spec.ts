import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { startFaultServer, type FaultConnection, type FaultScript, type FaultServer } from '@yardmaster/testkit';
import { UndiciTransport } from '../providers/undici-transport.js';
import type { Candidate } from './candidate.js';
import { CircuitBreakers } from './circuit-breaker.js';
import { systemClock } from './clock.js';
import { DeadlineBoard } from './deadline-board.js';
import type { AttemptRecord, ChatResult, Frame } from './frame.js';
import { RetryBudgets } from './retry-budget.js';
import { RouteMemory } from './route-memory.js';
import { runChat, type ChatRun, type FailoverDeps } from './run-chat.js';

const WORDS = Array.from({ length: 60 }, (_, i) => `word${i} `);
const WHOLE = WORDS.join('');
const USAGE = { prompt_tokens: 11, completion_tokens: 60, total_tokens: 71 };

let primary: FaultServer;
let fallback: FaultServer;
let transport: UndiciTransport;
let deps: FailoverDeps;
let records: AttemptRecord[];
let texts: string[];

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const delta = (content: string): string =>
  event({ model: 'm', choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const FINISH = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
const LAST = event({ choices: [], usage: USAGE });

function words(connection: FaultConnection, from: number, to: number): void {
  for (const word of WORDS.slice(from, to)) connection.chunk(delta(word));
}

const healthy: FaultScript = (_request, connection) => {
  connection.head(200);
  words(connection, 0, 60);
  connection.chunk(FINISH);
  connection.chunk(LAST);
  connection.chunk('data: [DONE]\n\n');
  connection.end();
};

function failing(status: number, code: string, headers: Record<string, string> = {}): FaultScript {
  return (_request, connection) => connection.json(status, { error: { message: 'no', code } }, headers);
}

function once(fault: FaultScript): FaultScript {
  let count = 0;
  return (request, connection) => (count++ === 0 ? fault(request, connection) : healthy(request, connection));
}

function candidate(server: FaultServer, model: string, more: Partial<Candidate> = {}): Candidate {
  return {
    provider: model,
    kind: 'openai',
    model,
    dialect: 'native',
    family: 'openai-chat',
    baseUrl: `${server.url}/v1`,
    auth: { style: 'bearer' },
    keys: [{ id: `${model}-key`, reveal: () => `sk-canary-${model}` }],
    timeouts: { connectMs: 5_000, firstTokenMs: 5_000, idleMs: 5_000, totalMs: 10_000 },
    retries: 2,
    backoffMs: 20,
    quirks: {},
    reasoningFallback: true,
    inlineThink: true,
    responsesFallback: true,
    ...more,
  };
}

/** Limits short enough to wait for; only for a server that is meant to fall silent. */
const QUICK = { connectMs: 5_000, firstTokenMs: 250, idleMs: 250, totalMs: 10_000 };

const both = (more: Partial<Candidate> = {}): Candidate[] => [
  candidate(primary, 'first', more),
  candidate(fallback, 'second'),
];

interface Outcome {
  frames: Frame[];
  /** What a reader that follows the rules has in the end. */
  text: string;
  result: ChatResult | undefined;
  error: (Frame & { type: 'error' }) | undefined;
  ms: number;
}

async function ask(candidates: Candidate[], more: Partial<ChatRun> = {}): Promise<Outcome> {
  const start = performance.now();
  const run: ChatRun = {
    id: 'r1',
    deadlineAt: Date.now() + 10_000,
    render: () => ({ input: { messages: [{ role: 'user', content: 'hi' }] }, turnsCut: 0 }),
    signal: new AbortController().signal,
    restartAfterCommit: true,
    ...more,
  };
  const frames: Frame[] = [];
  let text = '';
  for await (const frame of runChat(run, candidates, deps)) {
    frames.push(frame);
    if (frame.type === 'delta') text += frame.text;
    if (frame.type === 'attempt_reset') text = '';
  }
  const last = frames.at(-1);
  return {
    frames,
    text,
    result: last?.type === 'end' ? last.result : undefined,
    error: last?.type === 'error' ? last : undefined,
    ms: performance.now() - start,
  };
}

beforeEach(async () => {
  [primary, fallback] = await Promise.all([startFaultServer(healthy), startFaultServer(healthy)]);
  transport = new UndiciTransport();
  records = [];
  texts = [];
  deps = {
    clock: systemClock,
    transport,
    keys: new DeadlineBoard(),
    breakers: new CircuitBreakers(systemClock, { failures: 5, openMs: 400 }),
    budgets: new RetryBudgets(),
    routes: new RouteMemory(systemClock),
    onAttempt: (record) => records.push(record),
    onProviderText: (_record, text) => texts.push(text),
  };
});

afterEach(async () => {
  await transport.close();
  await Promise.all([primary.close(), fallback.close()]);
});

function expectWhole(outcome: Outcome, model: string): void {
  expect(outcome.error?.error.message).toBeUndefined();
  expect(outcome.result).toMatchObject({ model, text: WHOLE, finishReason: 'stop', usage: USAGE });
  expect(outcome.text).toBe(WHOLE);
}

describe('the sixteen faults of streams', () => {
  it('1: a 429 with Retry-After is retried after that time, not before', async () => {
    primary.script = once(failing(429, 'rate_limit_exceeded', { 'retry-after': '0.4' }));
    expectWhole(await ask(both()), 'first');
    const [one, two] = primary.requests;
    expect(two!.at - one!.at).toBeGreaterThanOrEqual(399);
  });

  it('2: a lasting 429 ends at the other provider after few tries', async () => {
    primary.script = failing(429, 'rate_limit_exceeded');
    expectWhole(await ask(both()), 'second');
    expect(primary.requests.length).toBeLessThanOrEqual(3);
  });

  it('3: a 500 is retried at the same provider', async () => {
    primary.script = once(failing(500, 'server_error'));
    expectWhole(await ask(both()), 'first');
    expect(fallback.requests).toHaveLength(0);
  });

  it('4: a lasting 503 ends at the other provider, or in an error that says so', async () => {
    primary.script = failing(503, 'overloaded');
    expectWhole(await ask(both()), 'second');
    expect(primary.requests).toHaveLength(3);
    const alone = await ask(both().slice(0, 1));
    expect(alone.error?.error).toMatchObject({ class: 'UNAVAILABLE', code: 'YM-LLM-EXHAUSTED' });
    expect(alone.error?.error.message).toContain('first/first: server error (503) 3 times');
  });

  it('5: a reset before the first byte is retried', async () => {
    primary.script = once((_request, connection) => connection.reset());
    expectWhole(await ask(both()), 'first');
  });

  it('6: a provider that never answers is asked once, then the other', async () => {
    primary.script = () => undefined;
    const outcome = await ask(both({ timeouts: QUICK }));
    expectWhole(outcome, 'second');
    expect(primary.requests).toHaveLength(1);
    expect(outcome.frames.filter((frame) => frame.type === 'start')).toHaveLength(1);
  });

  it('7: headers and then nothing count as silence', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      connection.chunk(': keep-alive\n\n');
      connection.chunk(
        event({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] }),
      );
    };
    expectWhole(await ask(both({ timeouts: QUICK })), 'second');
    expect(primary.requests).toHaveLength(1);
  });

  it.each(['cut', 'reset', 'end'] as const)(
    '8: a stream that breaks off (%s) is never taken for an answer',
    async (how) => {
      primary.script = (_request, connection) => {
        connection.head(200);
        words(connection, 0, 40);
        setTimeout(() => connection[how](), 20);
      };
      const outcome = await ask(both());
      expectWhole(outcome, 'second');
      expect(outcome.frames.some((frame) => frame.type === 'attempt_reset')).toBe(true);
      const live = await ask(both(), { restartAfterCommit: false });
      expect(live.error?.error.code).toBe('YM-LLM-BROKEN');
    },
  );

  it('9: a stream that falls silent is left, also with heartbeats', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 20);
      const beat = setInterval(() => connection.chunk(': ping\n\n'), 100);
      void connection.closed.then(() => clearInterval(beat));
    };
    const outcome = await ask(both({ retries: 0, timeouts: QUICK }));
    expectWhole(outcome, 'second');
  });

  it('10: a malformed event is skipped', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 9);
      connection.chunk('data: {"choices":[{"delta":{"content":\n\n');
      words(connection, 9, 60);
      connection.chunk(FINISH + LAST);
      connection.end();
    };
    expectWhole(await ask(both()), 'first');
  });

  it('11: a stream without [DONE] ends promptly, even if the connection stays open', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 60);
      connection.chunk(FINISH + LAST);
      connection.end();
    };
    const orderly = await ask(both());
    expectWhole(orderly, 'first');
    expect(orderly.ms).toBeLessThan(900);
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 60);
      connection.chunk(FINISH + LAST);
    };
    const open = await ask(both());
    expectWhole(open, 'first');
    expect(open.ms).toBeLessThan(3_000);
  });

  it('12: an overflow with nothing to cut is not repeated but goes to a larger window', async () => {
    primary.script = failing(400, 'context_length_exceeded');
    expectWhole(
      await ask(both(), { render: (_c, wish) => (wish ? null : { input: { messages: [] }, turnsCut: 0 }) }),
      'second',
    );
    expect(primary.requests).toHaveLength(1);
    const small = [
      candidate(primary, 'first', { contextTokens: 1000 }),
      candidate(fallback, 'second', { contextTokens: 1000 }),
    ];
    const outcome = await ask(small, {
      render: (_c, wish) => (wish ? null : { input: { messages: [] }, turnsCut: 0 }),
    });
    expect(outcome.error?.error).toMatchObject({ class: 'INVALID', code: 'YM-LLM-CONTEXT' });
    expect(fallback.requests).toHaveLength(1);
  });

  it('13: what a content filter refused is not tried elsewhere, unless that is wished', async () => {
    primary.script = failing(400, 'content_policy_violation');
    const outcome = await ask(both());
    expect(outcome.error?.error).toMatchObject({ class: 'DENIED', code: 'YM-LLM-CONTENT-FILTER' });
    expect(primary.requests).toHaveLength(1);
    expect(fallback.requests).toHaveLength(0);
    expectWhole(await ask(both(), { routeAroundContentFilter: true }), 'second');
  });

  it('14: a restart sends the request as it was, without what the first provider wrote', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 40);
      connection.cut();
    };
    expectWhole(await ask(both({ retries: 0 })), 'second');
    expect(JSON.parse(fallback.requests[0]!.body)).toMatchObject({ messages: [{ role: 'user', content: 'hi' }] });
  });

  it('15: an outage is served by the other provider, probed seldom, and ends when the provider is back', async () => {
    deps = { ...deps, breakers: new CircuitBreakers(systemClock, { failures: 3, openMs: 1_000 }) };
    primary.script = failing(503, 'overloaded');
    const opening = await ask(both());
    expectWhole(opening, 'second');
    // Nobody waits for an open circuit while another provider is there.
    expect(opening.ms).toBeLessThan(900);
    const before = primary.requests.length;
    const outageEnds = performance.now() + 600;
    while (performance.now() < outageEnds) {
      const outcome = await ask(both());
      expectWhole(outcome, 'second');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(primary.requests.length - before).toBeLessThanOrEqual(2);
    primary.script = healthy;
    await new Promise((resolve) => setTimeout(resolve, 1_020));
    expectWhole(await ask(both()), 'first');
    expectWhole(await ask(both()), 'first');
  });

  it('16: the answer names who gave it, and failed attempts are listed without cost', async () => {
    primary.script = failing(503, 'overloaded');
    const outcome = await ask([
      candidate(primary, 'first'),
      candidate(fallback, 'second', { price: { input: 1, output: 2 } }),
    ]);
    expectWhole(outcome, 'second');
    expect(outcome.result?.costUsd).toBeCloseTo((11 + 120) / 1e6);
    expect(records.map(({ provider, outcome: how, usage }) => [provider, how, usage?.completion_tokens])).toEqual([
      ['first', 'retry', undefined],
      ['first', 'retry', undefined],
      ['first', 'retry', undefined],
      ['second', 'ok', 60],
    ]);
  });
});

describe('keys', () => {
  const keys = ['k1', 'k2', 'k3'].map((id) => ({ id, reveal: () => `secret-${id}` }));

  it('a throttled key gets nothing until its deadline and no caller sees a 429', async () => {
    const seen: Record<string, number[]> = {};
    primary.script = (request, connection) => {
      const key = request.headers['authorization']!.replace('Bearer secret-', '');
      (seen[key] ??= []).push(request.at);
      if (key === 'k2')
        connection.json(429, { error: { code: 'rate_limit_exceeded', message: 'slow' } }, { 'retry-after': '1' });
      else void healthy(request, connection);
    };
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ask([candidate(primary, 'first', { keys })], { id: `r${i}` })),
    );
    for (const outcome of outcomes) expectWhole(outcome, 'first');
    const throttledAt = Math.max(...(seen['k2'] ?? []));
    const early = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ask([candidate(primary, 'first', { keys })], { id: `s${i}` })),
    );
    for (const outcome of early) expectWhole(outcome, 'first');
    expect((seen['k2'] ?? []).filter((at) => at > throttledAt)).toEqual([]);
    expect((seen['k2'] ?? []).length).toBeGreaterThan(0);
  });

  it('a conversation keeps its key', async () => {
    for (let i = 0; i < 6; i++)
      expectWhole(await ask([candidate(primary, 'first', { keys })], { id: `r${i}`, conversationId: 'c7' }), 'first');
    expect(new Set(primary.requests.map((request) => request.headers['authorization'])).size).toBe(1);
  });

  it('a refused key is not used again, and its other keys serve when nobody else can', async () => {
    primary.script = (request, connection) =>
      request.headers['authorization'] === 'Bearer secret-k1' || request.headers['authorization'] === 'Bearer secret-k2'
        ? connection.json(401, {
            error: {
              message: `Incorrect API key provided: ${request.headers['authorization']}`,
              code: 'invalid_api_key',
            },
          })
        : healthy(request, connection);
    for (let i = 0; i < 5; i++)
      expectWhole(await ask([candidate(primary, 'first', { keys })], { id: `r${i}` }), 'first');
    const refused = primary.requests.filter((request) => request.headers['authorization'] !== 'Bearer secret-k3');
    expect(refused.length).toBeLessThanOrEqual(2);
  });

  it('a key goes to its own host only and shows up in no frame, record or text', async () => {
    primary.script = (request, connection) =>
      connection.json(
        302,
        { error: { message: `key ${request.headers['authorization']} is wrong` } },
        { location: `${fallback.url}/v1/chat/completions` },
      );
    const one = await ask([candidate(primary, 'first'), candidate(fallback, 'second')]);
    expectWhole(one, 'second');
    primary.script = (request, connection) =>
      connection.json(401, { error: { message: `Bad key ${request.headers['authorization']}` } });
    const two = await ask([candidate(primary, 'first')]);
    expect(two.error).toBeDefined();
    expect(fallback.requests.every((request) => request.headers['authorization'] === 'Bearer sk-canary-second')).toBe(
      true,
    );
    expect(primary.requests.every((request) => request.headers['authorization'] === 'Bearer sk-canary-first')).toBe(
      true,
    );
    expect(JSON.stringify([one.frames, two.frames, two.error?.error.message, records, texts])).not.toContain('canary');
  });

  it('with all keys cooling beyond the deadline the caller learns when to come back', async () => {
    primary.script = failing(429, 'rate_limit_exceeded', { 'retry-after': '20' });
    const outcome = await ask([candidate(primary, 'first')]);
    expect(outcome.error?.error).toMatchObject({ class: 'EXHAUSTED', code: 'YM-LLM-EXHAUSTED' });
    expect(outcome.error?.error.retryAfterMs).toBeGreaterThan(19_000);
    expect(outcome.ms).toBeLessThan(5_000);
  });
});

describe('one request', () => {
  it('a cancel closes the provider socket within 50 ms', async () => {
    let closedAt = 0;
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 5);
      void connection.closed.then(() => (closedAt = performance.now()));
    };
    const cancel = new AbortController();
    let cancelledAt = 0;
    setTimeout(() => {
      cancelledAt = performance.now();
      cancel.abort();
    }, 100);
    const outcome = await ask(both(), { signal: cancel.signal });
    expect(outcome.result ?? outcome.error).toBeUndefined();
    while (closedAt === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(closedAt - cancelledAt).toBeLessThan(50);
    expect(records.map((record) => record.outcome)).toEqual(['cancelled']);
  });

  it('a reader that goes away closes the socket too', async () => {
    let closed = false;
    primary.script = (_request, connection) => {
      connection.head(200);
      words(connection, 0, 5);
      void connection.closed.then(() => (closed = true));
    };
    for await (const frame of runChat(
      {
        id: 'x',
        deadlineAt: Date.now() + 5_000,
        render: () => ({ input: { messages: [] }, turnsCut: 0 }),
        signal: new AbortController().signal,
        restartAfterCommit: true,
      },
      both(),
      deps,
    )) {
      if (frame.type === 'delta') break;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(closed).toBe(true);
    expect(records.map((record) => record.outcome)).toEqual(['cancelled']);
  });

  it('a bare 404 leads to /responses once, which is remembered; a 404 about a model does not', async () => {
    primary.script = (request, connection) => {
      if (request.path !== '/v1/responses') return connection.json(404, { error: { message: 'Not found' } });
      connection.head(200);
      connection.chunk(event({ type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'ok' }));
      connection.chunk(
        event({
          type: 'response.completed',
          response: { status: 'completed', output: [], usage: { input_tokens: 1, output_tokens: 1 } },
        }),
      );
      connection.end();
    };
    const first = await ask([candidate(primary, 'first')]);
    expect(first.result).toMatchObject({ text: 'ok', marks: { responsesFallback: true } });
    await ask([candidate(primary, 'first')]);
    expect(primary.requests.map((request) => request.path)).toEqual([
      '/v1/chat/completions',
      '/v1/responses',
      '/v1/responses',
    ]);
    fallback.script = failing(404, 'model_not_found');
    await ask([candidate(fallback, 'second')]);
    expect(fallback.requests).toHaveLength(1);
  });

  it('lowers the reservation when prompt and output together do not fit', async () => {
    primary.script = (request, connection) =>
      (JSON.parse(request.body) as { max_tokens: number }).max_tokens > 500
        ? connection.json(400, {
            error: {
              message:
                "This model's maximum context length is 1000 tokens. However, you requested 1400 tokens (400 in the messages, 1000 in the completion).",
              code: 'context_length_exceeded',
            },
          })
        : connection.json(400, { error: { message: 'unexpected', code: 'x' } });
    primary.script = ((inner) => (request, connection) => {
      if ((JSON.parse(request.body) as { max_tokens: number }).max_tokens > 600) return inner(request, connection);
      return healthy(request, connection);
    })(primary.script);
    const outcome = await ask([candidate(primary, 'first')], { maxTokens: 1000 });
    expectWhole(outcome, 'first');
    expect(outcome.result?.marks.maxTokensLoweredTo).toBe(568);
  });

  it('cuts whole turns through the renderer and says how many', async () => {
    primary.script = (request, connection) =>
      request.body.includes('old')
        ? connection.json(400, { error: { message: 'prompt is too long: 2000 tokens > 1000 maximum', code: 'x' } })
        : healthy(request, connection);
    const wishes: unknown[] = [];
    const outcome = await ask([candidate(primary, 'first')], {
      render: (_candidate, wish) => {
        if (wish !== undefined) wishes.push(wish);
        return {
          input: { messages: [{ role: 'user', content: wish === undefined ? 'old' : 'new' }] },
          turnsCut: wish === undefined ? 0 : 2,
        };
      },
    });
    expectWhole(outcome, 'first');
    expect(outcome.result?.marks.turnsCut).toBe(2);
    expect(wishes).toEqual([{ moreThan: 0, keep: expect.closeTo(0.475, 3) }]);
  });

  it('an image goes to nobody who cannot see, and to the first who can', async () => {
    const image = {
      role: 'user' as const,
      content: [{ type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AA==' } }],
    };
    const render = () => ({ input: { messages: [image] }, turnsCut: 0 });
    const blind = candidate(primary, 'first', { quirks: { vision: false } });
    expectWhole(await ask([blind, candidate(fallback, 'second')], { render }), 'second');
    const nobody = await ask([blind], { render });
    expect(nobody.error?.error).toMatchObject({ class: 'INVALID', code: 'YM-LLM-UNSENDABLE' });
    expect(primary.requests).toHaveLength(0);
  });

  it('a think tag that closes late turns the text before it into reasoning', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      connection.chunk(delta('I think so.'));
      connection.chunk(delta('\n</think>\n\nYes.'));
      connection.chunk(FINISH);
      connection.end();
    };
    const outcome = await ask(both());
    expect(outcome.text).toBe('Yes.');
    expect(outcome.result).toMatchObject({ text: 'Yes.', reasoning: 'I think so.', marks: { inlineThink: true } });
    expect(outcome.frames.map((frame) => frame.type)).toEqual([
      'start',
      'delta',
      'attempt_reset',
      'start',
      'reasoning',
      'delta',
      'end',
    ]);
  });

  it('hands an unreadable call back to be repaired', async () => {
    primary.script = (_request, connection) =>
      connection.json(500, {
        error: { code: 500, message: 'Failed to parse tool call arguments as JSON: parse error', type: 'server_error' },
      });
    const outcome = await ask(both());
    expect(outcome.error).toMatchObject({ error: { code: 'YM-LLM-MODEL-OUTPUT' }, modelOutput: { provider: 'first' } });
    expect(fallback.requests).toHaveLength(0);
  });

  it('an empty answer is tried again and billed', async () => {
    primary.script = (_request, connection) => {
      connection.head(200);
      connection.chunk(FINISH + LAST + 'data: [DONE]\n\n');
      connection.end();
    };
    expectWhole(await ask(both()), 'second');
    expect(records[0]).toMatchObject({ outcome: 'retry', reason: 'empty', usage: USAGE });
  });

  it('a provider without streaming answers with one body', async () => {
    primary.script = (_request, connection) =>
      connection.json(200, {
        choices: [{ index: 0, message: { role: 'assistant', content: WHOLE }, finish_reason: 'stop' }],
        usage: USAGE,
      });
    expectWhole(await ask(both()), 'first');
  });

  it('embeddings go through the same engine', async () => {
    primary.script = failing(503, 'overloaded');
    fallback.script = (request, connection) =>
      connection.json(200, {
        data: [
          { index: 1, embedding: [0.5, 1] },
          { index: 0, embedding: [1, 2] },
        ],
        usage: { prompt_tokens: 4, total_tokens: 4 },
      });
    const embedders = both().map((one) => ({ ...one, family: 'openai-embeddings' as const }));
    const outcome = await ask(embedders, {
      render: () => ({ input: { messages: [], inputs: ['a', 'b'] }, turnsCut: 0 }),
    });
    expect(outcome.result).toMatchObject({
      model: 'second',
      embeddings: [
        [1, 2],
        [0.5, 1],
      ],
      usage: { prompt_tokens: 4 },
    });
    expect(fallback.requests[0]).toMatchObject({ path: '/v1/embeddings' });
  });

  it('connections are used again after an answer', async () => {
    const ports = new Set<FaultConnection>();
    let opened = 0;
    primary.script = (request, connection) => {
      void connection.closed.then(() => opened++);
      ports.add(connection);
      return healthy(request, connection);
    };
    for (let i = 0; i < 5; i++) expectWhole(await ask(both()), 'first');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(opened).toBe(0);
  });
});

describe('deadline', () => {
  const faults: Record<string, FaultScript> = {
    hang: () => undefined,
    reset: (_request, connection) => connection.reset(),
    absurd: failing(429, 'rate_limit_exceeded', { 'retry-after': '86400' }),
    stall: (_request, connection) => {
      connection.head(200);
      words(connection, 0, 3);
    },
    slowError: (_request, connection) => connection.head(500),
  };

  it('holds for every pair of hangs, resets, stalls and absurd waits', async () => {
    // One server plays all parts: the first part of the path says which.
    primary.script = (request, connection) => faults[request.path.split('/')[1] ?? '']?.(request, connection);
    const slow = (name: string): Candidate => ({
      ...candidate(primary, name),
      baseUrl: `${primary.url}/${name}`,
      timeouts: { connectMs: 5_000, firstTokenMs: 5_000, idleMs: 5_000, totalMs: 60_000 },
    });
    const names = Object.keys(faults);
    const pairs = names.flatMap((a) => names.map((b) => [a, b] as const));
    await Promise.all(
      pairs.map(async ([a, b]) => {
        const outcome = await ask([slow(a), slow(b)], { deadlineAt: Date.now() + 400 });
        expect(outcome.error).toBeDefined();
        // The exact bound is checked with a clock of our own; a busy machine may come late here.
        expect(outcome.ms, `${a} then ${b}`).toBeLessThan(1_400);
      }),
    );
  });
});
