import { createHash, randomBytes } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { argsHash, capOutput, type ToolContext, type ToolOutcome } from '@yardmaster/executor-kit';

/** What a call is about to do, enough to see later whether it was done. */
export type Change =
  | { kind: 'content'; path: string; before: string | null; after: string; temporary: string }
  | { kind: 'move'; from: string; to: string; id: string }
  | { kind: 'delete'; path: string; id: string };

/** A call that changed something, or was about to. */
export interface Entry {
  state: 'begun' | 'done';
  change: Change;
  /** What the call answers when its change is there. */
  outcome: ToolOutcome;
}

/** What names one call: another delivery of it has the same values. */
export type CallKey = Pick<ToolContext, 'tenant' | 'workspace' | 'runId' | 'callId' | 'call'>;

const MAX_OUTPUT_BYTES = 64 * 1024;
/** A folder is looked through once in so many new entries. */
const PRUNE_EVERY = 64;

/**
 * Remembers calls that change files, so that a call which is delivered again is answered instead of done again. An
 * entry is written before the change and renamed after it; one that was only begun names what to look at.
 */
export class CallJournal {
  readonly #begun = new Map<string, number>();

  /** `folder` lies outside all workspaces; the oldest entries of a workspace go when it has more than `maxEntries`. */
  constructor(
    private readonly folder: string,
    private readonly maxEntries: number,
  ) {}

  /** The entry of this call, if it was delivered before. One that cannot be read counts as none. */
  async find(key: CallKey): Promise<Entry | undefined> {
    for (const state of ['done', 'begun'] as const) {
      try {
        const { change, outcome } = JSON.parse(await readFile(this.#path(key, state), 'utf8')) as Omit<Entry, 'state'>;
        if (typeof change?.kind === 'string' && typeof outcome?.output === 'string') return { state, change, outcome };
      } catch (error) {
        if (!(error instanceof SyntaxError) && (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    }
    return undefined;
  }

  /** Writes down what is going to be done; it is on the disk when this resolves. */
  async begin(key: CallKey, change: Change, outcome: ToolOutcome): Promise<void> {
    const folder = this.#folder(key);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const temporary = join(folder, `${randomBytes(8).toString('hex')}.tmp`);
    const text = JSON.stringify({
      change,
      outcome: { ...outcome, output: capOutput(outcome.output, MAX_OUTPUT_BYTES).output },
    });
    try {
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await handle.writeFile(text);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, this.#path(key, 'begun'));
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
    await this.#prune(folder);
  }

  /** The change is there. */
  async finish(key: CallKey): Promise<void> {
    // Pruned meanwhile: the call is old enough to be forgotten.
    await rename(this.#path(key, 'begun'), this.#path(key, 'done')).catch(ignoreMissing);
  }

  /** Nothing was changed. */
  async forget(key: CallKey): Promise<void> {
    await unlink(this.#path(key, 'begun')).catch(ignoreMissing);
  }

  #folder({ tenant, workspace }: CallKey): string {
    return join(this.folder, tenant, workspace);
  }

  #path(key: CallKey, state: Entry['state']): string {
    const hash = key.call.argsHash === '' ? argsHash(key.call.argumentsJson) : key.call.argsHash;
    const name = createHash('sha256')
      .update(JSON.stringify([key.runId, key.callId, hash]))
      .digest('hex');
    return join(this.#folder(key), `${name}.${state}.json`);
  }

  async #prune(folder: string): Promise<void> {
    const begun = this.#begun.get(folder) ?? 0;
    this.#begun.delete(folder);
    this.#begun.set(folder, begun + 1);
    if (this.#begun.size > 10_000) this.#begun.delete(this.#begun.keys().next().value!);
    // The first entry after a start looks too: the count does not outlive the process.
    if (begun % Math.min(PRUNE_EVERY, this.maxEntries) !== 0) return;
    const names = await readdir(folder);
    if (names.length <= this.maxEntries) return;
    const aged = await Promise.all(
      names.map(async (name) => ({
        name,
        at: await stat(join(folder, name)).then(
          ({ mtimeMs }) => mtimeMs,
          () => 0,
        ),
      })),
    );
    aged.sort((a, b) => a.at - b.at);
    for (const { name } of aged.slice(0, names.length - this.maxEntries))
      await unlink(join(folder, name)).catch(ignoreMissing);
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
