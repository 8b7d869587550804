import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Yardmaster } from '@yardmaster/client';
import { type FaultConnection, type FaultServer, startFaultServer } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';

const KEYS = {
  ALPHA_1: 'sk-canary-alpha-1-7f3a9c',
  ALPHA_2: 'canary.alpha.2.d41d8c',
  BETA: 'canary_beta_9e107d',
};
const TOO_LARGE =
  'input (902 tokens) is too large to process. increase the physical batch size (current batch size: 512)';
const USAGE = {
  prompt_tokens: 30,
  completion_tokens: 12,
  total_tokens: 42,
  prompt_tokens_details: { cached_tokens: 10 },
};

let alpha: FaultServer;
let beta: FaultServer;
let elsewhere: FaultServer;
let yard: Stack;
let ym: Yardmaster;
/** Everything that callers were told. */
const told: string[] = [];

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const keyOf = (headers: Record<string, string>) => headers['authorization']?.slice('Bearer '.length) ?? '';

function answer(connection: FaultConnection): void {
  connection.head(200);
  connection.chunk(event({ choices: [{ index: 0, delta: { content: 'all is well' }, finish_reason: null }] }));
  connection.chunk(event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
  connection.chunk(event({ choices: [], usage: USAGE }));
  connection.chunk('data: [DONE]\n\n');
  connection.end();
}

/** gpt-oss on llama.cpp: writes a file, then says so. */
function complete(body: string, connection: FaultConnection): void {
  const { prompt } = JSON.parse(body) as { prompt: string };
  const written = prompt.includes('<|start|>functions.file_write to=assistant');
  const text = written
    ? '<|channel|>analysis<|message|>It is there.<|end|><|start|>assistant<|channel|>final<|message|>Written.'
    : '<|channel|>analysis<|message|>A file it is.<|end|><|start|>assistant<|channel|>commentary to=functions.file_write <|constrain|>json<|message|>{"path":"from-gpt-oss.txt","content":"hello"}';
  connection.head(200);
  for (const piece of text.match(/.{1,9}/gs)!) connection.chunk(event({ content: piece, stop: false }));
  connection.chunk(event({ content: '', stop: true, stop_type: 'eos', tokens_predicted: 20, tokens_evaluated: 100 }));
  connection.end();
}

beforeAll(async () => {
  elsewhere = await startFaultServer((_request, connection) => answer(connection));
  let turn = 0;
  // Fails in another way every time, and says the key that it was sent in each.
  alpha = await startFaultServer((request, connection) => {
    const key = keyOf(request.headers);
    const quoted = { error: { message: `the key ${key} (Bearer ${key}) is wrong`, code: key, key } };
    switch (turn++ % 6) {
      case 0:
        return connection.json(500, quoted, { 'x-key': key });
      case 1:
        return connection.json(429, quoted, { 'retry-after': '0' });
      case 2:
        return connection.json(307, quoted, { location: `${elsewhere.url}/v1/chat/completions?key=${key}` });
      case 3:
        connection.head(200, { 'x-key': key });
        connection.chunk(event({ choices: [{ index: 0, delta: { content: 'half an ' } }] }));
        return connection.cut();
      case 4:
        connection.head(200);
        connection.chunk(event(quoted));
        return connection.end();
      default:
        return connection.json(401, `<html>${key}</html>`, { 'content-type': 'text/html' });
    }
  });
  beta = await startFaultServer((request, connection) => {
    if (request.path.endsWith('/embeddings')) {
      const { input } = JSON.parse(request.body) as { input: string[] };
      if (input.some((text) => text.length > 1000))
        return connection.json(500, { error: { code: 500, message: TOO_LARGE, type: 'server_error' } });
      const data = input.map((text, index) => ({ index, embedding: [text.length, 0.25] })).reverse();
      return connection.json(200, { data, usage: { prompt_tokens: 7, total_tokens: 7 } });
    }
    if (request.path === '/completion') return complete(request.body, connection);
    answer(connection);
  });
  const at = (server: FaultServer) => ({ native: true, demo: false, kind: 'openai', base_url: `${server.url}/v1` });
  yard = await startStack(
    {
      alpha: {
        ...at(alpha),
        auth: 'bearer',
        keys: [{ env: 'ALPHA_1' }, { env: 'ALPHA_2' }],
        models: ['demo', 'lonely'],
      },
      beta: { ...at(beta), auth: 'bearer', key_env: 'BETA', models: ['demo', 'vectors'], embeddings: true },
      gpu: {
        ...at(beta),
        kind: 'llamacpp',
        auth: 'none',
        native: false,
        render: 'harmony_upfront',
        models: ['gpt-oss-20b'],
      },
      gamma: { ...at(elsewhere), auth: 'none', models: ['last'] },
    },
    {
      logLevel: 'trace',
      serviceEnv: { router: KEYS },
      routing: {
        retries: 2,
        providers: ['alpha', 'nobody', 'beta', 'gpu', 'gamma'],
        model_fallbacks: { lonely: ['last-but-one'] },
      },
    },
  );
  ym = new Yardmaster({ apiUrl: yard.url, apiKey: yard.key });
}, 60_000);
afterAll(async () => {
  await yard?.stop();
  await Promise.all([alpha, beta, elsewhere].map((server) => server.close()));
});

const post = async (path: string, json: unknown) => {
  const response = await yard.api(path, { json });
  const text = await response.text();
  told.push(text, JSON.stringify([...response.headers]));
  return { status: response.status, headers: response.headers, text };
};
const chat = (model: string, stream = false) =>
  post('/v1/chat/completions', { model, stream, messages: [{ role: 'user', content: 'hello' }] });

it('a key never shows up at another host, in a log line, an event, an error or a file', async () => {
  for (let i = 0; i < 6; i++) {
    expect((await chat('demo', i % 2 === 1)).text).toContain('all is well');
    await chat('lonely', i % 2 === 1);
  }
  const run = await ym.runs.start({ input: 'hello', model: 'demo' });
  told.push(JSON.stringify(await run.result()), JSON.stringify(await yard.events(run.id)));
  const failed = await ym.runs.start({ input: 'hello', model: 'lonely' });
  told.push(JSON.stringify(await failed.result()), JSON.stringify(await yard.events(failed.id)));
  told.push(JSON.stringify(await ym.providers.list()), JSON.stringify(await ym.providers.plan({ model: 'demo' })));

  const sentTo = (server: FaultServer) => server.requests.map((request) => JSON.stringify(request)).join('\n');
  // The test would prove nothing if the keys had not been used.
  expect(sentTo(alpha)).toContain(KEYS.ALPHA_1);
  expect(sentTo(alpha)).toContain(KEYS.ALPHA_2);
  expect(sentTo(beta)).toContain(KEYS.BETA);
  expect(elsewhere.requests).toEqual([]);
  const files = readdirSync(yard.stack.state, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const stored = files.map((file) => readFileSync(file, 'latin1')).join('\n');
  expect(stored).toContain('a provider failed');
  const places = { told: told.join('\n'), stored, alpha: sentTo(alpha), beta: sentTo(beta) };
  for (const [name, key] of Object.entries(KEYS))
    for (const [place, text] of Object.entries(places)) {
      if (name.startsWith(place.toUpperCase())) continue;
      expect(text.includes(key), `${name} in ${place}`).toBe(false);
    }
}, 60_000);

it('providers are shown with their keys by hash, and a mistake in the chain is a warning', async () => {
  const { items } = await ym.providers.list();
  const shown = items.find(({ name }) => name === 'alpha')!;
  expect(shown.keys.map(({ hash }) => hash)).toEqual([
    expect.stringMatching(/^[0-9a-f]{8}$/),
    expect.stringMatching(/^[0-9a-f]{8}$/),
  ]);
  expect(items.find(({ name }) => name === 'beta')).toMatchObject({
    health: 'up',
    capabilities: { embeddings: true },
    keys: [{ health: 'up', until: null }],
  });
  const plan = await ym.providers.plan({ model: 'lonely' });
  expect(plan.warnings.join()).toContain('"nobody"');
  expect(plan.candidates.map(({ provider, model, usable }) => `${provider}/${model} ${usable}`)).toEqual([
    'alpha/lonely true',
    'beta/lonely false',
    'gpu/lonely false',
    'gamma/lonely false',
    'alpha/last-but-one false',
    'beta/last-but-one false',
    'gpu/last-but-one false',
    'gamma/last-but-one false',
  ]);
});

it('vectors come from the provider that has the model, in the order of the texts', async () => {
  const { status, text } = await post('/v1/embeddings', { model: 'vectors', input: ['a', 'four'] });
  expect(status, text).toBe(200);
  expect(JSON.parse(text)).toMatchObject({
    model: 'vectors',
    data: [
      { index: 0, embedding: [1, 0.25] },
      { index: 1, embedding: [4, 0.25] },
    ],
    usage: { prompt_tokens: 7 },
  });
  expect(beta.requests.at(-1)).toMatchObject({ path: '/v1/embeddings', model: 'vectors' });
  expect((await post('/v1/embeddings', { model: 'nothing', input: 'a' })).status).toBe(404);

  // A text that does not fit is neither cut nor sent again.
  const before = beta.requests.length;
  expect((await post('/v1/embeddings', { model: 'vectors', input: 'word '.repeat(900) })).status).toBeGreaterThan(399);
  expect(beta.requests.length).toBe(before + 1);
});

it('a model that is driven by exact text calls tools and answers without showing its marks', async () => {
  const run = await ym.runs.start({ input: 'write a file', model: 'gpt-oss-20b', tools: ['file_write'] });
  expect(await run.result()).toMatchObject({ state: 'completed', output: 'Written.' });
  expect(readFileSync(yard.file('from-gpt-oss.txt'), 'utf8')).toBe('hello');
  const [first, second] = beta.requests
    .filter(({ path }) => path === '/completion')
    .map(({ body }) => (JSON.parse(body) as { prompt: string }).prompt);
  // The cache of the server goes by the prefix.
  expect(second!.startsWith(first!)).toBe(true);
  const { text } = await chat('gpt-oss-20b');
  expect(text).toContain('file_write');
});

it('usage is counted by day and provider, and a budget that is used up refuses before anything is sent', async () => {
  const day = async () => (await ym.tenants.usage('demo'))[0]!;
  await expect.poll(async () => (await day()).total_tokens).toBeGreaterThan(0);
  // What the tests before this one used is written within the time in which the router gathers.
  await new Promise((resolve) => setTimeout(resolve, 400));
  const before = await day();
  expect(before.failed_attempts).toBeGreaterThan(0);
  await chat('last');
  await expect.poll(async () => (await day()).total_tokens).toBe(before.total_tokens + USAGE.total_tokens);
  const after = await day();
  expect(after.requests).toBe(before.requests + 1);
  expect(after.providers['gamma']).toMatchObject({ attempts: 1, tokens: USAGE.total_tokens });
  const { metricsPort } = yard.stack.readyLines.get('router')!;
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  for (const [kind, tokens] of Object.entries({ prompt: 30, cached: 10, completion: 12 }))
    expect(metrics).toContain(
      `yardmaster_llm_tokens_total{provider="gamma",model="last",kind="${kind}",service="router"} ${tokens}\n`,
    );

  expect(await ym.tenants.quotas('demo')).toEqual({
    tokens_per_day: null,
    cost_usd_per_day: null,
    requests_per_minute: null,
  });
  await ym.tenants.setQuotas('demo', { tokens_per_day: after.total_tokens });
  await expect.poll(async () => (await chat('last')).status).toBe(429);
  const sent = elsewhere.requests.length;
  const refused = await chat('last');
  expect(refused.text).toContain(`tokens that it may use in a day`);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  const run = await ym.runs.start({ input: 'hello', model: 'last' });
  expect(await run.result()).toMatchObject({ state: 'failed', error: { class: 'EXHAUSTED', code: 'YM-BUDGET' } });
  expect(elsewhere.requests.length).toBe(sent);

  await ym.tenants.setQuotas('demo', {});
  await expect.poll(async () => (await chat('last')).status).toBe(200);
});
