import type { AuthStyle, ChatRequestInput, Price, WireFamily, WireQuirks } from '@yardmaster/llm-wire';
import type { Strategy } from '@yardmaster/tool-render';

/** A key of one provider entry. `id` is a hash, safe to show; the value leaves only through `reveal`, for the wire. */
export interface ProviderKeyRef {
  id: string;
  reveal(): string;
}

export interface AttemptTimeouts {
  connectMs: number;
  /** From sending to the first text, reasoning or call. */
  firstTokenMs: number;
  /** Silence in the middle of an answer. */
  idleMs: number;
  /** One attempt as a whole. */
  totalMs: number;
}

/** One (provider, model) pair, at one address. Candidates are tried in the order given. */
export interface Candidate {
  /** The configured name; keys, budgets and "leave this provider" go by it. */
  provider: string;
  /** Catalogue kind, for what is known of its errors. */
  kind: string;
  model: string;
  /** What the answer must be read as: `native`, or the text dialect. */
  dialect: string;
  /** How tool definitions reach it; absent: all in front. */
  render?: Strategy;
  family: WireFamily;
  baseUrl: string;
  auth: AuthStyle;
  /** Empty for providers without keys. Never another provider's. */
  keys: readonly ProviderKeyRef[];
  timeouts: AttemptTimeouts;
  /** Further tries after the first, for transient failures. */
  retries: number;
  backoffMs: number;
  quirks: WireQuirks;
  reasoningFallback: boolean;
  inlineThink: boolean;
  /** Its template opens the think block in the prompt: answers begin inside of the reasoning. */
  thinkPrefilled?: boolean;
  /** Of a native candidate: the dialect in which the text of an answer without calls is searched for some. */
  textFallback?: string;
  responsesFallback: boolean;
  /** For servers on hardware of one's own: the first token may take so much longer as the prompt is long. */
  prefillTokensPerSecond?: number;
  /** Tokens of prompt and answer together, if known. */
  contextTokens?: number;
  price?: Price;
  /** Share of the requests where several serve the same model by weight; 1 if absent. */
  weight?: number;
  /** Requests that it works on at the same time, if known. */
  slots?: number;
  /** Headers of the entry's own; no secrets. */
  headers?: Record<string, string>;
  /** One pod of several that serve the same: its name. The others of the provider take over at once. */
  pod?: string;
  /** For when no pod of the provider can be reached; comes after them, and no conversation belongs there. */
  standIn?: true;
}

/** Breaker and route memory go by address: two pods of one provider fail on their own. */
export function endpointOf(candidate: Candidate): string {
  return `${candidate.provider} ${candidate.baseUrl}`;
}

/** What a renderer made of the history for one candidate. */
export interface Rendered {
  /** Everything that does not depend on the attempt itself. */
  input: Omit<ChatRequestInput, 'family' | 'model' | 'quirks' | 'maxTokens' | 'stream'>;
  /** Whole user turns cut from the front. */
  turnsCut: number;
  /** An estimate, for repairs when the provider names no numbers. */
  promptTokens?: number;
}

/** Asked for when the prompt did not fit. */
export interface CutWish {
  /** Cut more user turns than this. */
  moreThan: number;
  /** The part of the prompt's tokens that may stay, 0 to 1. */
  keep: number;
}

/**
 * Renders the history in the candidate's dialect, per attempt. With a wish it cuts whole user turns from the front (system,
 * last user message and call/result groups stay) and answers null when there is nothing left to cut.
 * Throws UnsendableRequest when this candidate can never take the request.
 */
export type Renderer = (candidate: Candidate, wish?: CutWish) => Promise<Rendered | null> | Rendered | null;
