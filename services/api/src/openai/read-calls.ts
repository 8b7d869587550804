import { type ChatEnd, newId } from '@yardmaster/contracts';
import { CORE_TEXT_DIALECTS, type Dialect, type ToolDefinition, XmlToolDispatcher } from '@yardmaster/tool-calls';
import type { ChatCall } from './chat-reply.js';

/**
 * Must the whole answer be read before anything of it is shown? Where calls may stand in the text, and in Harmony, whose
 * thinking stands there too.
 */
export const isReadAsText = (dialect: string, tools: readonly unknown[]): boolean =>
  dialect === 'harmony' || (dialect !== 'native' && tools.length > 0);

/**
 * Text and calls of an answer, read in the dialect that served it: a caller with tools gets calls in the form of this
 * API also from a model that writes them as text. Native calls go through as the provider made them.
 */
export function readCalls(
  end: ChatEnd,
  tools: readonly Record<string, unknown>[],
): { text: string; calls: ChatCall[] } {
  const native = end.calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
  if (!isReadAsText(end.dialect, tools)) return { text: end.text, calls: native };
  const reader = new XmlToolDispatcher({ dialects: [...new Set([...CORE_TEXT_DIALECTS, end.dialect as Dialect])] });
  const parsed = reader.parseResponse(
    { text: end.text, reasoning: end.reasoning, textFromReasoning: end.marks?.textFromReasoning ?? false },
    // Results come back with these ids, possibly after other answers: so they are unique beyond this one.
    { tools: definitionsOf(tools), turn: newId().slice(-12) },
  );
  // A call that cannot be read stays text: this API has no other way to show it.
  if (parsed.calls.length === 0)
    return { text: end.dialect === 'harmony' && parsed.errors.length === 0 ? parsed.text : end.text, calls: native };
  return {
    text: parsed.text,
    calls: parsed.calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: JSON.stringify(args) })),
  };
}

function definitionsOf(tools: readonly Record<string, unknown>[]): ToolDefinition[] {
  return tools.flatMap((tool) => {
    const definition = tool['function'];
    return typeof definition === 'object' && definition !== null ? [definition as ToolDefinition] : [];
  });
}
