import { ERROR_CLASSES, type ErrorClass, YardError } from '@yardmaster/contracts';

/** What the API answered instead of a result: the error of RFC 9457, with its status and the id of the request. */
export class ApiError extends YardError {
  constructor(
    readonly status: number,
    readonly requestId: string | undefined,
    /** The whole problem, as it came. */
    readonly problem: Record<string, unknown>,
    errorClass: ErrorClass,
    code: string,
    message: string,
    retryAfterMs: number | undefined,
  ) {
    super(errorClass, code, message, { details: problem, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
    this.name = 'ApiError';
  }
}

/** The error in a response. */
export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  let problem: Record<string, unknown> = {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) problem = value as Record<string, unknown>;
  } catch {
    // A proxy's page, not ours: the status says what there is to say.
  }
  const string = (name: string) => (typeof problem[name] === 'string' ? problem[name] : undefined);
  const after = Number(response.headers.get('retry-after') ?? Number.NaN);
  const declared = string('class');
  return new ApiError(
    response.status,
    response.headers.get('x-request-id') ?? string('trace_id'),
    problem,
    declared !== undefined && Object.hasOwn(ERROR_CLASSES, declared)
      ? (declared as ErrorClass)
      : classOf(response.status),
    string('code') ?? `YM-HTTP-${response.status}`,
    string('detail') ?? `The server answered ${response.status} ${response.statusText}.`,
    typeof problem['retry_after_ms'] === 'number' ? problem['retry_after_ms'] : after >= 0 ? after * 1000 : undefined,
  );
}

function classOf(status: number): ErrorClass {
  switch (status) {
    case 401:
    case 403:
      return 'DENIED';
    case 404:
      return 'NOT_FOUND';
    case 409:
      return 'CONFLICT';
    case 429:
      return 'EXHAUSTED';
    case 408:
    case 504:
      return 'TIMEOUT';
    case 502:
    case 503:
      return 'UNAVAILABLE';
    default:
      return status < 500 ? 'INVALID' : 'INTERNAL';
  }
}

/** A connection that could not be made or broke off. */
export function unreachable(url: string, cause: unknown): YardError {
  const inner = (cause as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  const why =
    inner === 'ECONNREFUSED' ? 'connection refused' : typeof inner === 'string' ? inner : (cause as Error).message;
  return new YardError('UNAVAILABLE', 'YM-UNREACHABLE', `Cannot reach ${url} (${why}).`, { cause });
}
