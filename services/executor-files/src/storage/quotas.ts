import { opendir } from 'node:fs/promises';
import { HeldFolder, idOf } from '../paths/held-folder.js';
import { refusal } from '../refusal.js';

/** What all workspaces of a tenant may hold together; 0 is no limit. */
export interface QuotaLimits {
  bytes: number;
  files: number;
}

interface Usage {
  bytes: number;
  files: number;
  measuredAt: number;
  measuring: Promise<void> | undefined;
}

/** Commands write past us, so what we count is measured anew after so long, in milliseconds. */
const MEASURE_AGAIN_MS = 60_000;
/** Before a refusal the tenant is measured, unless that was done so recently: something may have been deleted. */
const RECENT_MS = 1_000;
const MAX_DEPTH = 255;

/** Counts what tenants hold, by measuring and by what is written here. */
export class Quotas {
  readonly #usage = new Map<string, Usage>();

  constructor(
    private readonly root: string,
    private readonly limits: QuotaLimits,
    private readonly now = () => performance.now(),
  ) {}

  /** Counts what is going to be written. Throws `quota` when it does not fit; what shrinks always fits. */
  async take(tenant: string, bytes: number, files: number): Promise<void> {
    if (this.limits.bytes === 0 && this.limits.files === 0) return;
    const usage = await this.#of(tenant);
    if (this.#over(usage, bytes, files) && this.now() - usage.measuredAt > RECENT_MS)
      await this.#measure(tenant, usage);
    const what = this.#over(usage, bytes, files);
    if (what !== undefined) throw what;
    usage.bytes += bytes;
    usage.files += files;
  }

  /** Counts what became free, or was not written after all. */
  give(tenant: string, bytes: number, files: number): void {
    const usage = this.#usage.get(tenant);
    if (usage === undefined) return;
    usage.bytes -= bytes;
    usage.files -= files;
  }

  async #of(tenant: string): Promise<Usage> {
    let usage = this.#usage.get(tenant);
    if (usage === undefined) {
      usage = { bytes: 0, files: 0, measuredAt: -Infinity, measuring: undefined };
      this.#usage.set(tenant, usage);
    }
    if (usage.measuredAt === -Infinity) await this.#measure(tenant, usage);
    else if (this.now() - usage.measuredAt > MEASURE_AGAIN_MS) this.#measure(tenant, usage).catch(() => undefined);
    return usage;
  }

  #measure(tenant: string, usage: Usage): Promise<void> {
    return (usage.measuring ??= (async () => {
      try {
        Object.assign(usage, await measure(this.root, tenant), { measuredAt: this.now() });
      } finally {
        usage.measuring = undefined;
      }
    })());
  }

  #over(usage: Usage, bytes: number, files: number) {
    const { limits } = this;
    if (limits.bytes > 0 && bytes > 0 && usage.bytes + bytes > limits.bytes)
      return refusal(
        'quota',
        `Nothing was written: the workspaces hold ${usage.bytes} of ${limits.bytes} bytes, and this needs ${bytes} more. Delete files that are not needed.`,
        { used: usage.bytes, needed: bytes, limit: limits.bytes, unit: 'bytes' },
      );
    if (limits.files > 0 && files > 0 && usage.files + files > limits.files)
      return refusal(
        'quota',
        `Nothing was written: the workspaces hold ${usage.files} of ${limits.files} files and folders, and this needs ${files} more. Delete files that are not needed.`,
        { used: usage.files, needed: files, limit: limits.files, unit: 'files' },
      );
    return undefined;
  }
}

/** Bytes and number of all files, folders and links of a tenant; a file with several names counts once. */
export async function measure(root: string, tenant: string): Promise<QuotaLimits> {
  const total = { bytes: 0, files: 0 };
  const seen = new Set<string>();
  const all = await HeldFolder.open(root);
  try {
    const folder = await all.folder(tenant).catch(() => undefined);
    if (folder !== undefined) await count(folder, 0, total, seen);
    // The folders of the workspaces themselves are not the tenant's.
    return total;
  } finally {
    await all.close();
  }
}

/** Closes `folder`. What vanishes or is exchanged meanwhile is not counted. */
async function count(folder: HeldFolder, depth: number, total: QuotaLimits, seen: Set<string>): Promise<void> {
  try {
    for await (const { name } of await opendir(folder.path)) {
      const found = await folder.look(name).catch(() => undefined);
      if (found === undefined) continue;
      if (found.nlink > 1n && !found.isDirectory()) {
        if (seen.has(idOf(found))) continue;
        seen.add(idOf(found));
      }
      if (depth > 0) total.files++;
      if (found.isFile()) total.bytes += Number(found.size);
      if (!found.isDirectory() || depth >= MAX_DEPTH) continue;
      const inner = await folder.folder(name).catch(() => undefined);
      if (inner !== undefined) await count(inner, depth + 1, total, seen);
    }
  } finally {
    await folder.close();
  }
}
