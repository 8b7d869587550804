import { type ChatEnd, newId } from '@yardmaster/contracts';
import { CORE_TEXT_DIALECTS, type Dialect, type ToolDefinition, XmlToolDispatcher } from '@yardmaster/tool-calls';
import type { ChatCall } from './chat-reply.js';

/**
 * Must the whole answer be read before anything of it is shown? Where calls may stand in the text, and where thinking
 * does: in Harmony, and where the router says so.
 */
export const isReadAsText = (
  { dialect, readWhole = false }: { dialect: string; readWhole?: boolean },
  tools: readonly unknown[],
): boolean => dialect === 'harmony' || readWhole || (dialect !== 'native' && tools.length > 0);

/**
 * Text and calls of an answer, read in the dialect that served it: a caller with tools gets calls in the form of this
 * API also from a model that writes them as text. Native calls go through as the provider made them.
 */
export function readCalls(
  end: ChatEnd,
  tools: readonly Record<string, unknown>[],
): { text: string; reasoning: string; calls: ChatCall[] } {
  const native = end.calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
  const { thinkPrefilled = false, textFallback = '' } = end.marks ?? {};
  const asIs = { text: end.text, reasoning: end.reasoning, calls: native };
  if (!isReadAsText({ dialect: end.dialect, readWhole: thinkPrefilled || textFallback !== '' }, tools)) return asIs;
  const dialect = (end.dialect === 'native' ? textFallback : end.dialect) as Dialect;
  const reader = new XmlToolDispatcher({
    dialects: [...new Set([...CORE_TEXT_DIALECTS, dialect])],
    thinkPrefilled,
  });
  const parsed = reader.parseResponse(
    { text: end.text, reasoning: end.reasoning, textFromReasoning: end.marks?.textFromReasoning ?? false },
    // Results come back with these ids, possibly after other answers: so they are unique beyond this one.
    { tools: definitionsOf(tools), turn: newId().slice(-12) },
  );
  // A call that cannot be read stays text: this API has no other way to show it. Thinking is never text.
  if (parsed.calls.length === 0) {
    if (thinkPrefilled) return { ...withoutThinking(end, parsed.reasoning), calls: native };
    return end.dialect === 'harmony' && parsed.errors.length === 0 ? { ...asIs, text: parsed.text } : asIs;
  }
  return {
    text: parsed.text,
    reasoning: thinkPrefilled ? parsed.reasoning : end.reasoning,
    calls: parsed.calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: JSON.stringify(args) })),
  };
}

/**
 * The answer behind the thinking that the prompt opened. Where nothing closed it, all of it is the answer, or, cut by
 * the limit, all of it is thinking.
 */
function withoutThinking({ text, finishReason }: ChatEnd, reasoning: string): { text: string; reasoning: string } {
  const close = /<\/think(?:ing)?\s{0,4}>/i.exec(text);
  if (close !== null) return { text: text.slice(close.index + close[0].length).trimStart(), reasoning };
  return finishReason === 'length' ? { text: '', reasoning } : { text, reasoning: '' };
}

function definitionsOf(tools: readonly Record<string, unknown>[]): ToolDefinition[] {
  return tools.flatMap((tool) => {
    const definition = tool['function'];
    return typeof definition === 'object' && definition !== null ? [definition as ToolDefinition] : [];
  });
}
