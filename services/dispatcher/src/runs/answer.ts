import { randomBytes } from 'node:crypto';
import { argsHash } from '@yardmaster/bus';
import type { PendingCall } from '@yardmaster/conversation';
import type {
  AssistantToolCalls,
  ChatEnd,
  ConversationMessage,
  Effect,
  StoredToolCall,
  ThinkingBlock,
  Tool,
} from '@yardmaster/contracts';
import { CALL_MCP } from '@yardmaster/tool-render';
import { checkArguments, type JsonSchema, nearestName, unknownToolText } from '@yardmaster/tool-schema';
import {
  chooseDispatcher,
  CORE_TEXT_DIALECTS,
  decideRepair,
  type Dialect,
  errorText,
  type ModelAnswer,
  type ParseResult,
  type ParsedToolCall,
  type RepairState,
  type ToolCallError,
  type ToolDispatcher,
  type ToolSet,
} from '@yardmaster/tool-calls';
import type { Found } from './hooks.js';

/** Answers of calls that are not run: unreadable, unknown, refused. By call. */
export type Answers = Record<string, { output: string; reason: string }>;

/** What an answer of a model comes to, and what was noticed while it was read. */
export type Reading = Outcome & { found: Found };

type Outcome =
  | { kind: 'final'; text: string; message: ConversationMessage }
  /** Calls to run, or at least to answer; `feedback` follows the results where a call had no form that can be answered. */
  | {
      kind: 'calls';
      message: AssistantToolCalls;
      calls: PendingCall[];
      answers: Answers;
      feedback: string | undefined;
      repair: RepairState;
    }
  /** No call that could be answered: the answer as it was, and what to say to it. */
  | { kind: 'repair'; message: ConversationMessage; feedback: string; repair: RepairState }
  /** The model was told often enough. */
  | { kind: 'gave_up'; reason: string; text: string; message: ConversationMessage };

export interface AnswerContext {
  step: number;
  /** Sequence that the assistant message will have. */
  historySeq: number;
  /** The tools that this run may call, by the name that the model knows. */
  tools: ReadonlyMap<string, Tool>;
  toolSet: ToolSet;
  /** Of the rounds of repair before this answer. */
  repair: RepairState;
}

const readers = new Map<string, ToolDispatcher>();

/**
 * The reader of the dialect and the marks that the router names: the answer is read as it was asked for, not as it was
 * planned.
 */
export function readerOf({ dialect, marks }: Pick<ChatEnd, 'dialect' | 'marks'>): ToolDispatcher {
  const { thinkPrefilled = false, textFallback = '' } = marks ?? {};
  const key = `${dialect} ${textFallback} ${thinkPrefilled}`;
  let reader = readers.get(key);
  if (reader === undefined) {
    const native = dialect === 'native';
    const text = (native ? textFallback : dialect) as Dialect;
    reader = chooseDispatcher(
      {
        toolDispatcher: native ? 'native' : 'xml',
        textFallback: textFallback !== '',
        dialects: [...new Set([...CORE_TEXT_DIALECTS, text])],
        thinkPrefilled,
      },
      { supportsNativeTools: native },
    );
    readers.set(key, reader);
  }
  return reader;
}

/** Reads an answer in the dialect that the router says served it. */
export function interpret(end: ChatEnd, context: AnswerContext): Reading {
  const answer: ModelAnswer = {
    text: end.text,
    reasoning: end.reasoning,
    tool_calls: end.calls.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })),
    textFromReasoning: end.marks?.textFromReasoning ?? false,
  };
  const started = performance.now();
  const parsed = throughDispatcher(
    // Ids that we make for calls in text name the place in the conversation: another run of it begins at step 1 again,
    // and some APIs refuse a history in which an id comes twice.
    readerOf(end).parseResponse(answer, { tools: context.toolSet, turn: context.historySeq }),
    context.tools,
  );
  const seconds = (performance.now() - started) / 1000;
  return { ...outcomeOf(end, parsed, context), found: { errors: parsed.errors, notes: parsed.notes, seconds } };
}

