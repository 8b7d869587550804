import { ERROR_CLASSES, type ErrorClass, YardError } from '@yardmaster/contracts';

/** RFC 9457 problem details, with our class and code. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  class: ErrorClass;
  code: string;
  trace_id: string;
  [detail: string]: unknown;
}

/** Codes whose HTTP status says more than that of their class. */
const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  'YM-UNAUTHENTICATED': 401,
  'YM-BODY-SIZE': 413,
  'YM-JSON-SIZE': 413,
  'YM-MEDIA-TYPE': 415,
  'YM-CONTENT-ENCODING': 415,
  'YM-HOST': 421,
  'YM-IDEMPOTENCY-MISMATCH': 422,
};

export const statusOf = (error: YardError): number => STATUS_OF_CODE[error.code] ?? ERROR_CLASSES[error.class].status;

/** What a caller is told of an error; what went wrong inside stays in the log. */
export function toProblem(error: YardError, context: { instance: string; traceId: string }): Problem {
  return {
    type: `/errors/${error.code}`,
    title: ERROR_CLASSES[error.class].title,
    status: statusOf(error),
    detail: error.message,
    instance: context.instance,
    class: error.class,
    code: error.code,
    trace_id: context.traceId,
    ...(error.retryAfterMs === undefined ? {} : { retry_after_ms: error.retryAfterMs }),
    ...error.details,
  };
}

/** The same in the shape of OpenAI's API, for its clients. */
export function toOpenAiError(error: YardError, traceId: string): { error: Record<string, unknown> } {
  const status = statusOf(error);
  const type =
    status === 401
      ? 'authentication_error'
      : status === 403
        ? 'permission_error'
        : status === 404
          ? 'not_found_error'
          : status === 429
            ? 'rate_limit_error'
            : status < 500
              ? 'invalid_request_error'
              : 'api_error';
  return {
    error: {
      message: error.message,
      type,
      param: typeof error.details?.['param'] === 'string' ? error.details['param'] : null,
      code: error.code,
      trace_id: traceId,
    },
  };
}

/** Routes that OpenAI's clients use, whose errors have that API's shape. */
export const isOpenAiPath = (path: string) =>
  /^\/v1\/(chat\/completions|models|embeddings|responses)(\/|\?|$)/.test(path);
