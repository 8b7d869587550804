import { execFile } from 'node:child_process';
import { statfs } from 'node:fs/promises';

interface Watch {
  path: string;
  limitBytes: number;
  onOver: () => void;
}

interface Known {
  bytes: number;
  /** Free bytes of the file system when it was measured. */
  free: number;
  at: number;
  tookMs: number;
}

const POLL_MS = 200;
/** Somebody who is already over the limit must still be able to tidy up. */
const SLACK_BYTES = 16 * 1024 * 1024;

/**
 * Ends commands whose folder outgrows its limit. Measuring a folder is dear, asking the file system for its free space is
 * not: a folder is measured again only when so much has been written since that it could be over.
 */
export class DiskGuard {
  readonly #watches = new Set<Watch>();
  readonly #known = new Map<string, Known>();
  readonly #busy = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #polling = false;

  /** Calls `onOver` once when `path` holds more than the limit; the answer ends the watch. */
  watch(path: string, limitMb: number, onOver: () => void): () => void {
    const known = this.#known.get(path);
    const watch: Watch = { path, limitBytes: limitMb * 1024 * 1024, onOver };
    if (known !== undefined) watch.limitBytes = Math.max(watch.limitBytes, known.bytes + SLACK_BYTES);
    this.#watches.add(watch);
    // A folder is measured for the first time as the command starts, before that can have written much.
    if (known === undefined) void this.#measure(path, null);
    this.#timer ??= setInterval(() => void this.#poll(), POLL_MS);
    return () => {
      this.#watches.delete(watch);
      if (this.#watches.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  async #poll(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    try {
      for (const watch of [...this.#watches]) {
        const free = await freeBytes(watch.path);
        const known = this.#known.get(watch.path);
        const possible = known === undefined ? Number.POSITIVE_INFINITY : known.bytes + Math.max(0, known.free - free);
        if (possible <= watch.limitBytes) continue;
        if (known !== undefined && Date.now() - known.at < Math.max(150, known.tookMs * 3)) continue;
        void this.#measure(watch.path, free);
      }
    } finally {
      this.#polling = false;
    }
  }

  async #measure(path: string, freeNow: number | null): Promise<void> {
    if (this.#busy.has(path)) return;
    this.#busy.add(path);
    const startedAt = Date.now();
    try {
      const free = freeNow ?? (await freeBytes(path));
      const bytes = await diskUsage(path);
      const first = !this.#known.has(path);
      if (this.#known.size > 10_000) this.#known.clear();
      this.#known.set(path, { bytes, free, at: Date.now(), tookMs: Date.now() - startedAt });
      for (const watch of [...this.#watches]) {
        if (watch.path !== path || bytes <= watch.limitBytes) continue;
        if (first) watch.limitBytes = bytes + SLACK_BYTES;
        else watch.onOver();
      }
    } catch {
      // gone meanwhile, or busier than du can follow: the next poll tries again
    } finally {
      this.#busy.delete(path);
    }
  }
}

async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path).catch(() => ({ bavail: 0, bsize: 1 }));
  return bavail * bsize;
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
