import type { YardError } from '@yardmaster/contracts';
import type {
  AnswerMarks,
  FailureClass,
  FailureReason,
  FinishReason,
  ThinkingBlock,
  Usage,
  WireCall,
} from '@yardmaster/llm-wire';

/** One try at one provider, for accounting, events and errors. Holds no provider text and no key. */
export interface AttemptRecord {
  number: number;
  provider: string;
  model: string;
  dialect: string;
  /** The key's hash; empty without a key. */
  keyId: string;
  outcome: 'ok' | 'cancelled' | 'deadline' | FailureClass;
  reason?: FailureReason | 'empty' | 'first_token' | 'idle' | 'total';
  /** HTTP status; 0 when there was no response. */
  status: number;
  startedAt: number;
  durationMs: number;
  /** Until the first text, reasoning or call. */
  firstTokenMs?: number;
  /** As the provider told it, also for attempts that failed. */
  usage: Usage | null;
  /** US dollars; absent when usage or price is unknown. */
  costUsd?: number;
  retryAfterMs?: number;
  /** The `/responses` route was used. */
  viaResponses?: true;
  /** The text may hold reasoning or calls, though the dialect does not say so: it cannot be shown before its end. */
  readWhole?: true;
}

/** What was done to get the answer through. */
export interface ResultMarks extends AnswerMarks {
  responsesFallback?: true;
  /** Whole user turns cut from the front of the history. */
  turnsCut?: number;
  maxTokensLoweredTo?: number;
  /** The text begins inside of the reasoning, which its reader has to take out. */
  thinkPrefilled?: true;
  /** The text of this native answer is to be searched for calls, in this dialect. */
  textFallback?: string;
}

export interface ChatResult {
  provider: string;
  model: string;
  dialect: string;
  text: string;
  reasoning: string;
  calls: WireCall[];
  thinkingBlocks: ThinkingBlock[];
  finishReason: FinishReason;
  /** Of a request for embeddings: one vector for each input. */
  embeddings?: number[][];
  usage: Usage | null;
  /** Of all attempts together; absent when nothing is known. */
  costUsd?: number;
  marks: ResultMarks;
  attempts: AttemptRecord[];
}

/** What the engine says while it works; the last frame is `end` or `error`, unless the caller cancelled. */
export type Frame =
  /** Who is answering. Comes before the first content of each attempt that shows any. */
  | { type: 'start'; attempt: number; provider: string; model: string; dialect: string; readWhole?: true }
  | { type: 'delta'; text: string }
  | { type: 'reasoning'; text: string }
  /** A whole native call, once it is complete. */
  | { type: 'call'; index: number; id: string; name: string; arguments: string }
  | { type: 'usage'; usage: Usage; costUsd?: number }
  /** Drop everything since the last start: the answer begins again. */
  | { type: 'attempt_reset'; attempt: number; reason: string }
  | {
      type: 'error';
      error: YardError;
      attempts: AttemptRecord[];
      /** The model wrote a call that its own server could not read: goes back to the model as a repair round. */
      modelOutput?: { provider: string; model: string; dialect: string };
    }
  | { type: 'end'; result: ChatResult };
