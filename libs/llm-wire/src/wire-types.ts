import type { ThinkingBlock } from '@yardmaster/contracts';
import type { FailureVerdict } from './failure-verdict.js';

export type { ThinkingBlock } from '@yardmaster/contracts';

/** How a provider is spoken to: the shape of the request and of the answer. */
export type WireFamily =
  'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'llamacpp-completion' | 'openai-embeddings';

/** Why an answer ended, whatever the provider called it. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'error';

/** Tokens of one answer. `prompt_tokens` includes what came from or went into the prompt cache. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  cached_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
}

/** One complete call of an answer; `arguments` is the model's text, untouched (`{}` when it sent none). */
export interface WireCall {
  id: string;
  name: string;
  arguments: string;
}

/** What was done to an answer beyond reading it; each mark belongs to a flag that can be turned off. */
export interface AnswerMarks {
  /** There was no content, so the reasoning became the text. Such text is never searched for calls. */
  textFromReasoning?: true;
  /** Think blocks at the start of the text were moved to the reasoning. */
  inlineThink?: true;
}

/** What a stream says, piece by piece, in one form for every provider. */
export type WireEvent =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  /** A lone `</think>` arrived: all text so far was reasoning. What follows is the answer. */
  | { type: 'text_was_reasoning'; reasoning: string }
  /** `index` is the order of arrival; `order` the provider's own index, by which the final list is sorted. */
  | { type: 'call_start'; index: number; order: number; id: string; name: string }
  | { type: 'call_arguments'; index: number; text: string }
  | { type: 'thinking_block'; block: ThinkingBlock }
  | { type: 'usage'; usage: Usage }
  | { type: 'finish'; reason: FinishReason; marks: AnswerMarks }
  | { type: 'error'; failure: FailureVerdict };

/** A whole answer. With `error` set it broke off: `text` is what came, and there are no calls. */
export interface WireAnswer {
  text: string;
  reasoning: string;
  calls: WireCall[];
  finish_reason: FinishReason;
  usage: Usage | null;
  thinking_blocks: ThinkingBlock[];
  /** Only of openai-embeddings: one vector for each input, in their order. */
  embeddings?: number[][];
  marks: AnswerMarks;
  error?: FailureVerdict;
}

/** The behaviours of one provider that change how its answers are read; each is on unless set to false. */
export interface ReadOptions {
  /** For the classifier: the catalogue kind or name. */
  provider?: string;
  /** No content, no think block, no calls: the reasoning becomes the text. */
  reasoningFallback?: boolean;
  /** Leading think blocks move to reasoning. Off where calls come as text: the call parser reads them there. */
  inlineThink?: boolean;
  /** The output limit that was sent: an answer that used all of it was cut, even where the server calls it complete. */
  maxTokens?: number;
  /**
   * The template opens the think block in the prompt: the text begins inside of it, unless reasoning came in a field of
   * its own first. Read with `inlineThink` only.
   */
  thinkPrefilled?: boolean;
  /** Ids for calls that came without one. */
  newId?: () => string;
  /** Bytes of one SSE line, and of a whole answer. */
  lineCapBytes?: number;
  bodyCapBytes?: number;
}

export const LINE_CAP_BYTES = 4 * 1024 * 1024;
export const BODY_CAP_BYTES = 32 * 1024 * 1024;
