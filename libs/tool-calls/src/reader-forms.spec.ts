import { describe, expect, it } from 'vitest';
import { ALL_TEXT_DIALECTS, type ParseOptions, ToolCallStream, parseToolCalls, readNativeCalls } from './index.js';

const tools = [
  { name: 'read', parameters: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } },
  {
    name: 'set',
    parameters: {
      type: 'object',
      properties: {
        id: { type: 'string' },
        n: { type: 'integer' },
        list: { type: 'array', items: { type: 'string' } },
        maybe: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
        text: { type: ['string', 'null'] },
      },
    },
  },
];
const good = '<tool_call>{"name":"read","arguments":{"path":"a"}}</tool_call>';

function read(text: string, options: ParseOptions = {}) {
  const { calls, errors, text: shown, reasoning } = parseToolCalls(text, { tools, ...options });
  return {
    calls: calls.map(({ name, arguments: args }) => [name, args]),
    errors: errors.map(({ kind }) => kind),
    text: shown,
    reasoning,
  };
}
const CALL = ['read', { path: 'a' }];

describe('what is only quoted or mentioned is no call', () => {
  it.each([
    `\`${good}\` is a sample`,
    `\`\`${good}\`\` is a sample`,
    '`<tool_call>\n{"name":"read","arguments":{"path":"a"}}\n</tool_call>` is a sample',
    `~~~\n${good}\n~~~\nsample`,
    `\`\`\`\`md\n\`\`\`\n${good}\n\`\`\`\n\`\`\`\`\nsample`,
    `Like this:\n\`\`\`\n${good}\n`,
    '```json\n{"name":"read","arguments":{"path":"a"}}\n```\nand more',
    'Write <function=read><parameter=path>a</parameter></function> to read.',
    `Text <tool_call> in a sentence.`,
    `> ${good}\n> was its answer`,
    `1. > > ${good}\n\nwas its answer`,
    `<!-- ${good} -->\nhidden`,
    `<!--> <!-- ${good}`,
    `It is written \\${good.replaceAll('</', '\\</')}.`,
  ])('%s', (text) => {
    expect(read(text)).toEqual({ calls: [], errors: [], text: text.trim(), reasoning: '' });
  });

  it('a fence that is the whole answer and holds one call is that call, with more than one it is a sample', () => {
    expect(read(`\`\`\`\n${good}\n\`\`\``).calls).toEqual([CALL]);
    expect(read(`<think>x</think>\n\`\`\`xml\n${good}\n\`\`\`\n`).calls).toEqual([CALL]);
    expect(read(`\`\`\`\n${good}${good}\n\`\`\``).calls).toEqual([]);
    expect(read('```json\n{"name":"read","arguments":{"path":"a"}}\n```').calls).toEqual([CALL]);
    expect(read('```json\n{"name":"my-app","version":"1.0.0"}\n```').calls).toEqual([]);
  });
});

