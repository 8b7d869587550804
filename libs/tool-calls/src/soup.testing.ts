import fc from 'fast-check';

/** Pieces of every protocol that is read here, and what hostile or broken text is made of. */
const FRAGMENTS = [
  '<tool_call>',
  '</tool_call>',
  '<toolcall>',
  '<tool-call>',
  '<function_call>',
  '<invoke>',
  '<invoke name="a">',
  '</invoke>',
  '<think>',
  '</think>',
  '<thinking>',
  '</thinking>',
  '<tool_result name="a" status="ok">',
  '</tool_result>',
  '[Tool results]',
  '<function=a>',
  '<function=b>',
  '</function>',
  '<parameter=k>',
  '<parameter=z>',
  '</parameter>',
  '<parameter name="k">',
  '<arg_key>k</arg_key>',
  '<arg_value>',
  '</arg_value>',
  '```',
  '```json',
  '```xml\n',
  '```tool_call\n',
  '```tool a\n',
  '~~~',
  '`',
  '``',
  '{"name":"a","arguments":{"k":"v"}}',
  '{"name":"b","arguments":{}}',
  '<tool_call>{"name":"a","arguments":{"k":1}}</tool_call>',
  '{"name":"a","arguments":',
  '{"name":"zz","arguments":{}}',
  '{',
  '}',
  '[',
  ']',
  '"',
  "'",
  '\\',
  ',',
  ':',
  '\\u00',
  '//',
  '/*',
  '*/',
  'True',
  'null',
  '12345678901234567890',
  '1.0',
  '-',
  '__proto__',
  'constructor',
  '“',
  '”',
  '\ufeff',
  '\u200b',
  '\u0000',
  '\ud800',
  '\udc00',
  '<|im_start|>',
  '<|im_end|>',
  '<|channel|>',
  '<|message|>',
  '<|start|>',
  '<|call|>',
  ' to=functions.a',
  '<|tool_call_begin|>',
  'functions.a:0',
  '<|tool_call_argument_begin|>',
  '<|tool_call_end|>',
  '<｜tool▁call▁begin｜>',
  '<｜tool▁sep｜>',
  '<｜tool▁call▁end｜>',
  '[TOOL_CALLS]',
  '[ARGS]',
  '[a(k=1)]',
  '[a(',
  'k=',
  '\n',
  '\n\n',
  '\n> ',
  '<!--',
  '-->',
  '<|im_start|>user\n',
  '<|start_header_id|>user<|end_header_id|>',
  '<start_of_turn>',
  'user',
  '"name":"b",',
  '"arguments":{},',
  '\r\n',
  ' ',
  '<',
  '<t',
  '</',
  '>',
  'a',
  'word',
  'é',
  '🚀',
];

/** A text of protocol fragments in any order. */
export const soup = (maxLength = 14): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom(...FRAGMENTS), { maxLength }).map((parts) => parts.join(''));

/** Arguments as JSON, with strings of the same soup in them. */
export const soupArguments = (): fc.Arbitrary<Record<string, unknown>> =>
  fc.dictionary(
    fc
      .oneof(fc.constantFrom('k', 'path', 'content'), soup(2))
      .filter((key) => key !== '__proto__' && key !== 'constructor'),
    fc.oneof(
      soup(8),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(soup(3), { maxLength: 3 }),
      fc.record({ x: soup(4), y: fc.array(fc.integer(), { maxLength: 2 }) }),
    ),
    { maxKeys: 4 },
  );

/** A text cut into pieces at arbitrary places. */
export const pieces = (text: string, sizes: readonly number[]): string[] => {
  const result: string[] = [];
  let at = 0;
  for (let index = 0; at < text.length; index++) {
    const size = Math.max(1, sizes[index % sizes.length] ?? 1);
    result.push(text.slice(at, at + size));
    at += size;
  }
  return result;
};

/** An answer that is mostly well-formed: prose, samples, reasoning and calls of every form, with soup in their values. */
export const answer = (): fc.Arbitrary<string> => {
  const json = soupArguments().map((args) => JSON.stringify(args));
  const block = fc.oneof(
    soup(4),
    fc.constantFrom(
      'Some prose. ',
      'First line\nsecond line.\n',
      '\n\n',
      'Use `x` here. ',
      '```js\nlet a = 1;\n```\n',
      '- a\n- b\n',
    ),
    json.map((args) => `<tool_call>\n{"name": "a", "arguments": ${args}}\n</tool_call>\n`),
    json.map((args) => `<tool_call>{'name': "a", "arguments": ${args},}</tool_call>`),
    json.map((args) => `\n\`\`\`tool_call\n{"name":"a","arguments":${args}}\n\`\`\`\n`),
    json.map((args) => `\n\`\`\`xml\n<tool_call>{"name":"a","arguments":${args}}</tool_call>\n\`\`\`\n`),
    soup(5).map(
      (value) => `<tool_call>\n<function=a>\n<parameter=k>\n${value}\n</parameter>\n</function>\n</tool_call>\n`,
    ),
    soup(5).map((value) => `\n<function=a>\n<parameter=k>\n${value}\n</parameter>\n</function>\n`),
    soup(5).map((value) => `<invoke name="a">\n<parameter name="k">${value}</parameter>\n</invoke>`),
    soup(5).map((value) => `<tool_call>a\n<arg_key>k</arg_key>\n<arg_value>${value}</arg_value>\n</tool_call>`),
    json.map((args) => `<|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>${args}<|tool_call_end|>`),
    json.map((args) => `<｜tool▁call▁begin｜>a<｜tool▁sep｜>${args}<｜tool▁call▁end｜>`),
    json.map((args) => `[TOOL_CALLS][{"name":"a","arguments":${args}}]`),
    json.map((args) => `<tool_call>{"name":"a","arguments":{"k":"\\q ${args.replaceAll('"', '\\"')}"}}</tool_call>`),
    json.map(
      (args) => `<|channel|>commentary to=functions.a<|message|>{"k":"\\q ${args.replaceAll('"', '\\"')}"}<|call|>`,
    ),
    soup(6).map((thought) => `<think>${thought}</think>`),
    json.map(
      (args) => `<|start|>assistant<|channel|>commentary to=functions.a <|constrain|>json<|message|>${args}<|call|>`,
    ),
    soup(3).map((text) => `<|start|>assistant<|channel|>final<|message|>${text}<|end|>`),
    soup(3).map((text) => `<|channel|>analysis<|message|>${text}<|end|>`),
  );
  return fc.array(block, { maxLength: 6 }).map((blocks) => blocks.join(''));
};