function outcomeOf(end: ChatEnd, parsed: ParseResult, context: AnswerContext): Outcome {
  const served = { provider: end.provider, model: end.model, dialect: end.dialect };
  const reasoning = parsed.reasoning === '' ? null : parsed.reasoning;
  const thinking = thinkingOf(end);
  const asChat = (content: string): ConversationMessage => ({
    type: 'chat',
    role: 'assistant',
    content,
    reasoning_content: reasoning,
    ...thinking,
    served,
  });

  const truncated = end.finishReason === 'length';
  const decision = decideRepair(context.repair, parsed, { tools: context.toolSet, truncated });
  if (decision.action === 'stop')
    return { kind: 'gave_up', reason: decision.reason, text: parsed.text, message: asChat(asWritten(end, parsed)) };
  if (decision.action === 'none' && parsed.calls.length === 0) {
    if (parsed.text !== '' || !reasonedOnly(end, parsed))
      return { kind: 'final', text: parsed.text, message: asChat(parsed.text) };
    const text = parsed.reasoning;
    return { kind: 'final', text, message: { ...asChat(text), reasoning_content: null } as ConversationMessage };
  }

  const calls: PendingCall[] = [];
  const stored: StoredToolCall[] = [];
  const answers: Answers = {};
  const unanswerable: ToolCallError[] = [];
  for (const item of inOrder(parsed.calls, parsed.errors, end)) {
    const id = `${context.step}-${calls.length}`;
    if ('arguments' in item) {
      const call = pendingOf(item, id, context);
      calls.push(call);
      stored.push({ id: item.id, name: item.name, arguments: call.argumentsJson });
    } else if (item.id !== undefined) {
      // A native call must be answered under its id, however it was written.
      const call = unreadCall(item, item.id, id, context.historySeq);
      calls.push(call);
      stored.push({ id: item.id, name: call.name, arguments: call.argumentsJson });
      answers[id] = { output: errorText(item, { tools: context.toolSet, truncated }), reason: item.kind };
    } else unanswerable.push(item);
  }
  if (calls.length === 0)
    return {
      kind: 'repair',
      feedback: decision.action === 'repair' ? decision.text : '',
      repair: decision.state,
      message: asChat(asWritten(end, parsed)),
    };
  return {
    kind: 'calls',
    message: {
      type: 'assistant_tool_calls',
      text: parsed.text === '' ? null : parsed.text,
      tool_calls: stored,
      reasoning_content: reasoning,
      ...thinking,
      served,
    },
    calls,
    answers,
    feedback: unanswerable.length > 0 && decision.action === 'repair' ? decision.text : undefined,
    // An answer without a mistake ends the rounds of repair.
    repair: decision.action === 'none' ? { rounds: 0, last: undefined } : decision.state,
  };
}

/**
 * An answer that has to be corrected, as the model sees it again: with its mistakes, and without its reasoning, whose
 * calls would look like calls that nobody answered.
 */
function asWritten(end: ChatEnd, parsed: ParseResult): string {
  if (parsed.errors.length === 0) return parsed.text === '' ? '(nothing but reasoning)' : parsed.text;
  if (end.marks?.thinkPrefilled !== true) return end.text;
  const close = /<\/think(?:ing)?\s{0,4}>/i.exec(end.text);
  return close === null ? end.text : end.text.slice(close.index + close[0].length).trimStart();
}

/**
 * The prompt opened the reasoning, and the model answered without ever closing it, in its own good time: what it said is
 * the answer. Cut in the middle it is a thought, and no answer.
 */
function reasonedOnly(end: ChatEnd, parsed: ParseResult): boolean {
  return end.marks?.thinkPrefilled === true && end.finishReason === 'stop' && parsed.reasoning !== '';
}

