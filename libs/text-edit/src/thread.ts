import { Worker } from 'node:worker_threads';

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
}

/** A worker thread that answers calls one by one; it starts with the first call and never keeps the process alive. */
export interface Thread {
  /** Rejects when the thread ends, when a call takes longer than its time, or when the signal aborts: the next call starts anew. */
  call(task: object, timeoutMs: number, signal?: AbortSignal): Promise<unknown>;
  close(): Promise<void>;
}

/** `name` is a file beside this one, without its ending. */
export function createThread(name: string): Thread {
  const waiting = new Map<number, Waiting>();
  let worker: Worker | undefined;
  let last = 0;

  const stop = (error: Error) => {
    const ended = worker?.terminate();
    worker = undefined;
    for (const [id, { reject, timer }] of waiting) {
      clearTimeout(timer);
      waiting.delete(id);
      reject(error);
    }
    return ended;
  };
  const start = () => {
    // From source the thread runs the .ts file by type stripping.
    const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const started = new Worker(new URL(`./${name}.${ending}`, import.meta.url));
    started.unref();
    started.on('message', ({ id, value, error }: { id: number; value?: unknown; error?: string }) => {
      const entry = waiting.get(id);
      if (!entry) return;
      waiting.delete(id);
      clearTimeout(entry.timer);
      if (waiting.size === 0) started.unref();
      if (error === undefined) entry.resolve(value);
      else entry.reject(new Error(error));
    });
    started.on(
      'error',
      (error) => worker === started && void stop(error instanceof Error ? error : new Error(String(error))),
    );
    started.on('exit', () => worker === started && void stop(new Error('the thread ended')));
    return started;
  };

  return {
    call(task, timeoutMs, signal) {
      signal?.throwIfAborted();
      return new Promise<unknown>((resolve, reject) => {
        const thread = (worker ??= start());
        thread.ref();
        const id = ++last;
        const timer = setTimeout(() => void stop(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
        // The thread computes on, but nobody waits for it any more.
        const abort = () => {
          clearTimeout(timer);
          waiting.delete(id);
          reject(signal!.reason as Error);
        };
        signal?.addEventListener('abort', abort, { once: true });
        const done =
          <T>(settle: (value: T) => void) =>
          (value: T) => {
            signal?.removeEventListener('abort', abort);
            settle(value);
          };
        waiting.set(id, { resolve: done(resolve), reject: done(reject), timer });
        thread.postMessage({ ...task, id });
      });
    },
    async close() {
      await stop(new Error('it was closed'));
    },
  };
}
