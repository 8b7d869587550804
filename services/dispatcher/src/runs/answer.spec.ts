import { create } from '@bufbuild/protobuf';
import { type ChatEnd, ChatEndSchema, type Tool, ToolSchema } from '@yardmaster/contracts';
import { NO_REPAIRS, ToolSet } from '@yardmaster/tool-calls';
import { expect, it } from 'vitest';
import { type AnswerContext, interpret } from './answer.js';

const schema = {
  type: 'object',
  properties: { path: { type: 'string' } },
  required: ['path'],
  additionalProperties: false,
};
const tool: Tool = create(ToolSchema, {
  name: 'file_read',
  description: 'Reads.',
  parametersJson: JSON.stringify(schema),
  kind: 'files',
  effect: 'read',
  hash: 'h',
  timeoutMs: 1000,
});
const context: AnswerContext = {
  step: 2,
  historySeq: 7,
  tools: new Map([['file_read', tool]]),
  toolSet: new ToolSet([{ name: 'file_read', description: 'Reads.', parameters: schema }]),
  repair: NO_REPAIRS,
};
const answer = (part: Partial<ChatEnd>) =>
  create(ChatEndSchema, { provider: 'p', model: 'm', dialect: 'native', finishReason: 'stop', ...part } as never);
const call = (id: string, name: string, args: string, index = 0) => ({ index, id, name, arguments: args }) as never;

it('an answer without calls is final', () => {
  expect(interpret(answer({ text: 'done' }), context)).toMatchObject({ kind: 'final', text: 'done' });
});

it('a native call becomes a pending call with an identity of ours and the id of the provider', () => {
  const reading = interpret(answer({ calls: [call('abc', 'file_read', '{"path":"a"}')] }), context);
  expect(reading).toMatchObject({
    kind: 'calls',
    calls: [{ call: '2-0', providerId: 'abc', kind: 'files', historySeq: 7, argumentsJson: '{"path":"a"}' }],
    message: { tool_calls: [{ id: 'abc', name: 'file_read' }] },
    answers: {},
  });
});

it('the same call written as text is read in the dialect of the attempt', () => {
  const text = 'Look. <tool_call>{"name":"file_read","arguments":{"path":"a"}}</tool_call>';
  const reading = interpret(answer({ text, dialect: 'hermes' }), context);
  expect(reading).toMatchObject({ kind: 'calls', message: { text: 'Look.' }, calls: [{ name: 'file_read' }] });
});

it('a bad native call is answered in its place, and the good one beside it runs', () => {
  const calls = [call('x', 'file_read', '{"path":'), call('y', 'file_read', '{"path":"b"}', 1)];
  const reading = interpret(answer({ calls }), context);
  expect(reading).toMatchObject({
    kind: 'calls',
    calls: [
      { providerId: 'x', kind: 'none' },
      { providerId: 'y', kind: 'files' },
    ],
  });
  if (reading.kind !== 'calls') return;
  expect(reading.answers['2-0']?.output).toContain('Nothing was run');
  // What cannot be parsed must not stand in a history that providers parse.
  expect(JSON.parse(reading.message.tool_calls[0]!.arguments)).toEqual({});
});

it('a call that cannot be read as text is fed back, and twice the same mistake ends the run', () => {
  const bad = answer({ text: '<tool_call>{"name": file_read}', dialect: 'hermes' });
  const first = interpret(bad, context);
  expect(first).toMatchObject({ kind: 'repair' });
  if (first.kind !== 'repair') return;
  expect(first.feedback).toContain('Nothing was run');
  expect(interpret(bad, { ...context, repair: first.repair })).toMatchObject({ kind: 'gave_up' });
});

it('text that is shown reasoning is never searched for calls', () => {
  const text = '<tool_call>{"name":"file_read","arguments":{"path":"a"}}</tool_call>';
  const marks = { textFromReasoning: true } as never;
  expect(interpret(answer({ text, dialect: 'hermes', marks }), context).kind).toBe('final');
});

it('a call in reasoning that the prompt opened is not run, the one after it is', () => {
  const call = (path: string) => `<tool_call>{"name":"file_read","arguments":{"path":"${path}"}}</tool_call>`;
  const text = `I could write ${call('bad')} here.\n</think>\n${call('good')}`;
  const marks = { thinkPrefilled: true } as never;
  const reading = interpret(answer({ text, dialect: 'hermes', marks }), context);
  expect(reading).toMatchObject({ kind: 'calls', calls: [{ argumentsJson: '{"path":"good"}' }] });
  expect(reading.found.notes.callsInReasoning).toBe(1);
  // Without an end of the reasoning there is nothing but reasoning, also where it was cut.
  for (const finishReason of ['stop', 'length'])
    expect(interpret(answer({ text: call('bad'), dialect: 'hermes', marks, finishReason }), context)).toMatchObject({
      kind: 'repair',
      feedback: expect.stringContaining('inside your reasoning') as string,
    });
  // A model that never thought: what it said is the answer. One that was cut said nothing.
  const plain = { text: 'Forty-two.', dialect: 'hermes', marks };
  expect(interpret(answer(plain), context)).toMatchObject({ kind: 'final', text: 'Forty-two.' });
  expect(interpret(answer({ ...plain, finishReason: 'length' }), context)).toMatchObject({ kind: 'final', text: '' });
});

it('text of a native answer is searched for calls only where the provider entry says so', () => {
  const text = 'Look. <tool_call>{"name":"file_read","arguments":{"path":"a"}}</tool_call>';
  expect(interpret(answer({ text }), context)).toMatchObject({ kind: 'final', text });
  const marks = { textFallback: 'hermes' } as never;
  expect(interpret(answer({ text, marks }), context)).toMatchObject({
    kind: 'calls',
    message: { text: 'Look.', tool_calls: [{ id: 'call_7_1' }] },
    calls: [{ name: 'file_read' }],
  });
  // Next to native calls text stays text.
  const both = { text, marks, calls: [call('abc', 'file_read', '{"path":"b"}')] };
  expect(interpret(answer(both), context)).toMatchObject({
    kind: 'calls',
    message: { text },
    calls: [{ providerId: 'abc' }],
  });
});

it('thinking blocks are kept beside the message that they belong to, with and without calls', () => {
  const blocks = [{ type: 'thinking', thinking: 'hm', signature: 's' }];
  const thinkingBlocksJson = JSON.stringify(blocks);
  const calls = [call('abc', 'file_read', '{"path":"a"}')];
  expect(interpret(answer({ calls, thinkingBlocksJson }), context).message).toMatchObject({ thinking_blocks: blocks });
  expect(interpret(answer({ text: 'done', thinkingBlocksJson }), context).message).toMatchObject({
    thinking_blocks: blocks,
  });
  expect(interpret(answer({ text: 'done' }), context).message).not.toHaveProperty('thinking_blocks');
});
