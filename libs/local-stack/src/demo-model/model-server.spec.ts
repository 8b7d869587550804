import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { afterEach, describe, expect, test } from 'vitest';
import { type DemoModel, type ModelOptions, startModel } from './model-server.js';
import { SAMPLE_FILES, SAMPLE_TASK } from './sample.js';

type Messages = OpenAI.Chat.ChatCompletionMessageParam[];

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
});

async function model(options: ModelOptions = {}): Promise<DemoModel & { client: OpenAI }> {
  const started = await startModel(options);
  cleanUps.push(() => started.stop());
  return { ...started, client: new OpenAI({ baseURL: started.url, apiKey: 'none', maxRetries: 0 }) };
}

function workspace(): string {
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-demo-'));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(SAMPLE_FILES)) writeFileSync(join(folder, name), text);
  return folder;
}

/** The tools of the sample task, really carried out. */
function carryOut(folder: string, name: string, args: Record<string, string>): { ok: boolean; text: string } {
  if (name === 'file_list') return { ok: true, text: readdirSync(folder).join('\n') };
  if (name === 'file_read') {
    const lines = readFileSync(join(folder, args['path']!), 'utf8').split('\n');
    return { ok: true, text: lines.map((line, i) => `${i + 1}\t${line}`).join('\n') };
  }
  if (name === 'shell_run') {
    const done = spawnSync('sh', ['-c', args['command']!], { cwd: folder, encoding: 'utf8' });
    return { ok: done.status === 0, text: `${done.stdout}${done.stderr}\nexit code ${done.status}` };
  }
  if (name === 'file_edit') {
    const file = join(folder, args['path']!);
    writeFileSync(file, readFileSync(file, 'utf8').replace(args['old_string']!, args['new_string']!));
    return { ok: true, text: 'replaced 1 occurrence' };
  }
  return { ok: false, text: `no tool ${name}` };
}

const TOOLS = ['file_list', 'file_read', 'file_edit', 'shell_run'];
const functions = (names: string[]) =>
  names.map((name) => ({ type: 'function' as const, function: { name, parameters: { type: 'object' } } }));
const EXPECTED = ['file_list', 'shell_run', 'file_read', 'file_edit', 'shell_run'];

describe('the sample task', () => {
  test('is done with native calls, streamed', async () => {
    const { client } = await model();
    const folder = workspace();
    const messages: Messages = [{ role: 'user', content: SAMPLE_TASK }];
    const made: string[] = [];
    for (let turn = 0; turn < 10; turn++) {
      const stream = client.chat.completions.stream({
        model: 'demo',
        messages,
        tools: functions(TOOLS),
        stream_options: { include_usage: true },
      });
      const { choices, usage } = await stream.finalChatCompletion();
      expect(usage?.total_tokens).toBeGreaterThan(0);
      const { message } = choices[0]!;
      messages.push(message);
      if (!message.tool_calls?.length) break;
      for (const call of message.tool_calls) {
        if (call.type !== 'function') continue;
        made.push(call.function.name);
        const { text } = carryOut(
          folder,
          call.function.name,
          JSON.parse(call.function.arguments) as Record<string, string>,
        );
        messages.push({ role: 'tool', tool_call_id: call.id, content: text });
      }
    }
    expect(made).toEqual(EXPECTED);
    expect(String(messages.at(-1)!.content)).toMatch(/2 % instead of 20 %.*passes now.*demo model/s);
    expect(carryOut(folder, 'shell_run', { command: 'sh test.sh' }).ok).toBe(true);
  });

  test('is done with calls in tags, where the system prompt teaches them', async () => {
    const { client } = await model();
    const folder = workspace();
    const taught = TOOLS.map((name) => JSON.stringify({ name, description: '', parameters: {} })).join('\n');
    const messages: Messages = [
      {
        role: 'system',
        content: `## Tool Use Protocol\n<tool_call>\n{"name": "tool_name"}\n</tool_call>\n<tools>\n${taught}\n</tools>`,
      },
      { role: 'user', content: SAMPLE_TASK },
    ];
    const made: string[] = [];
    for (let turn = 0; turn < 10; turn++) {
      const { choices } = await client.chat.completions.create({ model: 'demo', messages });
      const text = choices[0]!.message.content!;
      messages.push({ role: 'assistant', content: text });
      const call = /<tool_call>\n(.*)\n<\/tool_call>/.exec(text)?.[1];
      if (call === undefined) break;
      const { name, arguments: args } = JSON.parse(call) as { name: string; arguments: Record<string, string> };
      made.push(name);
      const { ok, text: output } = carryOut(folder, name, args);
      messages.push({
        role: 'user',
        content: `[Tool results]\n<tool_result name="${name}" status="${ok ? 'ok' : 'error'}">\n${output}\n</tool_result>`,
      });
    }
    expect(made).toEqual(EXPECTED);
    expect(String(messages.at(-1)!.content)).toMatch(/passes now/);
  });

  test('needs a search first where the tools are not shown, and gives up where there are none', async () => {
    const { client } = await model();
    const ask = async (tools: string[], messages: Messages) =>
      (await client.chat.completions.create({ model: 'demo', messages, tools: functions(tools) })).choices[0]!.message;
    const messages: Messages = [{ role: 'user', content: SAMPLE_TASK }];
    const searching = await ask(['tool_search'], messages);
    const call = searching.tool_calls![0]!;
    expect(call).toMatchObject({ function: { name: 'tool_search', arguments: '{"query":"file_list"}' } });
    messages.push(searching, { role: 'tool', tool_call_id: call.id, content: 'nothing' });
    expect((await ask(['tool_search'], messages)).content).toMatch(/need the tool file_list/);
    expect((await ask(['tool_search', 'file_list'], messages)).tool_calls).toHaveLength(1);
  });
});

