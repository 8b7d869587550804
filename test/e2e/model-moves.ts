/** What a scripted model does at one turn, in words common to all wires. */
export type Move = { call: string; args: Record<string, unknown> } | { text: string };

export type Message = { role: string; content?: unknown };
export const textOf = (message: Message | undefined): string =>
  typeof message?.content === 'string' ? message.content : JSON.stringify(message?.content ?? '');

/** A call as text of two dialects; `args` is JSON. */
export const hermes = (name: string, args: string) =>
  `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
export const harmony = (name: string, args: string) =>
  `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${args}<|call|>`;

/** The move as a script of the demo model answers it: native, or written in a dialect. */
export const native = (move: Move) =>
  'text' in move ? { text: move.text } : { calls: [{ name: move.call, arguments: move.args }] };
export const written = (move: Move, write: (call: string, args: string) => string) => ({
  text: 'text' in move ? move.text : write(move.call, JSON.stringify(move.args)),
});

const USAGE = { input_tokens: 1, output_tokens: 1 };

/** The body of an answer of Anthropic's Messages API. `id` makes the id of the call. */
export const anthropicAnswer = (move: Move, id: number) => ({
  type: 'message',
  role: 'assistant',
  content:
    'text' in move
      ? [{ type: 'text', text: move.text }]
      : [{ type: 'tool_use', id: `toolu_${id}`, name: move.call, input: move.args }],
  stop_reason: 'text' in move ? 'end_turn' : 'tool_use',
  usage: USAGE,
});

/** The body of an answer of OpenAI's Responses API, after `before` in its output. */
export const responsesAnswer = (move: Move, id: number, ...before: object[]) => ({
  status: 'completed',
  output: [
    ...before,
    'text' in move
      ? { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: move.text }] }
      : { type: 'function_call', call_id: `c${id}`, name: move.call, arguments: JSON.stringify(move.args) },
  ],
  usage: USAGE,
});
