import { execFile } from 'node:child_process';
import { closeSync, constants, openSync, rmSync, unlinkSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const BATCH = 128;
const run = promisify(execFile);

/** Both ends of a FIFO that no longer has a name. */
export interface FifoEnds {
  readFd: number;
  writeFd: number;
}

/**
 * Real pipes for children. Node gives a child sockets, and `echo x > /dev/stdout` cannot open a socket by name;
 * FIFOs can be made only by a program, so they are made in batches and lose their name when they are taken.
 */
export class FifoPool {
  readonly #dir: string;
  #free: string[] = [];
  #made = 0;
  #filling: Promise<void> | undefined;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async take(): Promise<FifoEnds> {
    for (;;) {
      const path = this.#free.pop();
      if (path === undefined) {
        await this.fill();
        continue;
      }
      if (this.#free.length < BATCH / 4) void this.fill().catch(() => undefined);
      // The reading end first, without waiting for a writer; then opening the writing end does not wait either.
      const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
      try {
        return { readFd, writeFd: openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW) };
      } catch (error) {
        closeSync(readFd);
        throw error;
      } finally {
        unlinkSync(path);
      }
    }
  }

  fill(): Promise<void> {
    this.#filling ??= (async () => {
      try {
        await mkdir(this.#dir, { recursive: true, mode: 0o700 });
        const paths = Array.from({ length: BATCH }, () => join(this.#dir, `p${this.#made++}`));
        try {
          await run('mkfifo', ['-m', '600', ...paths]);
        } catch (error) {
          // A full disk takes some of them; nobody would ever use those.
          for (const path of paths) rmSync(path, { force: true });
          throw new Error(`no pipes could be made in the state folder: ${reasonOf(error)}`, { cause: error });
        }
        this.#free.push(...paths);
      } finally {
        this.#filling = undefined;
      }
    })();
    return this.#filling;
  }

  async close(): Promise<void> {
    await this.#filling?.catch(() => undefined);
    this.#free = [];
    await rm(this.#dir, { recursive: true, force: true });
  }
}

function reasonOf(error: unknown): string {
  const { stderr = '', message } = error as Error & { stderr?: string };
  return (stderr.trim().split('\n')[0] || message).replace(/^mkfifo: /, '');
}
