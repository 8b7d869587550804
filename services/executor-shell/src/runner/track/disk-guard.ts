import { execFile } from 'node:child_process';
import { statfsSync } from 'node:fs';

interface Watch {
  path: string;
  limitBytes: number;
  /** False until it is known what the folder held when the command began. */
  settled: boolean;
  onOver: () => void;
}

interface Known {
  bytes: number;
  /** Free bytes of the file system when it was measured. */
  free: number;
  at: number;
  tookMs: number;
}

/** A fast disk takes a gigabyte and more a second. */
const POLL_MS = 25;
/** A folder is not measured more often than this, nor more than a quarter of the time. */
const REST_MS = 30;
/** Somebody who is already over the limit must still be able to tidy up; this much may be written meanwhile. */
const SLACK_BYTES = 1024 * 1024;

/**
 * Ends commands whose folder outgrows its limit. Measuring a folder is dear, asking the file system for its free space is
 * not: a folder is measured again only when so much has been written since that it could be over.
 */
export class DiskGuard {
  readonly #watches = new Set<Watch>();
  readonly #known = new Map<string, Known>();
  readonly #busy = new Map<string, Promise<void>>();
  readonly #root: string;
  #timer: NodeJS.Timeout | undefined;

  /** `root` is the folder of all workspaces: they share its file system. */
  constructor(root: string) {
    this.#root = root;
  }

  /** Calls `onOver` once when `path` holds more than the limit; the answer ends the watch. */
  watch(path: string, limitMb: number, onOver: () => void): () => void {
    const limitBytes = limitMb * 1024 * 1024;
    const settled = this.#possible(path, freeBytes(this.#root)) <= limitBytes;
    const watch: Watch = { path, limitBytes, settled, onOver };
    this.#watches.add(watch);
    // Measured as the command starts, before it can have written much.
    if (!settled) void this.#measure(path);
    this.#timer ??= setInterval(() => this.#poll(), POLL_MS);
    return () => {
      this.#watches.delete(watch);
      // So that the next command begins with the truth.
      if (this.#possible(path, freeBytes(this.#root)) > limitBytes) void this.#measure(path);
      if (this.#watches.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Bytes below a folder when it was last measured. */
  known(path: string): number {
    return this.#known.get(path)?.bytes ?? 0;
  }

  /** Bytes below a folder, measured now when they may be more than the limit. */
  async usage(path: string, limitMb: number): Promise<number> {
    if (this.#possible(path, freeBytes(this.#root)) > limitMb * 1024 * 1024) await this.#measure(path);
    return this.#known.get(path)?.bytes ?? 0;
  }

  /** The most that a folder can hold, judged by what the whole file system has taken since it was measured. */
  #possible(path: string, free: number): number {
    const known = this.#known.get(path);
    return known === undefined ? Number.POSITIVE_INFINITY : known.bytes + Math.max(0, known.free - free);
  }

  #poll(): void {
    const free = freeBytes(this.#root);
    for (const { path, limitBytes } of this.#watches) {
      if (this.#possible(path, free) <= limitBytes) continue;
      const known = this.#known.get(path);
      if (known !== undefined && Date.now() - known.at < Math.max(REST_MS, known.tookMs * 3)) continue;
      void this.#measure(path);
    }
  }

  /** One measurement of a folder at a time; whoever asks meanwhile waits for it. */
  #measure(path: string): Promise<void> {
    const running = this.#busy.get(path);
    if (running !== undefined) return running;
    const work = this.#measureNow(path).finally(() => this.#busy.delete(path));
    this.#busy.set(path, work);
    return work;
  }

  async #measureNow(path: string): Promise<void> {
    const startedAt = Date.now();
    const free = freeBytes(this.#root);
    const bytes = await diskUsage(path).catch(() => null);
    // Gone meanwhile, or busier than du can follow: the next look tries again.
    if (bytes === null) return;
    if (this.#known.size > 10_000) this.#known.clear();
    this.#known.set(path, { bytes, free, at: Date.now(), tookMs: Date.now() - startedAt });
    for (const watch of [...this.#watches]) {
      if (watch.path !== path) continue;
      if (!watch.settled) {
        watch.settled = true;
        if (bytes > watch.limitBytes) watch.limitBytes = bytes + SLACK_BYTES;
      } else if (bytes > watch.limitBytes) watch.onOver();
    }
  }
}

function freeBytes(path: string): number {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return 0;
  }
}

/** Bytes on disk below a folder; never follows a link, never leaves the file system. */
export function diskUsage(path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    execFile(
      'du',
      ['-s', '-x', '--block-size=1', '--', path],
      { timeout: 10_000, maxBuffer: 1024 * 1024 },
      (error, stdout) => {
        // du complains about files that vanish while it looks, and still answers.
        const bytes = Number.parseInt(stdout, 10);
        if (Number.isFinite(bytes)) resolve(bytes);
        else reject(error ?? new Error('du gave no number'));
      },
    );
  });
}
