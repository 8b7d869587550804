import { neutraliseProtocol } from './neutralise.js';
import { type ToolSet } from './tool-set.js';
import { type ParseResult, type ToolCallError } from './types.js';

/** Rounds in which a model may correct its calls within one turn; failures of tools are not counted here. */
export const DEFAULT_REPAIR_ROUNDS = 2;
/** A longer list of names costs more than it helps. */
const MAX_NAMES = 40;
const MAX_SHOWN_ERRORS = 5;

/** What is remembered between the rounds of one turn; start a turn with `NO_REPAIRS`. */
export interface RepairState {
  rounds: number;
  last: string | undefined;
}

export const NO_REPAIRS: RepairState = { rounds: 0, last: undefined };

export type RepairDecision =
  | { action: 'none'; state: RepairState }
  /** Feed `text` back, or for native calls one entry of `toolMessages` under each id, and ask again in the same turn. */
  | {
      action: 'repair';
      state: RepairState;
      text: string;
      toolMessages: { tool_call_id: string; content: string }[];
    }
  | { action: 'stop'; state: RepairState; reason: 'repair_budget_exhausted' | 'same_mistake_repeated'; text: string };

export interface RepairOptions {
  maxRounds?: number;
  tools?: ToolSet;
  /** The answer ended at the output limit; the model is told to write in parts. */
  truncated?: boolean;
}

/**
 * What to do about the failed calls of an answer. The good calls of the same answer run either way. The budget is for
 * the whole turn, and the same mistake twice in a row ends it: a model that repeats itself will do so again.
 */
export function decideRepair(
  state: RepairState,
  answer: Pick<ParseResult, 'text' | 'calls' | 'errors' | 'notes'>,
  options: RepairOptions = {},
): RepairDecision {
  const lost = answer.errors.length === 0 && onlyReasonedCalls(answer);
  if (answer.errors.length === 0 && !lost) return { action: 'none', state };
  const signature = lost ? 'call in reasoning' : signatureOf(answer.errors);
  const text = lost ? CALL_IN_REASONING : repairText(answer, options);
  if (signature === state.last) return { action: 'stop', state, reason: 'same_mistake_repeated', text };
  if (state.rounds >= (options.maxRounds ?? DEFAULT_REPAIR_ROUNDS)) {
    return { action: 'stop', state, reason: 'repair_budget_exhausted', text };
  }
  const toolMessages = answer.errors.flatMap((error) =>
    error.id === undefined ? [] : [{ tool_call_id: error.id, content: errorText(error, options) }],
  );
  return { action: 'repair', state: { rounds: state.rounds + 1, last: signature }, text, toolMessages };
}

const CALL_IN_REASONING =
  'Your tool call was written inside your reasoning, so nothing was run. Write the call after your reasoning has ended.';

/** The answer has nothing in it but a call that the model wrote while thinking. */
function onlyReasonedCalls(answer: Pick<ParseResult, 'text' | 'calls' | 'notes'>): boolean {
  return answer.text.trim() === '' && answer.calls.length === 0 && answer.notes.callsInReasoning > 0;
}

/** The message that tells a model about all failed calls of one answer. Bounded in size and free of markup. */
export function repairText(
  answer: Pick<ParseResult, 'calls' | 'errors' | 'notes'>,
  options: RepairOptions = {},
): string {
  const shown = answer.errors.slice(0, MAX_SHOWN_ERRORS);
  const parts = shown.map((error) => errorText(error, options));
  const more = answer.errors.length - shown.length + answer.notes.errorsDropped;
  if (more > 0) parts.push(`${more} more ${more === 1 ? 'call' : 'calls'} failed in the same answer and did not run.`);
  const good = answer.calls.length;
  if (good > 0)
    parts.push(
      `The ${good === 1 ? 'other call' : `other ${good} calls`} of the same answer did run; do not repeat ${good === 1 ? 'it' : 'them'}.`,
    );
  return parts.join('\n\n');
}

/** What one failed call comes to for the model: what failed, where, what is needed, and that nothing was run. */
export function errorText(error: ToolCallError, options: RepairOptions = {}): string {
  const { tools } = options;
  const called = error.name === undefined ? 'A tool call' : `The call to ${plain(error.name)}`;
  if (error.kind === 'unterminated' && options.truncated) {
    return (
      `${called} was cut off: your output hit the length limit before the call was complete. Nothing was run. ` +
      'Write it in parts: several smaller calls, each complete.'
    );
  }
  const lines = [`${called} failed (${error.kind}): ${neutraliseProtocol(error.message)}. Nothing was run.`];
  if (error.line !== undefined) lines.push(`Where: line ${error.line}, column ${error.column}.`);
  if (error.input) lines.push(`You wrote: ${neutraliseProtocol(error.input)}`);
  if (error.required && error.required.length > 0) lines.push(`Required parameters: ${error.required.join(', ')}.`);
  if (error.suggest !== undefined) lines.push(`Nearest tool name: ${error.suggest}.`);
  if (error.kind === 'unknown_tool' && tools && tools.size <= MAX_NAMES) {
    lines.push(`Tools: ${tools.names().sort().join(', ')}.`);
  }
  lines.push(ADVICE[error.kind]);
  return lines.join('\n');
}

const ADVICE: Record<ToolCallError['kind'], string> = {
  malformed_json: 'Write the call again as valid JSON with every quote and backslash in strings escaped.',
  unterminated: 'Write the whole call again, complete to its end.',
  unknown_tool: 'Call one of the tools you were given, by its exact name.',
  schema: 'Write the call again with corrected arguments.',
  missing_name: 'Write the call again with "name" and "arguments".',
};

/** Two answers make the same mistake if they fail in the same way with the same input. */
function signatureOf(errors: readonly ToolCallError[]): string {
  return JSON.stringify(errors.map(({ kind, name, message, input }) => [kind, name, message, input]));
}

/** A name as it may stand in a sentence. */
function plain(name: string): string {
  return name.replace(/[^\w.:/ -]/g, '_').slice(0, 80);
}

const PROVIDER_PARSE_FAILURE =
  /(?:fail|could not|couldn't|cannot|unable)[^.\n]{0,80}pars[^.\n]{0,60}(?:tool|function)[ _-]?call|(?:pars|invalid|malformed)[^.\n]{0,60}(?:tool|function)[ _-]?call|unparsed peg|failed to parse (?:input|output)/i;

/**
 * The error that stands for a provider's complaint that it could not parse the model's own tool call (llama.cpp answers
 * 500 then), or undefined if the text says something else. A blind retry would repeat it: it is fed back instead.
 */
export function providerParseError(message: string): ToolCallError | undefined {
  if (!PROVIDER_PARSE_FAILURE.test(message.slice(0, 2000))) return undefined;
  return {
    kind: 'malformed_json',
    message: 'the server could not parse the tool call in your answer',
    input: message.slice(0, 800),
  };
}
