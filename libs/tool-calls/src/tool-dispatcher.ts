import { type ChatTurn, type ContentPart, type ConversationMessage, type ToolResults } from '@yardmaster/contracts';
import { type NativeAnswer, type NativeToolCall } from './native-calls.js';
import { type ToolSet } from './tool-set.js';
import { type ParseResult, type ToolDefinition } from './types.js';

/** A model's answer as the router hands it on. */
export interface ModelAnswer extends Omit<NativeAnswer, 'tool_calls'> {
  tool_calls?: readonly NativeToolCall[];
  /** The text is reasoning that was shown for want of content: it is never searched for calls. */
  textFromReasoning?: boolean;
}

/** What one tool gave back. */
export interface ToolExecutionResult {
  name: string;
  /** Bytes as the executor delivered them, or text. */
  output: string | Uint8Array;
  success: boolean;
  tool_call_id: string | null;
  /** Characters that the executor has cut out of the output already. */
  cut_chars?: number;
}

/** A message in the form that both dialects share; the router maps it to a provider's wire format. */
export interface ProviderMessage {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string | ContentPart[];
  /** Reasoning of a plain assistant message; of one with calls it is in the payload. */
  reasoning_content?: string;
}

export interface ParseResponseOptions {
  tools?: ToolSet | readonly ToolDefinition[];
  /** Makes ids unique beyond one answer. */
  turn?: string | number;
}

export interface HistoryOptions {
  /** Who will read the messages: reasoning goes back only to the provider and model that wrote it. */
  target?: { provider: string; model: string };
  /** Neutralise chat-template tokens in every role, for servers that tokenise contents with special tokens on. */
  neutraliseEveryRole?: boolean;
}

/** Longest output of one tool in a message, in UTF-16 units. */
export interface OutputLimits {
  maxOutputChars?: number;
}

/** Hides from the agent loop whether a model calls tools through its API or in its text. */
export interface ToolDispatcher {
  readonly kind: 'native' | 'xml';
  /** Text, calls that may be run and errors to feed back. Never throws. */
  parseResponse(answer: ModelAnswer, options?: ParseResponseOptions): ParseResult;
  /** The results of one round as the next message. */
  formatResults(results: readonly ToolExecutionResult[], limits?: OutputLimits): ChatTurn | ToolResults;
  /** The canonical history in the form this kind of model reads. */
  toProviderMessages(history: readonly ConversationMessage[], options?: HistoryOptions): ProviderMessage[];
  /** Whether tool definitions go into the request's own field. */
  shouldSendToolSpecs(): boolean;
  /** What the system prompt has to say about tools; empty if the API carries them. */
  promptInstructions(tools: readonly ToolDefinition[]): string;
}
