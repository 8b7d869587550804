import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { refusal } from '../refusal.js';
import type { FromThread, Tasks, ToThread } from './tasks.js';

export interface ContentThreadsOptions {
  /** Threads at most; 2 to 4, by the machine's processors, when absent. */
  threads?: number;
  /** JavaScript memory of one thread in MB: a task that needs more ends its thread and is refused. */
  heapMb?: number;
}

/** Who the work is for. */
export interface OnBehalf {
  tenant: string;
  /** Ends the work early, with the signal's reason. */
  signal: AbortSignal;
  /** Vectors of texts, for edits. */
  embed?: ((texts: string[]) => Promise<number[][] | undefined>) | undefined;
}

interface Job extends OnBehalf {
  name: keyof Tasks;
  give: object;
  resolve: (back: never) => void;
  reject: (error: unknown) => void;
  abort: () => void;
}

const DEFAULT_HEAP_MB = 512;

/**
 * Threads for all work on the content of files, so that none of it ever holds up the event loop. They start when they
 * are needed, work on one task at a time, and never keep the process alive. One tenant's tasks never take all of them.
 */
export class ContentThreads {
  readonly #size: number;
  readonly #heapMb: number;
  readonly #waiting: Job[] = [];
  readonly #threads = new Set<Thread>();
  #closed = false;

  constructor({ threads, heapMb }: ContentThreadsOptions = {}) {
    this.#size = threads ?? Math.min(4, Math.max(2, availableParallelism()));
    this.#heapMb = heapMb ?? DEFAULT_HEAP_MB;
  }

  /**
   * Does one task. Bytes in it are moved away and are empty afterwards. Rejects with a refusal for what the task cannot
   * be done with, with the signal's reason, or with what ended the thread.
   */
  run<N extends keyof Tasks>(name: N, give: Tasks[N]['give'], { tenant, signal, embed }: OnBehalf) {
    return new Promise<Tasks[N]['back']>((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#closed) throw new Error('The threads were closed.');
      const job: Job = { name, give, tenant, signal, embed, resolve, reject, abort: () => this.#abort(job) };
      signal.addEventListener('abort', job.abort, { once: true });
      this.#waiting.push(job);
      this.#next();
    });
  }

  /** Ends all threads; what they work on is rejected. */
  async close(): Promise<void> {
    this.#closed = true;
    const error = new Error('The threads were closed.');
    for (const job of this.#waiting.splice(0)) settle(job).reject(error);
    await Promise.all([...this.#threads].map((thread) => thread.end(error)));
  }

  #next(): void {
    for (;;) {
      const index = this.#waiting.findIndex((job) => this.#mayTake(job.tenant));
      if (index < 0) return;
      const idle = [...this.#threads].find((thread) => thread.job === undefined);
      if (idle === undefined && this.#threads.size >= this.#size) return;
      const [job] = this.#waiting.splice(index, 1);
      (idle ?? this.#start()).take(job!);
    }
  }

  /** A tenant that keeps threads busy leaves one for the others. */
  #mayTake(tenant: string): boolean {
    let busy = 0;
    for (const { job } of this.#threads) if (job?.tenant === tenant) busy++;
    return busy < Math.max(1, this.#size - 1);
  }

  #start(): Thread {
    const thread: Thread = new Thread(
      this.#heapMb,
      () => this.#next(),
      () => {
        this.#threads.delete(thread);
        if (!this.#closed) this.#next();
      },
    );
    this.#threads.add(thread);
    return thread;
  }

  #abort(job: Job): void {
    const index = this.#waiting.indexOf(job);
    if (index >= 0) {
      this.#waiting.splice(index, 1);
      job.reject(job.signal.reason);
      return;
    }
    // What computes cannot be asked to stop.
    for (const thread of this.#threads) if (thread.job === job) void thread.end(job.signal.reason);
  }
}

function settle(job: Job): Job {
  job.signal.removeEventListener('abort', job.abort);
  return job;
}

class Thread {
  job: Job | undefined;
  readonly #worker: Worker;
  readonly #freed: () => void;
  readonly #gone: () => void;
  #last = 0;

  constructor(heapMb: number, freed: () => void, gone: () => void) {
    this.#freed = freed;
    this.#gone = gone;
    // From source the thread runs the .ts file by type stripping.
    const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    this.#worker = new Worker(new URL(`./content-thread.${ending}`, import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
      // Options of the process may be none for a thread.
      execArgv: [],
    });
    this.#worker.unref();
    this.#worker.on('message', (message: FromThread) => this.#heard(message));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => void this.end(explained(error)));
    this.#worker.on('exit', () => void this.end(new Error('A thread that works on files ended.')));
  }

  take(job: Job): void {
    this.job = job;
    this.#worker.ref();
    const { name, give, embed } = job;
    this.#send({ id: ++this.#last, name, give, mayEmbed: embed !== undefined }, buffersOf(give));
  }

  /** Ends the thread and what it works on; another one takes its place when it is needed. */
  async end(error: unknown): Promise<void> {
    const { job } = this;
    this.job = undefined;
    this.#gone();
    if (job !== undefined) settle(job).reject(error);
    await this.#worker.terminate();
  }

  #send(message: ToThread, moved: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, moved);
  }

  #heard(message: FromThread): void {
    const { job } = this;
    if (job === undefined || message.id !== this.#last) return;
    if ('embed' in message) {
      const { id } = message;
      job.embed!(message.embed).then(
        (vectors) => this.#send({ id, vectors }),
        (error: unknown) => this.#send({ id, failed: error instanceof Error ? error.message : String(error) }),
      );
      return;
    }
    this.job = undefined;
    this.#worker.unref();
    settle(job);
    if ('back' in message) job.resolve(message.back as never);
    else if ('refused' in message) {
      const { reason, message: words, details } = message.refused;
      job.reject(refusal(reason, words, details));
    } else job.reject(new Error(message.failed));
    this.#freed();
  }
}

function explained(error: NodeJS.ErrnoException): unknown {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return error;
  return refusal(
    'too_large',
    'This takes more memory than one call is given. Nothing was written: work on a smaller file, or on less of it.',
  );
}

/** Bytes of a task, alone or in a list. */
function buffersOf(give: object): ArrayBuffer[] {
  return Object.values(give)
    .flat()
    .flatMap((value) => (value instanceof Uint8Array ? [value.buffer as ArrayBuffer] : []));
}