test('small requests run one tool and report', async () => {
  const { client } = await model();
  const ask = async (content: string) =>
    (
      await client.chat.completions.create({
        model: 'demo',
        messages: [{ role: 'user', content }],
        tools: functions(TOOLS),
      })
    ).choices[0]!.message;
  expect((await ask('list the files here')).tool_calls).toMatchObject([{ function: { name: 'file_list' } }]);
  expect((await ask('please run `sleep 30`')).tool_calls).toMatchObject([
    { function: { arguments: '{"command":"sleep 30"}' } },
  ]);
  expect((await ask('read src/a.txt')).tool_calls).toMatchObject([{ function: { arguments: '{"path":"src/a.txt"}' } }]);
  expect((await ask('hello')).content).toMatch(/You said: hello.*demo model/s);
});

test('a task "call NAME {json}" is that one call and its result', async () => {
  const { client } = await model();
  const ask = async (content: string, tools: string[], since: Messages = []) =>
    (
      await client.chat.completions.create({
        model: 'demo',
        messages: [{ role: 'user', content }, ...since],
        ...(tools.length > 0 && { tools: functions(tools) }),
      })
    ).choices[0]!.message;
  const task = 'call weather_forecast {"city": "Oslo", "more": {"days": 2}}';
  const called = await ask(task, ['weather_forecast']);
  expect(called.tool_calls).toMatchObject([{ function: { name: 'weather_forecast' } }]);
  const { function: call, id } = called.tool_calls![0] as { id: string; function: { arguments: string } };
  expect(JSON.parse(call.arguments)).toEqual({ city: 'Oslo', more: { days: 2 } });
  const done = await ask(task, ['weather_forecast'], [called, { role: 'tool', tool_call_id: id, content: 'sun' }]);
  expect(done.tool_calls).toBeUndefined();
  expect(done.content).toMatch(/came out:\s+sun\s.*demo model/s);

  // Deferred: a search first. Unknown: said.
  const search = await ask(task, ['tool_search']);
  expect(search.tool_calls).toMatchObject([{ function: { arguments: '{"query":"weather_forecast"}' } }]);
  const found: Messages = [
    search,
    { role: 'tool', tool_call_id: search.tool_calls![0]!.id, content: 'weather_forecast' },
  ];
  expect((await ask(task, ['tool_search'], found)).tool_calls).toMatchObject([
    { function: { name: 'weather_forecast' } },
  ]);
  expect((await ask(task, ['file_list'])).content).toMatch(/need the tool weather_forecast/);
  // Without arguments, and with what is none.
  expect((await ask('call file_list', TOOLS)).tool_calls).toMatchObject([{ function: { arguments: '{}' } }]);
  expect((await ask('call file_list {city: 1}', TOOLS)).content).toMatch(/arguments of file_list are not JSON/);
  expect((await ask('call me when the test is fixed', [])).tool_calls).toBeUndefined();
});

test('it says that it is a demo', async () => {
  const { client, url } = await model();
  const models = await client.models.list();
  expect(models.data.map(({ id, owned_by }) => [id, owned_by])).toContainEqual(['demo', 'yardmaster-demo']);
  const response = await fetch(`${url}/models`);
  expect(response.headers.get('x-yardmaster-demo')).toMatch(/demo/);
});

