import { backoffMs } from '@yardmaster/bus';
import { ApiFailure, inWords } from './connection.js';
import type { Timing } from './timing.js';

/** The parts of an object that following it needs. */
export interface Kept {
  metadata?: { name?: string; namespace?: string; uid?: string; resourceVersion?: string };
}

export interface WatchEvent<T> {
  type: string;
  object: T & { code?: number; message?: string };
}

/** One list of objects at the API server, in the two ways in which it can be read. */
export interface WatchSource<T> {
  /** One page. Throws ApiFailure. */
  list(
    page: { continue: string | undefined },
    signal: AbortSignal,
  ): Promise<{ items: T[]; resourceVersion: string; continue: string | undefined }>;
  /** Changes after a version, as long as the server keeps it open. Throws ApiFailure, also in the middle. */
  watch(from: { resourceVersion: string; timeoutSeconds: number }, signal: AbortSignal): AsyncIterable<WatchEvent<T>>;
}

export interface WatchSettings {
  /** How long the server is asked to keep a watch open; 25 % more or less, so that replicas do not end theirs together. */
  watchMs: number;
  /** A watch that outlives what it was asked for by so much hangs. */
  graceMs: number;
  /** A list older than this is read anew when a watch ends, whatever the watch said: what it lost is found then. */
  relistMs: number;
  /** A connection that was away for longer than this is not trusted with where it left off. */
  lostMs: number;
  listMs: number;
  backoffMs: number;
  backoffCapMs: number;
  /** A watch that lived for so long, or brought something, is a success: the next failure starts the waits anew. */
  settledMs: number;
}

/** Together: a deletion is seen within watchMs x 1.25 + graceMs + relistMs = 280 s, whatever a watch loses or hides. */
export const WATCH_SETTINGS: WatchSettings = {
  watchMs: 120_000,
  graceMs: 10_000,
  relistMs: 120_000,
  lostMs: 5_000,
  listMs: 15_000,
  backoffMs: 500,
  backoffCapMs: 30_000,
  settledMs: 1_000,
};

export type WatchPhase = 'listing' | 'watching' | 'waiting' | 'stopped';

export interface WatchReport {
  phase: WatchPhase;
  /** Complete lists. */
  lists: number;
  /** Watches opened. */
  watches: number;
  failures: number;
  /** Time of the last complete list by the timing's clock. */
  listedAt: number | undefined;
  /** What went wrong last; undefined since the last success. */
  problem: string | undefined;
}

/**
 * Follows a list of objects for as long as it runs, whatever the connection does. The informer of the library ends for
 * good on a reset, a cut chunk, a 500 or a restarted server; this one lists, watches from the list's version with a
 * bounded time, goes on where it was, lists anew when that is too old or the connection was away, and replaces all it
 * knows by each list, so that a lost deletion cannot last. One request is open at a time.
 */
export class SupervisedWatch<T extends Kept> {
  readonly report: WatchReport = {
    phase: 'stopped',
    lists: 0,
    watches: 0,
    failures: 0,
    listedAt: undefined,
    problem: undefined,
  };
  private objects = new Map<string, T>();
  private version: string | undefined;
  /** When the connection was lost; undefined while it is there. */
  private lostAt: number | undefined;

  constructor(
    private readonly source: WatchSource<T>,
    private readonly timing: Timing,
    private readonly settings: WatchSettings,
    /** Told of every change, with everything that is there now. */
    private readonly onChange: (objects: ReadonlyMap<string, T>) => void,
    private readonly onProblem: (problem: string) => void = () => undefined,
  ) {}

  get current(): ReadonlyMap<string, T> {
    return this.objects;
  }

