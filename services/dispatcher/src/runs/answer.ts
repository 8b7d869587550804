import type { PendingCall } from '@yardmaster/conversation';
import {
  type AssistantToolCalls,
  type ChatEnd,
  type ConversationMessage,
  type Effect,
  type StoredToolCall,
  type Tool,
} from '@yardmaster/contracts';
import {
  type ParsedToolCall,
  readAnswer,
  repairFeedback,
  type ToolCallError,
  type ToolDefinition,
} from '@yardmaster/tool-calls';
import { argsHashOf, newNonce } from './args-hash.js';

/** What an answer of a model comes to. */
export type Reading =
  | { kind: 'final'; text: string; message: ConversationMessage }
  /** Calls to run, or at least to answer; `feedback` follows the results where a call had no readable form. */
  | {
      kind: 'calls';
      message: AssistantToolCalls;
      calls: PendingCall[];
      answers: Record<string, { output: string; reason: string }>;
      feedback: string | undefined;
      /** What was wrong, for the count of repair rounds; undefined when nothing was. */
      repair: string | undefined;
    }
  /** Nothing that can be stored as a call: the answer as it was, and what to say to it. */
  | { kind: 'repair'; message: ConversationMessage; feedback: string; repair: string };

export interface AnswerContext {
  step: number;
  /** Sequence that the assistant message will have. */
  historySeq: number;
  /** The tools that this run may call, by the name that the model knows. */
  tools: ReadonlyMap<string, Tool>;
  definitions: readonly ToolDefinition[];
}

/** Reads the answer in the dialect that the router says served it. */
export function interpret(end: ChatEnd, context: AnswerContext): Reading {
  const served = { provider: end.provider, model: end.model, dialect: end.dialect };
  const parsed = readAnswer({
    text: end.text,
    reasoning: end.reasoning,
    toolCalls: end.calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args })),
    finishReason: end.finishReason,
    dialect: end.dialect,
    textFromReasoning: end.marks?.textFromReasoning ?? false,
    tools: context.definitions,
    turn: context.step,
  });
  const reasoning = parsed.reasoning === '' ? null : parsed.reasoning;
  if (parsed.calls.length === 0 && parsed.errors.length === 0)
    return {
      kind: 'final',
      text: parsed.text,
      message: { type: 'chat', role: 'assistant', content: parsed.text, reasoning_content: reasoning, served },
    };

  const stored: StoredToolCall[] = [];
  const calls: PendingCall[] = [];
  const answers: Record<string, { output: string; reason: string }> = {};
  const unreadable: ToolCallError[] = [];
  for (const item of inOrder(parsed.calls, parsed.errors, end)) {
    const id = `${context.step}-${calls.length}`;
    if ('arguments' in item) {
      calls.push(pendingOf(item, id, context));
      stored.push({ id: item.id, name: item.name, arguments: JSON.stringify(item.arguments) });
      continue;
    }
    // A native call must be answered under its id, however it was written; a text without readable form has none.
    if (item.id === undefined) {
      unreadable.push(item);
      continue;
    }
    const argumentsJson = isJsonObject(item.input) ? item.input! : '{}';
    calls.push({
      call: id,
      providerId: item.id,
      name: item.name ?? 'unknown',
      argumentsJson,
      argsHash: argsHashOf({}),
      historySeq: context.historySeq,
      nonce: '',
      effect: 'read',
      kind: 'none',
    });
    stored.push({ id: item.id, name: item.name ?? 'unknown', arguments: argumentsJson });
    answers[id] = { output: repairFeedback([item], context.definitions), reason: item.kind };
  }
  const feedback = unreadable.length === 0 ? undefined : repairFeedback(unreadable, context.definitions);
  const repair =
    parsed.errors.length === 0
      ? undefined
      : parsed.errors.map((error) => `${error.kind} ${error.name ?? ''} ${error.input ?? ''}`).join('\n');
  if (calls.length === 0)
    return {
      kind: 'repair',
      feedback: feedback!,
      repair: repair!,
      message: { type: 'chat', role: 'assistant', content: end.text, reasoning_content: reasoning, served },
    };
  return {
    kind: 'calls',
    message: {
      type: 'assistant_tool_calls',
      text: parsed.text === '' ? null : parsed.text,
      tool_calls: stored,
      reasoning_content: reasoning,
      served,
    },
    calls,
    answers,
    feedback,
    repair,
  };
}

function pendingOf(call: ParsedToolCall, id: string, context: AnswerContext): PendingCall {
  const tool = context.tools.get(call.name)!;
  return {
    call: id,
    providerId: call.id,
    name: tool.name,
    argumentsJson: JSON.stringify(call.arguments),
    argsHash: argsHashOf(call.arguments),
    historySeq: context.historySeq,
    nonce: newNonce(),
    effect: tool.effect as Effect,
    kind: tool.kind,
    toolHash: tool.hash,
    dispatchJson: tool.dispatchJson,
    timeoutMs: tool.timeoutMs,
  };
}

/** Native answers have one order for good and bad calls; results must come back in it. */
function inOrder(
  calls: readonly ParsedToolCall[],
  errors: readonly ToolCallError[],
  end: ChatEnd,
): (ParsedToolCall | ToolCallError)[] {
  const rank = new Map(end.calls.map((call, index) => [call.id, index]));
  const items: (ParsedToolCall | ToolCallError)[] = [...calls, ...errors];
  const rankOf = (item: ParsedToolCall | ToolCallError) =>
    rank.get(('providerId' in item ? item.providerId : undefined) ?? item.id ?? '') ?? Number.MAX_SAFE_INTEGER;
  return rank.size === 0 ? items : items.sort((a, b) => rankOf(a) - rankOf(b));
}

function isJsonObject(text: string | undefined): boolean {
  if (text === undefined) return false;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
