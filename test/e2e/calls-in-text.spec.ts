import { existsSync } from 'node:fs';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Stack, startStack, wellFormed } from './harness.js';

const writes = (path: string) =>
  `<tool_call>\n${JSON.stringify({ name: 'file_write', arguments: { path, content: path } })}\n</tool_call>`;
const asked = (messages: readonly { role: string; content?: unknown }[]) =>
  String(
    messages.findLast(
      (message) =>
        message.role === 'user' && !/tool_result|Nothing was run|nothing was run/.test(String(message.content)),
    )?.content,
  );
const results = (messages: readonly { role: string }[]) => messages.filter(({ role }) => role === 'tool').length;

/** Answers of a model whose template opens the think block in the prompt. */
function thinking(text: string, has: boolean) {
  if (has) return { text: 'That went well.\n</think>\n\ndone' };
  if (text.startsWith('cut')) return { text: `I should write ${writes('cut.txt')} and then`, finishReason: 'length' };
  if (text.startsWith('hello')) return { text: 'Greet back.\n</think>\n\nHello!' };
  return { text: `I could write ${writes('thought.txt')} now.\n</think>\n\nNow:\n${writes('meant.txt')}` };
}

const spoken = (messages: readonly { role: string; content?: unknown }[]) =>
  asked(messages).startsWith('write') && results(messages) === 0
    ? { text: `Writing.\n${writes('spoken.txt')}` }
    : undefined;

let yard: Stack;
let openai: OpenAI;
beforeAll(async () => {
  yard = await startStack(
    {
      thinker: {
        native: false,
        models: ['demo'],
        think_prefilled: true,
        script: ({ messages }) => thinking(asked(messages), JSON.stringify(messages).includes('<tool_result name=')),
      },
      'native-thinker': {
        native: true,
        models: ['demo'],
        think_prefilled: true,
        script: ({ messages }) => thinking(asked(messages), false),
      },
      strict: { native: true, models: ['demo'], script: ({ messages }) => spoken(messages) },
      lenient: {
        native: true,
        models: ['demo'],
        text_fallback: true,
        script: ({ messages }) =>
          spoken(messages) ?? (results(messages) > 0 ? { status: 503, body: 'overloaded' } : { text: 'again' }),
      },
      backup: {
        native: true,
        models: ['demo'],
        script: ({ messages }) =>
          results(messages) === 1
            ? { calls: [{ name: 'file_read', arguments: { path: 'spoken.txt' } }] }
            : { status: 503, body: 'overloaded' },
      },
      xml: {
        native: false,
        models: ['demo'],
        script: ({ messages }) => {
          const text = JSON.stringify(messages);
          const seen = ['file_write', 'file_read'].every((name) => text.includes(`tool_result name=\\"${name}`));
          return { text: seen ? 'saw both' : `saw ${text}` };
        },
      },
    },
    {
      agents: Object.fromEntries([
        ...['thinker', 'native-thinker', 'strict'].map((name) => [name, { providers: [name] }]),
        ['lenient', { providers: ['lenient', 'backup', 'xml'] }],
      ]),
      routing: { providers: ['thinker'] },
    },
  );
  openai = new OpenAI({ baseURL: `${yard.url}/v1`, apiKey: yard.key, maxRetries: 0 });
});
afterAll(() => yard?.stop());

const toolsOf = async (run: string) =>
  (await yard.events(run))
    .filter(({ type }) => type === 'tool.completed')
    .map(({ data }) => [data['name'], data['ok']]);

describe('where the prompt opens the reasoning', () => {
  it('a call before its end is not run, and the one after it is', async () => {
    const done = await yard.settled((await yard.start({ input: 'think first', agent: 'thinker' })).id);
    expect(done).toMatchObject({ state: 'completed', output: 'done' });
    expect(await toolsOf(done.id)).toEqual([['file_write', true]]);
    expect(existsSync(yard.file('meant.txt'))).toBe(true);
    expect(existsSync(yard.file('thought.txt'))).toBe(false);
  });

  it.each(['thinker', 'native-thinker'])('an answer of %s that is cut before its end runs nothing', async (agent) => {
    const done = await yard.settled((await yard.start({ input: 'cut', agent })).id);
    expect(done.state).toBe('incomplete');
    expect(await toolsOf(done.id)).toEqual([]);
    expect(existsSync(yard.file('cut.txt'))).toBe(false);
  });

  it('a model with native calls is shown without its thoughts too', async () => {
    const done = await yard.settled((await yard.start({ input: 'hello', agent: 'native-thinker' })).id);
    expect(done).toMatchObject({ state: 'completed', output: 'Hello!' });
  });

  it('the compatible API gives the answer, and the thoughts beside it', async () => {
    const request = { model: 'demo', messages: [{ role: 'user' as const, content: 'hello' }] };
    const { message } = (await openai.chat.completions.create(request)).choices[0]!;
    expect(message).toMatchObject({ content: 'Hello!', reasoning_content: 'Greet back.' });
    let text = '';
    for await (const { choices } of await openai.chat.completions.create({ ...request, stream: true }))
      text += choices[0]?.delta.content ?? '';
    expect(text).toBe('Hello!');
  });
});

describe('calls that a model with native calls writes as text', () => {
  it('are text, unless the provider entry says otherwise', async () => {
    const done = await yard.settled((await yard.start({ input: 'write it', agent: 'strict' })).id);
    expect(done).toMatchObject({ state: 'completed', output: `Writing.\n${writes('spoken.txt')}` });
    expect(await toolsOf(done.id)).toEqual([]);
    expect(existsSync(yard.file('spoken.txt'))).toBe(false);
  });

  it('are run with text_fallback, and every provider that takes over sees them in its own form', async () => {
    const done = await yard.settled((await yard.start({ input: 'write it', agent: 'lenient' })).id);
    expect(done).toMatchObject({ state: 'completed', output: 'saw both' });
    expect(await toolsOf(done.id)).toEqual([
      ['file_write', true],
      ['file_read', true],
    ]);
    const used = (await yard.events(done.id))
      .filter(({ type }) => type === 'usage')
      .map(({ data }) => data['provider']);
    expect(used).toEqual(['lenient', 'backup', 'xml']);
    const seen = yard.models['backup']!.seen[0]!.body.messages;
    const written = seen.find((message) => message.role === 'assistant') as unknown as {
      content: string;
      tool_calls: { id: string }[];
    };
    expect(written.content).toBe('Writing.');
    expect(seen.find((message) => message.role === 'tool')).toMatchObject({ tool_call_id: written.tool_calls[0]!.id });

    const history = async () =>
      (
        (await (await yard.api(`/v1/conversations/${done.conversation_id}/messages?limit=100`)).json()) as {
          items: { message?: unknown }[];
        }
      ).items.map((item) => (item.message ?? item) as Parameters<typeof wellFormed>[0][number]);
    expect(wellFormed(await history())).toBe(true);

    // A second run begins at step 1 again; its ids are others all the same.
    const again = { input: 'write it', agent: 'thinker', conversation_id: done.conversation_id };
    expect(await yard.settled((await yard.start(again)).id)).toMatchObject({ state: 'completed' });
    const ids = (await history()).flatMap((item) => item.tool_calls?.map(({ id }) => id) ?? []);
    expect(new Set(ids).size).toBe(ids.length);
  });
});