/** Takes calls of `call_mcp` apart: from here on they are calls of the tools that they name. */
function throughDispatcher(parsed: ParseResult, tools: ReadonlyMap<string, Tool>): ParseResult {
  // A tool of that name that somebody registered is a tool like others.
  if (tools.has(CALL_MCP.name) || !parsed.calls.some((call) => call.name === CALL_MCP.name)) return parsed;
  const calls: ParsedToolCall[] = [];
  const errors = [...parsed.errors];
  for (const call of parsed.calls) {
    if (call.name !== CALL_MCP.name) {
      calls.push(call);
      continue;
    }
    const { server, tool: wanted, args } = call.arguments as { server: string; tool: string; args: unknown };
    const input = JSON.stringify(args ?? {});
    const found = toolOnServer(tools, server, wanted);
    if (found === undefined) {
      const message = unknownToolText(`${wanted} on server ${server}`, nearestName(wanted, tools.keys()));
      errors.push({ kind: 'unknown_tool', id: call.id, name: wanted, message, input });
      continue;
    }
    const [name, tool] = found;
    const inputSchema = JSON.parse(tool.parametersJson) as JsonSchema;
    const verdict = checkArguments({ name, inputSchema }, input);
    if (verdict.ok) calls.push({ ...call, name, arguments: verdict.args });
    else errors.push({ kind: 'schema', id: call.id, name, message: verdict.text, input });
  }
  return { ...parsed, calls, errors };
}

function toolOnServer(tools: ReadonlyMap<string, Tool>, server: string, wanted: string): [string, Tool] | undefined {
  return [...tools].find(
    ([name, tool]) => (tool.server || 'local') === server && (name === wanted || tool.serverTool === wanted),
  );
}

/** Kept for the model that wrote them, which wants them back with the results of its calls. */
function thinkingOf(end: ChatEnd): { thinking_blocks?: ThinkingBlock[] } {
  return end.thinkingBlocksJson === ''
    ? {}
    : { thinking_blocks: JSON.parse(end.thinkingBlocksJson) as ThinkingBlock[] };
}

function pendingOf(call: ParsedToolCall, id: string, context: AnswerContext): PendingCall {
  const tool = context.tools.get(call.name)!;
  const argumentsJson = JSON.stringify(call.arguments);
  return {
    call: id,
    providerId: call.id,
    name: tool.name,
    argumentsJson,
    argsHash: argsHash(argumentsJson),
    historySeq: context.historySeq,
    nonce: randomBytes(16).toString('hex'),
    effect: tool.effect as Effect,
    kind: tool.kind,
    toolHash: tool.hash,
    dispatchJson: tool.dispatchJson,
    timeoutMs: tool.timeoutMs,
  };
}

/** A call that is answered without being run. Text that is no JSON would make the whole history unreadable for a provider. */
function unreadCall(error: ToolCallError, providerId: string, id: string, historySeq: number): PendingCall {
  const argumentsJson = isJsonObject(error.input) ? error.input! : '{}';
  return {
    call: id,
    providerId,
    name: error.name ?? 'unknown',
    argumentsJson,
    argsHash: argsHash(argumentsJson),
    historySeq,
    nonce: '',
    effect: 'read',
    kind: 'none',
  };
}

/** Native answers have one order for good and bad calls; results must come back in it. */
function inOrder(
  calls: readonly ParsedToolCall[],
  errors: readonly ToolCallError[],
  end: ChatEnd,
): (ParsedToolCall | ToolCallError)[] {
  const items: (ParsedToolCall | ToolCallError)[] = [...calls, ...errors];
  if (errors.length === 0 || end.calls.length === 0) return items;
  const rank = new Map(end.calls.map((call, index) => [call.id, index]));
  const rankOf = (item: ParsedToolCall | ToolCallError) =>
    rank.get(('providerId' in item ? item.providerId : undefined) ?? item.id ?? '') ?? end.calls.length;
  return items.sort((a, b) => rankOf(a) - rankOf(b));
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
