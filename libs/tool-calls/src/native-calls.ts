import { withIds } from './answer-sink.js';
import { checkCall } from './check-call.js';
import { ToolSet } from './tool-set.js';
import { type ParsedToolCall, type ParseResult, type ToolCallError, type ToolDefinition } from './types.js';

/** A call as a provider's API reports it; `arguments` is JSON text or, from some servers, an object. */
export interface NativeToolCall {
  id?: string | null;
  name: string;
  arguments?: unknown;
}

export interface NativeAnswer {
  text: string | null;
  reasoning?: string | null;
  tool_calls: readonly NativeToolCall[];
}

/**
 * Reads the calls of a provider's own field. Empty or absent arguments are `{}`; arguments that cannot be read are an
 * error under the same id and never `{}`, or the tool would run with nothing and call it a success. The text is not
 * searched for calls.
 */
export function readNativeCalls(
  answer: NativeAnswer,
  options: { tools?: ToolSet | readonly ToolDefinition[]; turn?: string | number } = {},
): ParseResult {
  const { tools } = options;
  const set = tools === undefined || tools instanceof ToolSet ? tools : new ToolSet(tools);
  const found: (Omit<ParsedToolCall, 'id'> & { id?: string })[] = [];
  const errors: ToolCallError[] = [];
  const repairs: Record<string, number> = {};
  for (const call of answer.tool_calls) {
    const args = call.arguments;
    const input = typeof args === 'string' ? args : (safeStringify(args) ?? '');
    const id = call.id === null || call.id === undefined ? {} : { id: call.id };
    const name = typeof call.name === 'string' ? call.name : '';
    const plain = typeof args === 'string' || args === null ? args : withoutForbiddenKeys(input, args);
    const checked = checkCall({ name, args: plain, input, ...id }, set, 2);
    if ('error' in checked) errors.push(checked.error);
    else {
      found.push({ ...checked.call, ...id });
      for (const rule of checked.repairs) repairs[rule] = (repairs[rule] ?? 0) + 1;
    }
  }
  return {
    text: answer.text ?? '',
    reasoning: answer.reasoning ?? '',
    calls: withIds(found, String(options.turn ?? 1)),
    errors,
    notes: { repairs, callsInReasoning: 0, quotedCallsIgnored: 0, fabricatedResult: false, errorsDropped: 0 },
  };
}

/** Arguments that come as an object get the same treatment as those that come as text. */
function withoutForbiddenKeys(text: string, args: unknown): unknown {
  return text.includes('__proto__') || text.includes('constructor') ? text : args;
}

function safeStringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