describe('a malformed history is refused with 400:', () => {
  const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } });
  const user = { role: 'user', content: 'hi' };
  const assistant = (...ids: string[]) => ({ role: 'assistant', content: null, tool_calls: ids.map(call) });
  const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'x' });
  const tagged = { role: 'assistant', content: '<tool_call>{"name":"f","arguments":{}}</tool_call>' };
  const results = { role: 'user', content: '[Tool results]\n<tool_result name="f" status="ok">\nx\n</tool_result>' };
  test.each<[string, unknown[], RegExp]>([
    ['a result without its call', [user, result('a')], /must be a response to a preceding message/],
    ['a call without a result', [user, assistant('a'), user], /did not have response messages: a/],
    ['a call without a result at the end', [user, assistant('a')], /did not have response/],
    ['one result of two', [user, assistant('a', 'b'), result('b'), user], /messages: a/],
    ['a result that comes twice', [user, assistant('a'), result('a'), result('a')], /preceding/],
    ['a result after another message', [user, assistant('a'), user, result('a')], /did not have|preceding/],
    ['the same call id twice', [user, assistant('a', 'a'), result('a')], /same id twice/],
    ['an empty list of calls', [user, { role: 'assistant', content: 'x', tool_calls: [] }], /must not be empty/],
    ['an unknown role', [{ role: 'robot', content: 'x' }], /role/],
    ['an answer of nothing', [user, { role: 'assistant', content: null }], /content' is missing/],
    ['no messages', [], /non-empty/],
    ['results in tags that nobody asked for', [user, results], /must follow/],
    ['calls in tags without results', [user, tagged, user], /do not follow/],
  ])('%s', async (_, messages, message) => {
    const { url, seen } = await model();
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'demo', messages }),
    });
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).toMatch(message);
    expect(seen[0]!.status).toBe(400);
  });

  test('well-formed ones are not', async () => {
    const { url } = await model();
    for (const messages of [
      [user, assistant('a', 'b'), result('b'), result('a')],
      [user, tagged, results],
      [user, { role: 'assistant', content: '' }, user],
    ]) {
      const response = await fetch(`${url}/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'demo', messages }),
      });
      expect(response.status).toBe(200);
    }
  });
});

describe('a script', () => {
  const messages: Messages = [{ role: 'user', content: 'hi' }];

  test('says what comes, one reaction after the other, then the demo goes on', async () => {
    const { client, play, seen } = await model({
      script: [{ text: 'one' }, { status: 429, headers: { 'retry-after': '7' } }],
    });
    const ask = () => client.chat.completions.create({ model: 'demo', messages });
    expect((await ask()).choices[0]!.message.content).toBe('one');
    await expect(ask()).rejects.toMatchObject({ status: 429 });
    expect((await ask()).choices[0]!.message.content).toMatch(/You said: hi/);
    play((request, n) => ({ text: `${request.messages.length} ${n}`, finishReason: 'length' }));
    expect((await ask()).choices[0]).toMatchObject({ finish_reason: 'length', message: { content: '1 0' } });
    expect(seen.map(({ status }) => status)).toEqual([200, 429, 200, 200]);
  });

  test.each<[string, ModelOptions['script']]>([
    ['cut at once', [{ cutAfter: 0 }]],
    ['cut in the middle', [{ text: 'a long answer of many words', cutAfter: 3 }]],
  ])('a stream can be %s', async (_, script) => {
    const { client, seen } = await model({ script: script! });
    const read = async () => {
      let text = '';
      for await (const chunk of await client.chat.completions.create({ model: 'demo', messages, stream: true }))
        text += chunk.choices[0]?.delta.content ?? '';
      return text;
    };
    await expect(read()).rejects.toThrow();
    expect(seen[0]!.abandoned).toBe(false);
  });

  test('a stream can fall silent, end without an end, or be anything', async () => {
    const { url } = await model({
      script: [{ text: 'a b c', hangAfter: 2 }, { text: 'a b c', noEnd: true }, { raw: 'data: {"broken\n\n' }],
    });
    const post = (signal?: AbortSignal) =>
      fetch(`${url}/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'demo', messages, stream: true }),
        ...(signal && { signal }),
      });
    await expect((await post(AbortSignal.timeout(200))).text()).rejects.toThrow(/timeout|abort/i);
    const text = await (await post()).text();
    expect(text).toContain('" c"');
    expect(text).not.toMatch(/DONE|"stop"/);
    expect(await (await post()).text()).toBe('data: {"broken\n\n');
  });

  test('a request that is given up is noticed', async () => {
    const { url, seen } = await model({ script: [{ hang: true }] });
    await fetch(`${url}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'demo', messages }),
      signal: AbortSignal.timeout(50),
    }).catch(() => {});
    await expect.poll(() => seen[0]?.abandoned).toBe(true);
    expect(seen[0]!.status).toBeUndefined();
  });
});

test('models that fail on purpose: for failover, and for a task that must fail', async () => {
  const { client } = await model();
  const ask = (name: string) =>
    client.chat.completions.create({ model: name, messages: [{ role: 'user', content: 'hi' }] });
  await expect(ask('demo-busy')).rejects.toMatchObject({ status: 503 });
  await expect(ask('demo-broken')).rejects.toMatchObject({ status: 500 });
});

test('as a process it prints its address, and ends when its standard input does', async () => {
  const main = new URL('../../dist/demo-model/main.js', import.meta.url).pathname;
  const child = spawn(process.execPath, [main], { stdio: ['pipe', 'pipe', 'inherit'] });
  const { url } = JSON.parse(String((await child.stdout.take(1).toArray())[0])) as { url: string };
  expect((await fetch(`${url}/models`)).status).toBe(200);
  child.stdin.end();
  for (let i = 0; i < 200 && child.exitCode === null; i++) await sleep(20);
  expect(child.exitCode).toBe(0);
});
