import { YardError } from '@yardmaster/contracts';
import { errorOf, unreachable } from './api-error.js';

export interface ClientOptions {
  /** Where the API is, such as `http://127.0.0.1:7070`; a path prefix is kept. */
  apiUrl: string;
  apiKey: string;
  /** For tests and other runtimes. */
  fetch?: typeof fetch;
  /** How long one request may take, in milliseconds (30 000); streams may be silent that long. */
  timeoutMs?: number;
  /** Tries after the first one of what can be repeated without harm (2). */
  retries?: number;
}

export interface CallOptions {
  signal?: AbortSignal;
}

export interface HttpRequest extends CallOptions {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  path: string;
  query?: Record<string, string | number | boolean | undefined> | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  /** Sending it twice has the effect of sending it once. */
  repeatable?: boolean;
}

/** Requests to the API: one key, time-outs, retries, errors as YardErrors. */
export class Http {
  readonly base: string;
  readonly timeoutMs: number;
  private readonly retries: number;
  private readonly fetch: typeof fetch;
  private readonly authorization: string;

  constructor(options: ClientOptions) {
    this.base = options.apiUrl.replace(/\/+$/, '');
    this.timeoutMs = options.timeoutMs ?? 30_000;
    this.retries = options.retries ?? 2;
    this.fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.authorization = `Bearer ${options.apiKey}`;
  }

  /** The JSON of the answer. Throws ApiError, UNAVAILABLE or TIMEOUT. */
  async json<T>(request: HttpRequest): Promise<T> {
    const repeatable = request.repeatable ?? request.method !== 'POST';
    for (let attempt = 0; ; attempt++) {
      try {
        const response = await this.send(request, AbortSignal.timeout(this.timeoutMs));
        const text = await response.text();
        return (text === '' ? undefined : JSON.parse(text)) as T;
      } catch (error) {
        const failure = this.translate(error, request.signal);
        const temporary = ['UNAVAILABLE', 'TIMEOUT', 'EXHAUSTED'].includes(failure.class);
        if (!repeatable || !temporary || attempt >= this.retries) throw failure;
        await pause(Math.min(failure.retryAfterMs ?? 200 * 2 ** attempt, 5_000), request.signal);
      }
    }
  }

  /** A response with a status of 200 to 299. Throws as `fetch` does, or ApiError. */
  async send(request: HttpRequest, timeout: AbortSignal): Promise<Response> {
    const response = await this.fetch(this.url(request), {
      method: request.method,
      headers: {
        authorization: this.authorization,
        accept: 'application/json',
        ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
        ...request.headers,
      },
      // The key goes to this address only.
      redirect: 'error',
      signal: request.signal === undefined ? timeout : AbortSignal.any([request.signal, timeout]),
      ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
    });
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  translate(error: unknown, signal: AbortSignal | undefined): YardError {
    if (signal?.aborted) throw signal.reason;
    if (YardError.is(error)) return error;
    if ((error as { name?: unknown }).name === 'TimeoutError')
      return new YardError('TIMEOUT', 'YM-TIMEOUT', `${this.base} did not answer within ${this.timeoutMs} ms.`);
    return unreachable(this.base, error);
  }

  private url({ path, query }: HttpRequest): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(name, String(value));
    return `${this.base}${path}${search.size > 0 ? `?${search.toString()}` : ''}`;
  }
}

/** Resolves after `ms`; rejects with the signal's reason. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const aborted = () => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', aborted);
      resolve();
    }, ms);
    signal?.addEventListener('abort', aborted, { once: true });
  });
}
