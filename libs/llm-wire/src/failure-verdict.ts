import type { OverflowNumbers } from './overflow-numbers.js';

/** What the failover engine does next. */
export type FailureClass =
  'retry' | 'rotate_key_then_retry' | 'context_overflow' | 'next_model' | 'model_output' | 'next_provider';

/** What happened, finer than the class: `auth` and `plan_limit` disable a key for every model, others do not. */
export type FailureReason =
  | 'network'
  | 'timeout'
  | 'server'
  | 'truncated'
  | 'throttled'
  | 'plan_limit'
  | 'auth'
  | 'model'
  | 'overflow'
  | 'model_output'
  | 'content_filter'
  | 'not_found'
  | 'rejected';

export interface FailureVerdict {
  class: FailureClass;
  reason: FailureReason;
  /** Only with `retry` and `rotate_key_then_retry`: the provider's own hint, at most 30 s. */
  retryAfterMs?: number;
  /** Only with `context_overflow`: the numbers that the provider named. */
  overflow?: OverflowNumbers;
  /** HTTP status, 0 when there was no response. */
  status: number;
  /** The provider's code, for logs. */
  code?: string;
  /** The provider's text, at most 2 KiB: for logs only, after redaction, never for callers. */
  text?: string;
}

export interface Failure {
  /** 0 or absent: no HTTP response. */
  status?: number;
  headers?: HeaderSource | Record<string, string | string[] | undefined>;
  /** Text of the body, or a parsed event of a stream. */
  body?: unknown;
  /** What was thrown, when there was no response. */
  error?: unknown;
  /** Milliseconds since the epoch; needed for dates in headers. */
  now?: number;
  /** Catalogue kind or configured name. */
  provider?: string;
}

/** Whatever iterates over headers: a Headers object, a Map. */
export interface HeaderSource {
  forEach(callback: (value: string, name: string) => void): void;
}