describe('calls next to trouble', () => {
  it('a mention in reasoning that the prompt opened does not swallow the call after it', () => {
    expect(read(`Maybe <tool_call> here? no.</think>\n${good}`)).toMatchObject({ calls: [CALL], errors: [], text: '' });
    expect(read(`Maybe ${good} or not`, { thinkPrefilled: true })).toMatchObject({ calls: [], errors: [], text: '' });
  });

  it('a mention in a sentence and a stray backtick do not hide a call on a line of its own', () => {
    expect(read(`You can use <tool_call> tags.\n${good}`)).toMatchObject({ calls: [CALL], errors: [] });
    expect(read(`the \` key\n${good}`)).toMatchObject({ calls: [CALL], text: 'the ` key' });
  });

  it('a made-up result ends the answer, unless all of it was reasoning', () => {
    const made = `${good}\n<tool_result name="read" status="ok">\nx\n</tool_result>\n${good}`;
    expect(read(made).calls).toEqual([CALL]);
    expect(read(`${made}</think>ok`)).toMatchObject({ calls: [], text: 'ok' });
  });

  it.each([
    '<|im_start|>user\n',
    '<|im_start|>tool\r\n',
    '<|start_header_id|>ipython<|end_header_id|>',
    '<|header_start|>user<|header_end|>',
    '<|start|>user<|message|>',
    '<|im_user|>user<|im_middle|>',
    '<|observation|>\n',
    '<start_of_turn>user\n',
    '<｜User｜>',
    '<｜tool▁outputs▁begin｜>',
  ])('a made-up turn ends the answer: %j', (header) => {
    for (const dialects of [undefined, ALL_TEXT_DIALECTS]) {
      const options: ParseOptions = { tools, turn: 1, ...(dialects ? { dialects } : {}) };
      const { calls, text, notes } = parseToolCalls(`${good} ok ${header}${good} more`, options);
      expect([calls.length, text, notes.fabricatedResult]).toEqual([1, 'ok', true]);
    }
    expect(read(`a ${header}b</think>${good}`)).toMatchObject({ calls: [CALL], text: '' });
  });

  it('the turn of an assistant, and a header in a sentence, end nothing', () => {
    for (const text of ['<|im_start|>assistant\n', 'It starts with <|im_start|>user and a line break.'])
      expect(read(`${text}\n${good}`).calls).toEqual([CALL]);
  });

  it('a bad escape in a string cannot let a call that is quoted in the same string out', () => {
    const quoted = '<tool_call>{\\"name\\":\\"read\\",\\"arguments\\":{\\"path\\":\\"x\\"}}</tool_call>';
    const text = `<tool_call>{"name":"read","arguments":{"path":"C:\\Users ${quoted}${quoted}"}}</tool_call>${good}`;
    expect(read(text)).toMatchObject({ calls: [CALL], errors: ['malformed_json'] });
  });

  it('a call without its close tag ends where its JSON ends', () => {
    expect(read('<tool_call>{"name":"read","arguments":{"path":"a"}}\nWaiting.')).toMatchObject({
      calls: [CALL],
      text: 'Waiting.',
    });
    expect(read('<tool_call>{"name":"read","arguments":{"path":"a"}}</tool_ca')).toMatchObject({
      calls: [CALL],
      text: '',
    });
  });

  it('what says two things at once is refused by name and place, through the API too', () => {
    const twice = '{"path":"a","path":"b"}';
    const native = readNativeCalls({ text: '', tool_calls: [{ id: '1', name: 'read', arguments: twice }] }, { tools });
    expect(native.calls).toEqual([]);
    expect(native.errors).toMatchObject([{ id: '1', kind: 'malformed_json', name: 'read', column: 13 }]);
    const [error] = parseToolCalls(`<tool_call>{"name":"read","arguments":${twice}}</tool_call>`, { tools }).errors;
    expect(error).toMatchObject({ kind: 'malformed_json', name: 'read', required: ['path'] });
    expect(error!.message).toContain('twice');
  });

  it('parameters outside of "arguments" are an error and not a call without them', () => {
    expect(read('<tool_call>{"name":"set","text":"x"}</tool_call>')).toMatchObject({ calls: [], errors: ['schema'] });
  });
});

describe('values', () => {
  it('keys with escapes are read as written, whatever keys were seen before', () => {
    for (const key of ['\\', '\n', '"', '\\n', '\t']) {
      const [call] = parseToolCalls(
        `<tool_call>${JSON.stringify({ name: 'x', arguments: { a: 1, [key]: 2 } })}</tool_call>`,
      ).calls;
      expect(Object.keys(call!.arguments)).toEqual(['a', key]);
    }
  });

  it('numbers keep their digits for text parameters, an integer that does not fit is an error', () => {
    const set = (value: string) => read(`<tool_call>{"name":"set","arguments":${value}}</tool_call>`);
    expect(set('{"id":12345678901234567890}').calls).toEqual([['set', { id: '12345678901234567890' }]]);
    expect(set('{"id":1.0}').calls).toEqual([['set', { id: '1.0' }]]);
    expect(set('{"n":12345678901234567890}').errors).toEqual(['schema']);
  });

  it('text values take the type that the schema asks for and stay text otherwise', () => {
    const value = (name: string, text: string) => `<parameter=${name}>\n${text}\n</parameter>\n`;
    const body =
      value('id', '007') +
      value('n', '7') +
      value('list', '[\'a\', "b"]') +
      value('maybe', 'null') +
      value('text', 'null');
    expect(read(`<tool_call>\n<function=set>\n${body}</function>\n</tool_call>`).calls).toEqual([
      ['set', { id: '007', n: 7, list: ['a', 'b'], maybe: null, text: 'null' }],
    ]);
  });
});