  /** Runs until the signal is aborted. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { settledMs, backoffMs: base, backoffCapMs } = this.settings;
    let failures = 0;
    let expired = false;
    while (!signal.aborted) {
      let watchedSince = Infinity;
      let brought = false;
      const succeeded = () => {
        brought = true;
        failures = 0;
        expired = false;
        this.report.problem = undefined;
      };
      try {
        if (this.mustList()) await this.list(signal);
        if (signal.aborted) break;
        watchedSince = this.timing.now();
        await this.watch(signal, succeeded);
        this.lostAt = undefined;
        // A server that ends each watch at once is asked no more often than one that fails.
        if (this.timing.now() - watchedSince >= settledMs) succeeded();
        else if (!brought) failures++;
      } catch (error) {
        if (signal.aborted) break;
        const settled = brought || this.timing.now() - watchedSince >= settledMs;
        if (settled) succeeded();
        // Too old for the server is nobody's failure: read anew at once, the first time.
        const isExpired = error instanceof ApiFailure && error.status === 410;
        if (isExpired) this.version = undefined;
        if (isExpired && !expired) {
          expired = true;
          continue;
        }
        this.lostAt = settled ? this.timing.now() : (this.lostAt ?? this.timing.now());
        this.report.failures++;
        this.report.problem = inWords(error);
        this.onProblem(this.report.problem);
        failures++;
      }
      if (failures > 0 && !signal.aborted) {
        this.report.phase = 'waiting';
        await this.timing.sleep(
          backoffMs(failures - 1, base, backoffCapMs, () => this.timing.random()),
          signal,
        );
      }
    }
    this.report.phase = 'stopped';
  }

  private mustList(): boolean {
    const now = this.timing.now();
    const { listedAt } = this.report;
    if (this.version === undefined || listedAt === undefined) return true;
    if (this.lostAt !== undefined && now - this.lostAt > this.settings.lostMs) return true;
    return now - listedAt >= this.settings.relistMs;
  }

  /** Reads everything; what it does not mention is gone. */
  private async list(signal: AbortSignal): Promise<void> {
    this.report.phase = 'listing';
    const end = endingWith(signal);
    const timer = setTimeout(
      () => end.abort(new DOMException('the list took too long', 'TimeoutError')),
      this.settings.listMs,
    );
    timer.unref();
    try {
      await this.readAll(signal, end.signal);
    } finally {
      clearTimeout(timer);
      end.leave();
    }
  }

  private async readAll(signal: AbortSignal, limit: AbortSignal): Promise<void> {
    const all = new Map<string, T>();
    let next: string | undefined;
    let version: string;
    do {
      const page = await this.source.list({ continue: next }, limit);
      for (const object of page.items) all.set(keyOf(object), object);
      version = page.resourceVersion;
      next = page.continue;
    } while (next !== undefined && next !== '');
    // Whoever was told to stop in the meantime gets no late news.
    if (signal.aborted) return;
    this.objects = all;
    this.version = version;
    this.lostAt = undefined;
    this.report.lists++;
    this.report.listedAt = this.timing.now();
    this.report.problem = undefined;
    this.onChange(this.objects);
  }

  private async watch(signal: AbortSignal, brought: () => void): Promise<void> {
    const { watchMs, graceMs } = this.settings;
    const bounded = watchMs * (0.75 + 0.5 * this.timing.random());
    const end = endingWith(signal);
    let hangs = false;
    const timer = setTimeout(() => {
      hangs = true;
      end.abort();
    }, bounded + graceMs);
    timer.unref();
    this.report.phase = 'watching';
    this.report.watches++;
    try {
      const from = { resourceVersion: this.version!, timeoutSeconds: Math.max(1, Math.round(bounded / 1000)) };
      for await (const event of this.source.watch(from, end.signal)) {
        if (signal.aborted) return;
        this.apply(event);
        brought();
      }
    } catch (error) {
      if (hangs)
        throw new ApiFailure(0, 'the watch hung: nothing came, and the server did not end it in its time', {
          cause: error,
        });
      throw error;
    } finally {
      clearTimeout(timer);
      end.leave();
      // Whatever ended the loop, its socket goes too.
      end.abort();
    }
  }

  private apply({ type, object }: WatchEvent<T>): void {
    if (type === 'ERROR')
      throw new ApiFailure(object.code ?? 0, `the watch ends: ${object.message ?? 'no reason given'}`);
    this.version = object.metadata?.resourceVersion ?? this.version;
    if (type === 'BOOKMARK') return;
    const changed = new Map(this.objects);
    if (type === 'DELETED') changed.delete(keyOf(object));
    else changed.set(keyOf(object), object);
    this.objects = changed;
    this.onChange(changed);
  }
}

/**
 * Aborted with the signal, or by itself. Not `AbortSignal.any`: every signal that is derived from one that lives as long as
 * the process stays in its list until the next collection of garbage, and there is one for every cut.
 */
function endingWith(signal: AbortSignal) {
  const end = new AbortController();
  const follow = () => end.abort(signal.reason);
  signal.addEventListener('abort', follow, { once: true });
  if (signal.aborted) follow();
  return {
    signal: end.signal,
    abort: (reason?: unknown) => end.abort(reason),
    leave: () => signal.removeEventListener('abort', follow),
  };
}

const keyOf = ({ metadata }: Kept): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
