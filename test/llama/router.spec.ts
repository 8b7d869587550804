import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Stack, startStack } from '../e2e/harness.ts';
import { freePort, KEY, type Llama, startLlama } from './llama-server.ts';
import { eventsOf, readChat, startTap, type Tap } from './tap.ts';

const CONTEXT = 4096;
const SLOTS = 2;

/** A chat server with calls, a second one of the same model, and one for vectors. */
let chat: Llama;
let second: Llama;
let vectors: Llama;
let taps: Record<'native' | 'text' | 'responses' | 'podA' | 'podB' | 'noVectors' | 'vectors', Tap>;
let yard: Stack;
/** What a request through the router met while the first server was loading, with the time at which it was sent. */
const whileLoading: { status: number; text: string }[] = [];
let seenLoading: { status: number; body: unknown } | undefined;

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Weather of a city',
      parameters: {
        type: 'object',
        properties: { city: { enum: ['Paris', 'Rome', 'Oslo', 'Madrid'] }, unit: { enum: ['C', 'F'] } },
        required: ['city', 'unit'],
        additionalProperties: false,
      },
    },
  },
];

/** A base model copies what it sees: a conversation with calls makes it write one. */
function talk(cities: readonly string[], last: string, first = ''): Record<string, unknown>[] {
  return [
    ...cities.flatMap((city, index) => [
      { role: 'user', content: `${first}What is the weather in ${city}?` },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id: `c${index}`,
            type: 'function',
            function: { name: 'get_weather', arguments: JSON.stringify({ city, unit: 'C' }) },
          },
        ],
      },
      { role: 'tool', tool_call_id: `c${index}`, content: `${12 + index} degrees` },
      { role: 'assistant', content: `It is ${12 + index} degrees in ${city}.` },
    ]),
    { role: 'user', content: `What is the weather in ${last}?` },
  ];
}

interface Completion {
  choices: {
    finish_reason: string;
    message: { content: string | null; tool_calls?: { function: { name: string; arguments: string } }[] };
  }[];
  usage: { prompt_tokens: number; completion_tokens: number; prompt_tokens_details: { cached_tokens: number } };
  provider: string;
}

const post = async (path: string, json: unknown, signal?: AbortSignal) => {
  const response = await yard.api(path, { json, ...(signal === undefined ? {} : { signal }) });
  return { status: response.status, text: await response.text() };
};
const ask = (model: string, messages: unknown[], more: Record<string, unknown> = {}) =>
  post('/v1/chat/completions', { model, messages, temperature: 0, max_tokens: 8, ...more });
const answered = async (model: string, messages: unknown[], more: Record<string, unknown> = {}) => {
  const { status, text } = await ask(model, messages, more);
  expect(status, text).toBe(200);
  return JSON.parse(text) as Completion;
};
const user = (content: string) => [{ role: 'user', content }];
const metric = async (name: string, labels: Record<string, string>) => {
  const { metricsPort } = yard.stack.readyLines.get('router')!;
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const line = text
    .split('\n')
    .find((one) => one.startsWith(`${name}{`) && Object.entries(labels).every(([k, v]) => one.includes(`${k}="${v}"`)));
  return Number(line?.split(' ').at(-1) ?? 0);
};

