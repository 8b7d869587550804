import type { AssistantToolCalls, ChatTurn, ConversationMessage, ToolResults } from '@yardmaster/contracts';

/** What a user says. */
export const userTurn = (content: ChatTurn['content']): ChatTurn => ({ type: 'chat', role: 'user', content });

/** What the model says, without tools. */
export const assistantTurn = (content: string): ChatTurn => ({ type: 'chat', role: 'assistant', content });

/** What the model asks for: `callTurn(['file_read', { path: 'a' }], …)`. Ids are `call_0`, `call_1`, … */
export function callTurn(...calls: [name: string, args: Record<string, unknown>][]): AssistantToolCalls {
  return {
    type: 'assistant_tool_calls',
    text: null,
    tool_calls: calls.map(([name, args], i) => ({ id: `call_${i}`, name, arguments: JSON.stringify(args) })),
    reasoning_content: null,
  };
}

/** The results of such a turn, in its order; an Error is a failed one. */
export function resultTurn(turn: AssistantToolCalls, ...outputs: (string | Error)[]): ToolResults {
  return {
    type: 'tool_results',
    results: turn.tool_calls.map(({ id, name }, i) => {
      const output = outputs[i] ?? '';
      return output instanceof Error
        ? { tool_call_id: id, name, content: output.message, ok: false }
        : { tool_call_id: id, name, content: output, ok: true };
    }),
  };
}

/** A conversation of `rounds` tool rounds, each of about `bytes` bytes, that ends with an answer. */
export function longConversation(rounds: number, bytes = 1000): ConversationMessage[] {
  return Array.from({ length: rounds }, (_, i) => {
    const call = callTurn(['file_read', { path: `file-${i}.txt` }]);
    return [userTurn(`question ${i}`), call, resultTurn(call, 'x'.repeat(bytes)), assistantTurn(`answer ${i}`)];
  }).flat();
}
