import { create } from '@bufbuild/protobuf';
import { type ChatEnd, ChatEndSchema } from '@yardmaster/contracts';
import { expect, it } from 'vitest';
import { isReadAsText, readCalls } from './read-calls.js';

const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }];
const call = '<tool_call>{"name":"look","arguments":{"at":1}}</tool_call>';
const end = (part: object): ChatEnd =>
  create(ChatEndSchema, { dialect: 'native', finishReason: 'stop', ...part } as never);

it('text of a native answer stays text, unless the router says that it may hold calls', () => {
  expect(readCalls(end({ text: call }), tools)).toMatchObject({ text: call, calls: [] });
  expect(readCalls(end({ text: `Hm. ${call}`, marks: { textFallback: 'hermes' } }), tools)).toMatchObject({
    text: 'Hm.',
    calls: [{ name: 'look', arguments: '{"at":1}' }],
  });
  expect(isReadAsText({ dialect: 'native', readWhole: true }, [])).toBe(true);
  expect(isReadAsText({ dialect: 'native' }, tools)).toBe(false);
});

it.each([
  [
    'a call after it',
    `t ${call}</think>${call}`,
    'stop',
    tools,
    { text: '', reasoning: `t ${call}`, calls: [{ name: 'look' }] },
  ],
  ['text after it', 't</think>\n\nhello', 'stop', [], { text: 'hello', reasoning: 't', calls: [] }],
  ['no end', 'hello', 'stop', [], { text: 'hello', reasoning: '', calls: [] }],
  ['no end and a cut', 'hello', 'length', [], { text: '', reasoning: 'hello', calls: [] }],
  ['a call that is never run in it', call, 'stop', tools, { text: call, reasoning: '', calls: [] }],
])(
  'of reasoning that the prompt opened, with %s, the reasoning is told apart',
  (_, text, finishReason, given, wanted) => {
    const marks = { thinkPrefilled: true };
    expect(readCalls(end({ dialect: 'hermes', text, finishReason, marks }), given)).toMatchObject(wanted);
  },
);
