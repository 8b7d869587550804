import { opendir } from 'node:fs/promises';
import { HeldFolder, idOf } from '../paths/held-folder.js';

export interface Usage {
  bytes: number;
  files: number;
}

const MAX_DEPTH = 255;
/** Looked at together. */
const BATCH = 64;

/**
 * Adds up bytes and number of all files, folders and links of a tenant in `total`, which grows meanwhile; a file with
 * several names counts once.
 */
export async function measure(root: string, tenant: string, total: Usage): Promise<void> {
  const all = await HeldFolder.open(root);
  try {
    const folder = await all.folder(tenant).catch(() => undefined);
    if (folder !== undefined) await count(folder, 0, total, new Set());
  } finally {
    await all.close();
  }
}

/** Closes `folder`. What vanishes or is exchanged meanwhile is not counted. */
async function count(folder: HeldFolder, depth: number, total: Usage, seen: Set<string>): Promise<void> {
  try {
    let names: string[] = [];
    for await (const { name } of await opendir(folder.path, { bufferSize: 256 })) {
      names.push(name);
      if (names.length < BATCH) continue;
      await countNames(folder, names, depth, total, seen);
      names = [];
    }
    await countNames(folder, names, depth, total, seen);
  } finally {
    await folder.close();
  }
}

async function countNames(
  folder: HeldFolder,
  names: readonly string[],
  depth: number,
  total: Usage,
  seen: Set<string>,
): Promise<void> {
  const stats = await Promise.all(names.map((name) => folder.look(name).catch(() => undefined)));
  for (const [index, stat] of stats.entries()) {
    if (stat === undefined) continue;
    if (stat.nlink > 1n && !stat.isDirectory()) {
      if (seen.has(idOf(stat))) continue;
      seen.add(idOf(stat));
    }
    // The folders of the workspaces themselves are not the tenant's.
    if (depth > 0) total.files++;
    if (stat.isFile()) total.bytes += Number(stat.size);
    if (!stat.isDirectory() || depth >= MAX_DEPTH) continue;
    const inner = await folder.folder(names[index]!).catch(() => undefined);
    if (inner !== undefined) await count(inner, depth + 1, total, seen);
  }
}
