/** What the caller of a failed operation may do next; each has one HTTP status and one fate for a work message. */
export const ERROR_CLASSES = {
  INVALID: { status: 400, title: 'The request can never succeed', work: 'dead-letter' },
  DENIED: { status: 403, title: 'Not allowed, or not approved', work: 'dead-letter' },
  NOT_FOUND: { status: 404, title: 'No such thing', work: 'dead-letter' },
  CONFLICT: { status: 409, title: 'Someone was faster', work: 'retry' },
  EXHAUSTED: { status: 429, title: 'A quota or rate limit', work: 'retry' },
  TIMEOUT: { status: 504, title: 'No answer in time; it may have happened', work: 'retry' },
  UNAVAILABLE: { status: 503, title: 'Nobody is serving', work: 'retry' },
  INTERNAL: { status: 500, title: 'A fault of Yardmaster', work: 'retry' },
} as const;

export type ErrorClass = keyof typeof ERROR_CLASSES;

export interface YardErrorOptions {
  cause?: unknown;
  /** Wait this long before another try, in milliseconds. */
  retryAfterMs?: number;
  /** Plain data for the caller (names that exist, limits); never a secret. Must survive JSON. */
  details?: Record<string, unknown>;
}

const MARK = Symbol.for('yardmaster.YardError');

/** The one error of every boundary: `class` says what to do next, `code` (stable, `YM-…`) what happened. */
export class YardError extends Error {
  readonly class: ErrorClass;
  readonly code: string;
  readonly retryAfterMs: number | undefined;
  readonly details: Record<string, unknown> | undefined;

  constructor(errorClass: ErrorClass, code: string, message: string, options: YardErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'YardError';
    this.class = errorClass;
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
    this.details = options.details;
    Object.defineProperty(this, MARK, { value: true });
  }

  /** True for errors of another copy of this package too. */
  static is(error: unknown): error is YardError {
    return typeof error === 'object' && error !== null && (error as { [MARK]?: unknown })[MARK] === true;
  }

  /** Any error as a YardError; what is not one already becomes INTERNAL with its text kept as the cause only. */
  static from(error: unknown): YardError {
    if (YardError.is(error)) return error;
    return new YardError('INTERNAL', 'YM-INTERNAL', 'Something went wrong inside Yardmaster.', { cause: error });
  }
}
