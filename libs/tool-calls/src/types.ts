import { TEXT_DIALECTS } from '@yardmaster/contracts';
import { type JsonSchema } from '@yardmaster/tool-schema';

/** Ways in which a model writes calls. Hermes, qwen_xml, fenced, harmony and native are the core, the rest are packs. */
export type Dialect = 'native' | (typeof TEXT_DIALECTS)[number];

/** Read in every text answer unless a deployment says otherwise: their marks cannot be mistaken for each other. */
export const CORE_TEXT_DIALECTS: readonly Dialect[] = ['hermes', 'qwen_xml', 'fenced'];

/** Every form of text that this build can read. */
export const ALL_TEXT_DIALECTS: readonly Dialect[] = TEXT_DIALECTS;

/** A tool as a model is told of it. */
export interface ToolDefinition {
  name: string;
  description?: string;
  parameters?: JsonSchema;
}

/** A call that may be run: its name is registered (if tools were given) and its arguments fit the schema. */
export interface ParsedToolCall {
  /** Unique in the answer; the provider's own id where it has one. */
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  /** The provider's id, when `id` had to differ because the provider used one twice. */
  providerId?: string;
}

export type ToolCallErrorKind = 'malformed_json' | 'unterminated' | 'unknown_tool' | 'schema' | 'missing_name';

/** A call that the model meant and that was not run. Everything the model needs to hear about it, bounded in size. */
export interface ToolCallError {
  kind: ToolCallErrorKind;
  /** What is wrong, in one sentence; free of markup. */
  message: string;
  /** The name as the model wrote it, if it got that far. */
  name?: string;
  /** The provider's id (native calls), which has to be answered. */
  id?: string;
  /** The registered name that was probably meant. Never run by itself. */
  suggest?: string;
  /** Where reading failed, counted from 1 in what `input` is the beginning of. */
  line?: number;
  column?: number;
  /** At most 800 characters of what the model wrote. */
  input?: string;
  /** Required parameters of the tool, when the tool is known. */
  required?: string[];
}

/** What was noticed on the way, for metrics. */
export interface ParseNotes {
  /** Repairs by rule, e.g. `trailing_comma`. */
  repairs: Record<string, number>;
  callsInReasoning: number;
  quotedCallsIgnored: number;
  /** The model made up a tool result; everything after it was dropped. */
  fabricatedResult: boolean;
  /** Errors beyond the 16 that are listed. */
  errorsDropped: number;
}

export interface ParseResult {
  /** What is outside of calls and reasoning, in order. */
  text: string;
  reasoning: string;
  calls: ParsedToolCall[];
  errors: ToolCallError[];
  notes: ParseNotes;
}

/** A call as it stands in the answer, before names and arguments are checked. */
export interface RawCall {
  name: string;
  /** Arguments as read; a string is JSON text unless `textValues` is set. */
  args: unknown;
  /** Literals of numbers that JavaScript cannot keep, by JSON pointer into the arguments. */
  literals?: ReadonlyMap<string, string>;
  /** All values are text that the schema still has to give a type (qwen_xml, glm, invoke). */
  textValues?: boolean;
  id?: string;
  /** What the model wrote, for the feedback. */
  input: string;
}