beforeAll(async () => {
  const port = await freePort();
  const target = `http://127.0.0.1:${port}`;
  second = await startLlama({ contextSize: CONTEXT, slots: SLOTS });
  vectors = await startLlama({ contextSize: 1024, slots: SLOTS, embeddings: true });
  taps = {
    native: await startTap(target),
    text: await startTap(target),
    responses: await startTap(target, { withoutChat: true }),
    podA: await startTap(target),
    podB: await startTap(second.url),
    noVectors: await startTap(target),
    vectors: await startTap(vectors.url),
  };
  await Promise.all([second.loaded, vectors.loaded]);
  const at = (url: string, models: string[], more: Record<string, unknown> = {}) => ({
    native: true,
    demo: false,
    kind: 'llamacpp',
    base_url: url,
    auth: 'bearer',
    key_env: 'LLAMA_TEST_KEY',
    models,
    first_token_timeout_s: 300,
    idle_timeout_s: 120,
    timeout_s: 500,
    ...more,
  });
  yard = await startStack(
    {
      loading: at(`${target}/v1`, ['direct']),
      native: at(taps.native.url, ['native']),
      text: at(taps.text.url, ['text'], { native: false }),
      responses: at(taps.responses.url, ['responses']),
      'pod-a': at(taps.podA.url, ['pods']),
      'pod-b': at(taps.podB.url, ['pods']),
      'no-vectors': at(taps.noVectors.url, ['vectors'], { embeddings: true }),
      vectors: at(taps.vectors.url, ['vectors'], { embeddings: true }),
    },
    {
      serviceEnv: { router: { LLAMA_TEST_KEY: KEY } },
      env: { YM_API_MODEL_TIMEOUT_MS: '600000' },
      // A transient failure is tried again, so that what must not be tried again can be told from it.
      routing: { retries: 2, backoff_ms: 10 },
      agents: { plain: { model: 'pods', tools: [], temperature: 0, max_output_tokens: 6 } },
    },
  );
  chat = await startLlama({ contextSize: CONTEXT, slots: SLOTS, port });
  let done = false;
  const watch = (async () => {
    while (!done) {
      const told = await fetch(`${chat.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEY}` },
        body: JSON.stringify({ messages: user('hello'), max_tokens: 1 }),
      }).catch(() => undefined);
      if (told === undefined) continue;
      const body: unknown = await told.json();
      if (told.status === 200) return;
      seenLoading ??= { status: told.status, body };
      whileLoading.push(await ask('direct', user('hello'), { max_tokens: 1 }));
    }
  })();
  await chat.loaded;
  done = true;
  await watch;
}, 600_000);
afterAll(async () => {
  await yard?.stop();
  await Promise.all(Object.values(taps ?? {}).map((tap) => tap.close()));
  await Promise.all([chat, second, vectors].map((server) => server?.stop()));
});

describe('a server that loads its model', () => {
  it('says so with a 503, which the router takes for a passing failure', () => {
    expect(seenLoading).toMatchObject({
      status: 503,
      body: { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } },
    });
    const refused = whileLoading.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const { status, text } of refused) expect({ status, text }).toMatchObject({ status: 503 });
  });

  it('gets requests again once it is ready, with nothing restarted', async () => {
    await expect
      .poll(async () => (await ask('direct', user('hello'), { max_tokens: 1 })).status, { timeout: 60_000 })
      .toBe(200);
  });

  it('shows slots and context as the chart divides them, and that its template takes tools', async () => {
    const { body } = await chat.json<{
      total_slots: number;
      default_generation_settings: { n_ctx: number };
      chat_template_caps: { supports_tools: boolean };
    }>('/props');
    expect(body).toMatchObject({
      total_slots: SLOTS,
      default_generation_settings: { n_ctx: CONTEXT / SLOTS },
      chat_template_caps: { supports_tools: true },
    });
  });
});

