import type { ChatEnd } from '@yardmaster/contracts';
import type { ChatCall } from './chat-reply.js';

/** Text and calls of an answer, read in the dialect that served it. */
export function readCalls(
  end: ChatEnd,
  _tools: readonly Record<string, unknown>[],
): { text: string; calls: ChatCall[] } {
  return { text: end.text, calls: end.calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args })) };
}
