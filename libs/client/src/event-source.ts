import { YardError } from '@yardmaster/contracts';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { type Http, pause } from './http.js';
import type { RunEvent } from './types.js';

export interface EventOptions {
  /** Events after this number; 0 from the start. */
  after?: number;
  signal?: AbortSignal;
  /** Give up when there was no connection for this long, in milliseconds (60 000). */
  giveUpAfterMs?: number;
  /** Told when the connection was lost and is made again. */
  onReconnect?: (attempt: number) => void;
}

const TERMINAL = new Set(['run.completed', 'run.failed', 'run.cancelled', 'run.incomplete']);

/**
 * A run's events until its terminal one, each stored event once: a connection that breaks is made again from the last
 * number seen. Throws ApiError (no such run, no permission), UNAVAILABLE after `giveUpAfterMs`, the signal's reason.
 */
export async function* runEvents(
  http: Http,
  run: string,
  options: EventOptions = {},
): AsyncGenerator<RunEvent, void, void> {
  let last = options.after ?? 0;
  let connectedAt = Date.now();
  for (let attempt = 0; ;) {
    // A server that says nothing, not even a comment, is gone: the silence ends the connection.
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(new DOMException('silent', 'TimeoutError')), http.timeoutMs);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new DOMException('silent', 'TimeoutError')), http.timeoutMs);
    };
    try {
      const response = await http.send(
        {
          method: 'GET',
          path: `/v1/runs/${encodeURIComponent(run)}/events`,
          headers: { accept: 'text/event-stream', ...(last > 0 && { 'last-event-id': String(last) }) },
          ...(options.signal && { signal: options.signal }),
        },
        silence.signal,
      );
      attempt = 0;
      connectedAt = Date.now();
      if (response.status === 204 || response.body === null) return;
      const chunks = response.body.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(chunk, controller) {
            heard();
            controller.enqueue(chunk);
          },
        }),
      );
      for await (const message of chunks
        .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
        .pipeThrough(new EventSourceParserStream())) {
        connectedAt = Date.now();
        const event = JSON.parse(message.data) as RunEvent;
        if (event.id !== undefined) {
          if (event.id <= last) continue;
          last = event.id;
        }
        yield event;
        if (TERMINAL.has(event.type)) return;
      }
    } catch (error) {
      const failure = http.translate(error, options.signal);
      const temporary = failure.class === 'UNAVAILABLE' || failure.class === 'TIMEOUT' || failure.class === 'EXHAUSTED';
      if (!temporary) throw failure;
      if (Date.now() - connectedAt > (options.giveUpAfterMs ?? 60_000))
        throw new YardError(failure.class, failure.code, failure.message, { cause: failure });
    } finally {
      clearTimeout(timer);
    }
    options.onReconnect?.(++attempt);
    await pause(Math.min(100 * 2 ** Math.min(attempt, 6), 5_000), options.signal);
  }
}