describe('answers', () => {
  it('are the text, the tokens and the reason that the server gave', async () => {
    const { choices, usage } = await answered('native', user('One, two, three, four,'));
    const { answer, body } = taps.native.passed.at(-1)!;
    expect(body).toMatchObject({ stream: true, max_tokens: 8, temperature: 0 });
    expect(choices[0]).toMatchObject({ finish_reason: 'length', message: { content: readChat(answer).text } });
    expect(readChat(answer).text).not.toBe('');
    const told = eventsOf(answer).findLast((event) => event['usage'] !== undefined)!['usage'];
    expect(usage).toMatchObject(told as object);
  });

  it('come piece by piece', async () => {
    const { status, text } = await ask('native', user('A, B, C, D,'), {
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(status).toBe(200);
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true);
    const { answer } = taps.native.passed.at(-1)!;
    expect(readChat(text).text).toBe(readChat(answer).text);
    expect(eventsOf(text).at(-1)).toMatchObject({ usage: { completion_tokens: 8 } });
  });

  it('come over /v1/responses where that is the only route, and say that the limit cut them', async () => {
    const { choices, usage } = await answered('responses', user('One, two, three, four,'));
    expect(taps.responses.passed.map(({ path }) => path)).toEqual(['/v1/chat/completions', '/v1/responses']);
    const { answer } = taps.responses.passed.at(-1)!;
    const said = eventsOf(answer)
      .filter(({ type }) => type === 'response.output_text.delta')
      .map(({ delta }) => delta as string);
    expect(choices[0]).toMatchObject({ finish_reason: 'length', message: { content: said.join('') } });
    expect(usage).toMatchObject({ completion_tokens: 8 });
    // The route is remembered.
    await answered('responses', user('Again.'), { max_tokens: 1 });
    expect(taps.responses.passed.length).toBe(3);
  });
});

describe('calls', () => {
  const more = { tools: TOOLS, tool_choice: 'required', max_tokens: 48 };

  it('come in their own field, bound to the schema by a grammar', async () => {
    const { choices } = await answered('native', talk(['Paris', 'Rome', 'Oslo'], 'Madrid'), more);
    const [call] = choices[0]!.message.tool_calls!;
    expect(call!.function.name).toBe('get_weather');
    expect(JSON.parse(call!.function.arguments)).toEqual({ city: expect.any(String), unit: expect.any(String) });
    const { answer } = taps.native.passed.at(-1)!;
    expect(choices[0]!.message.tool_calls!.map(({ function: one }) => one)).toMatchObject(readChat(answer).calls);
  });

  it('come over /v1/responses too', async () => {
    const { choices } = await answered('responses', talk(['Paris', 'Rome', 'Oslo'], 'Madrid'), more);
    const [call] = choices[0]!.message.tool_calls!;
    expect(JSON.parse(call!.function.arguments)).toMatchObject({ city: expect.any(String) });
    expect(taps.responses.passed.at(-1)!.path).toBe('/v1/responses');
  });

  it('are read out of the text of a model without a tool API', async () => {
    const { choices } = await answered('text', talk(['Paris', 'Rome', 'Oslo'], 'Madrid'), {
      tools: TOOLS,
      max_tokens: 48,
    });
    const { body, answer } = taps.text.passed.at(-1)!;
    expect(body['tools']).toBeUndefined();
    expect(JSON.stringify(body['messages'])).toContain('<tool_call>');
    expect(readChat(answer).text).toContain('get_weather');
    const [call] = choices[0]!.message.tool_calls!;
    expect(call!.function.name).toBe('get_weather');
    expect(JSON.parse(call!.function.arguments)).toMatchObject({ city: expect.any(String) });
    expect(choices[0]!.message.content ?? '').not.toContain('<tool_call>');
  });

  it('whose arguments were no JSON do not make every later turn fail', async () => {
    const messages = talk(['Paris'], 'Rome');
    const broken = (messages[1]!['tool_calls'] as { function: { arguments: string } }[])[0]!;
    broken.function.arguments = '{"city": "Par';
    await answered('native', messages, { tools: TOOLS, max_tokens: 1 });
    // As it stands the server refuses it: what the router sent was something else.
    const { status, body } = await chat.json('/v1/chat/completions', { messages, tools: TOOLS, max_tokens: 1 });
    expect(status).toBe(500);
    expect(JSON.stringify(body)).toContain('Failed to parse tool call arguments as JSON');
  });

  it('of tools with patterns that are no grammar are not refused', async () => {
    const parameters = {
      type: 'object',
      properties: { id: { type: 'string', pattern: '\\d{4}' }, any: true, word: { type: 'string', pattern: '^\\w+$' } },
    };
    const tools = [...TOOLS, { type: 'function', function: { name: 'look_up', parameters } }];
    await answered('native', user('hello'), { tools, max_tokens: 1 });
    expect(taps.native.passed.at(-1)!.status).toBe(200);
  });
});

describe('a prompt that is too long', () => {
  const long = (words: number) => 'word '.repeat(words);

  it('is told as such, and not sent again as it is', async () => {
    const before = taps.native.passed.length;
    const { status, text } = await ask('native', user(long(3000)));
    expect({ status, text }).toMatchObject({ text: expect.stringContaining('context') });
    expect(status).toBeGreaterThanOrEqual(400);
    expect(taps.native.passed.slice(before).map((one) => one.status)).toEqual([400]);
    expect(taps.native.passed.at(-1)!.answer).toContain('"n_ctx":2048');
  });

  it('loses its oldest turns and is sent once more', async () => {
    const before = taps.native.passed.length;
    const messages = [
      ...user(long(1800)),
      { role: 'assistant', content: 'Yes.' },
      ...user('Two.'),
      { role: 'assistant', content: long(300) },
      ...user('And now?'),
    ];
    await answered('native', messages, { max_tokens: 1 });
    const [first, again, ...others] = taps.native.passed.slice(before);
    expect([first!.status, again!.status, others]).toEqual([400, 200, []]);
    expect(JSON.stringify(again!.body['messages'])).toContain('And now?');
    expect((again!.body['messages'] as unknown[]).length).toBeLessThan((first!.body['messages'] as unknown[]).length);
  });
});

describe('slots', () => {
  it('are as many as requests at once; a further one waits and is answered too', async () => {
    let deferred = 0;
    let busy = 0;
    let running = true;
    const watch = (async () => {
      while (running) {
        const metrics = await chat.metrics();
        deferred = Math.max(deferred, metrics['llamacpp:requests_deferred'] ?? 0);
        busy = Math.max(busy, (await chat.slots()).filter((slot) => slot.is_processing).length);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    const all = await Promise.all(
      ['red', 'green', 'blue'].map((word) => answered('direct', user(`${word} `.repeat(40)), { max_tokens: 12 })),
    );
    running = false;
    await watch;
    expect(all.map(({ usage }) => usage.completion_tokens)).toEqual([12, 12, 12]);
    expect([busy, deferred]).toEqual([SLOTS, 1]);
  });

  it('are waited for when the pod is to end, and no longer', async () => {
    const script = readFileSync(fileURLToPath(new URL('../../charts/llama/files/drain.sh', import.meta.url)), 'utf8')
      .replace('sleep 5', 'sleep 0')
      .replace('sleep 2', 'sleep 0.1')
      .replace('$(cat /run/llama/api-key)', KEY)
      .replace('127.0.0.1/8080', new URL(chat.url).host.replace(':', '/'));
    const drain = () =>
      new Promise<{ code: number | null; at: number }>((resolve) =>
        spawn('bash', ['-c', script], { stdio: 'inherit', env: { ...process.env, DRAIN_SECONDS: '500' } }).on(
          'close',
          (code) => resolve({ code, at: performance.now() }),
        ),
      );
    expect((await drain()).code).toBe(0);
    const request = chat
      .json('/v1/chat/completions', { messages: user('Count: 1 2 3 4 5 6'), max_tokens: 40, ignore_eos: true })
      .then(() => performance.now());
    await expect.poll(async () => (await chat.slots()).some((slot) => slot.is_processing)).toBe(true);
    const [answeredAt, drained] = await Promise.all([request, drain()]);
    expect(drained.code).toBe(0);
    // The server counts a request as over a moment before its caller has read it.
    expect(drained.at).toBeGreaterThan(answeredAt - 500);
  });

  it('are free again when a caller goes away in the middle of a stream', async () => {
    const before = (await chat.metrics())['llamacpp:tokens_predicted_total']!;
    const leave = new AbortController();
    const response = await yard.api('/v1/chat/completions', {
      json: { model: 'direct', messages: user('Count: 1 2 3 4 5 6'), stream: true, max_tokens: 1500, temperature: 0 },
      signal: leave.signal,
    });
    const reader = response.body!.getReader();
    let seen = '';
    while (readChat(seen.slice(0, seen.lastIndexOf('\n') + 1)).text === '') {
      const { value, done } = await reader.read();
      expect(done, seen).toBe(false);
      seen += new TextDecoder().decode(value);
    }
    expect((await chat.slots()).some((slot) => slot.is_processing)).toBe(true);
    leave.abort();
    await expect
      .poll(async () => (await chat.slots()).some((slot) => slot.is_processing), { timeout: 60_000, interval: 50 })
      .toBe(false);
    expect((await chat.metrics())['llamacpp:tokens_predicted_total']! - before).toBeLessThan(1000);
  });
});

describe('conversations over two servers of one model', () => {
  interface Usage {
    prompt_tokens: number;
    cached_tokens: number;
  }
  const turn = async (input: string, conversation?: string) => {
    const before = { a: taps.podA.passed.length, b: taps.podB.passed.length };
    const { id } = await yard.start({
      input,
      agent: 'plain',
      ...(conversation === undefined ? {} : { conversation_id: conversation }),
    });
    const view = await yard.settled(id, 300_000);
    expect(['completed', 'incomplete'], JSON.stringify(view)).toContain(view.state);
    const pods = [
      ...(taps.podA.passed.length > before.a ? ['a'] : []),
      ...(taps.podB.passed.length > before.b ? ['b'] : []),
    ];
    return {
      conversation: view.conversation_id,
      pods: pods.join(),
      usage: (view as unknown as { usage: Usage }).usage,
    };
  };

  it('stay where their prompt is cached', async () => {
    const used = new Map<string, number>();
    for (let one = 0; one < 12 && (one < 4 || used.size < 2); one++) {
      const first = await turn(`Story ${one}: ${`the ${one} cats and dogs of house ${one} went out, `.repeat(8)}`);
      const next = await turn('And then?', first.conversation);
      expect(next.pods, `conversation ${one}`).toBe(first.pods);
      // What stood in the prompt before is not read again.
      expect(next.usage.cached_tokens).toBeGreaterThanOrEqual(0.9 * first.usage.prompt_tokens);
      used.set(first.pods, (used.get(first.pods) ?? 0) + 1);
    }
    expect([...used.keys()].sort()).toEqual(['a', 'b']);
    const sum = async (kind: string) =>
      (await metric('yardmaster_llm_tokens_total', { provider: 'pod-a', kind })) +
      (await metric('yardmaster_llm_tokens_total', { provider: 'pod-b', kind }));
    expect(await sum('cached')).toBeGreaterThan(0);
    expect(await sum('prompt')).toBeGreaterThan(await sum('cached'));
  });
});

describe('vectors', () => {
  it('come from the server that has them, in the order of the texts; the one without is asked once', async () => {
    const inputs = ['a cat', 'a longer text about dogs'];
    let text = '';
    // Which of the two goes first is drawn for each request.
    for (let tries = 0; tries < 30 && taps.noVectors.passed.length === 0; tries++) {
      const answer = await post('/v1/embeddings', { model: 'vectors', input: inputs });
      expect(answer.status, answer.text).toBe(200);
      text = answer.text;
    }
    expect(taps.noVectors.passed.map((one) => one.status)).toEqual([501]);
    const given = (JSON.parse(text) as { data: { index: number; embedding: number[] }[] }).data;
    const { body } = await vectors.json<{ data: { embedding: number[] }[] }>('/v1/embeddings', { input: inputs });
    for (const [index, { embedding }] of body.data.entries()) {
      expect(given[index]!.embedding.length).toBe(embedding.length);
      for (const [at, value] of embedding.entries()) expect(given[index]!.embedding[at]).toBeCloseTo(value, 2);
    }
    expect(given[0]!.embedding).not.toEqual(given[1]!.embedding);
  });

  it('of a text that is too long are refused after one attempt', async () => {
    const before = taps.vectors.passed.length;
    const { status, text } = await post('/v1/embeddings', { model: 'vectors', input: ['word '.repeat(900)] });
    expect(status, text).toBeGreaterThanOrEqual(400);
    const [only, ...others] = taps.vectors.passed.slice(before);
    expect(others).toEqual([]);
    expect(only!.answer).toContain('too large to process');
  });
});