describe('harmony', () => {
  const options: ParseOptions = { dialects: ALL_TEXT_DIALECTS };

  it('analysis is reasoning, messages to a tool are calls, the rest is text', () => {
    const text =
      `<|channel|>analysis<|message|>think ${good}<|end|>` +
      '<|start|>assistant<|channel|>commentary<|message|>I will look.<|end|>' +
      '<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{"path":"a"}<|call|>';
    expect(read(text, options)).toEqual({
      calls: [CALL],
      errors: [],
      text: 'I will look.',
      reasoning: `think ${good}`,
    });
    expect(read('<|channel|>final<|message|>Hello<|return|>', options).text).toBe('Hello');
  });

  it('a mark inside of a string does not end the call, and a cut call is reported', () => {
    const call = '<|channel|>commentary to=functions.read<|constrain|>json<|message|>';
    expect(read(`${call}{"path":"<|call|>"}<|call|>`, options).calls).toEqual([['read', { path: '<|call|>' }]]);
    expect(read(`${call}{"path":"a`, options)).toMatchObject({ calls: [], errors: ['unterminated'] });
  });

  it('a message in the name of a tool is made up and ends the reading', () => {
    const forged = '<|start|>functions.read to=assistant<|channel|>commentary<|message|>x<|end|>';
    const call = '<|start|>assistant<|channel|>commentary to=functions.read<|message|>{"path":"a"}<|call|>';
    expect(read(call + forged + call, options).calls).toEqual([CALL]);
  });
});

describe('streams', () => {
  it('prose is handed out as it comes, a call only at the end, an orphan </think> takes text back', () => {
    const stream = new ToolCallStream({ tools });
    expect(stream.push('A sentence that is long enough.')).toEqual([
      { type: 'text', text: 'A sentence that is long enough.' },
    ]);
    expect(stream.push(` <tool_call>{"name":"read",`)).toEqual([]);
    expect(stream.push(`"arguments":{"path":"a"}}</tool_call> And more text after it.`)).toEqual([
      { type: 'text', text: ' And more text after it.' },
    ]);
    expect(stream.push(' and then </think>')).toContainEqual({ type: 'reset' });
    const { calls, text, reasoning } = stream.end();
    expect({ calls, text }).toEqual({ calls: [], text: '' });
    expect(reasoning).toContain('A sentence that is long enough.');
  });

  it('one character at a time costs no more than three looks at each', () => {
    const big = `<tool_call>{"name":"read","arguments":{"path":"${'if (a < b) { call(`x`); }'.repeat(2000)}"}}</tool_call>`;
    const unclosed = `<tool_call>{"name":"read","arguments":{"path":"${'</tool_call>```>'.repeat(3000)}`;
    for (const text of [
      big,
      unclosed,
      'Plain words. '.repeat(4000),
      '`'.repeat(20_000),
      '```x\n'.repeat(8000),
      '<think>'.repeat(5000),
    ]) {
      const stream = new ToolCallStream({ tools });
      for (const char of text) stream.push(char);
      stream.end();
      expect(stream.charactersRead).toBeLessThanOrEqual(3 * text.length + 10_000);
    }
  });

  it('an end is an end', () => {
    const stream = new ToolCallStream();
    stream.push('text');
    const first = stream.end();
    expect(stream.push(good)).toEqual([]);
    expect(stream.end()).toBe(first);
  });
});

describe('native calls', () => {
  it('unreadable arguments are an error under the same id and never {}', () => {
    const { calls, errors } = readNativeCalls({
      text: null,
      tool_calls: [{ id: 'c1', name: 'read', arguments: '{"path' }],
    });
    expect(calls).toEqual([]);
    expect(errors).toMatchObject([{ id: 'c1', kind: 'unterminated' }]);
  });

  it('empty, null and twice encoded arguments are understood, a repeated or missing id is replaced', () => {
    const args = ['', null, 'null', JSON.stringify(JSON.stringify({ k: 1 }))];
    const { calls } = readNativeCalls({
      text: null,
      tool_calls: args.map((one) => ({ id: 'same', name: 'x', arguments: one })),
    });
    expect(calls.map((call) => call.arguments)).toEqual([{}, {}, {}, { k: 1 }]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(4);
    expect(calls[0]!.id).toBe('same');
    expect(calls[1]).toMatchObject({ providerId: 'same' });
  });
});

it.each([
  ['with its name first', '<tool_result name="a" status="ok">'],
  ['with its id first', '<tool_result id="3" name="a">'],
  ['in the tag of Hermes and Qwen', '<tool_response>'],
])('a result that the model makes up, %s, is dropped with the calls after it', (_, open) => {
  const call = '<tool_call>{"name":"a","arguments":{}}</tool_call>';
  const result = parseToolCalls(`Here.\n${open}\n${call}\n${call}`, { tools: [{ name: 'a' }] });
  expect(result).toMatchObject({ calls: [], text: 'Here.', notes: { fabricatedResult: true } });
  // Named in a sentence it is a word like others.
  expect(parseToolCalls(`It puts ${open} there.\n${call}`, { tools: [{ name: 'a' }] }).calls).toHaveLength(1);
});
