import { opendir } from 'node:fs/promises';
import { Pace } from '../pace.js';
import type { HeldFolder } from '../paths/held-folder.js';
import { readUpTo } from '../storage/read-file.js';
import { isTemporary } from '../storage/replace-file.js';
import { type IgnoreFile, isIgnored, parseIgnore } from './ignore-rules.js';

/** One thing in a folder; `folder` is held only until the next one is asked for. */
export interface Entry {
  path: string;
  name: string;
  kind: 'file' | 'folder' | 'link' | 'other';
  folder: HeldFolder;
  /** A .gitignore names it. An ignored folder is named and not entered. */
  ignored: boolean;
}

export type IgnoreFiles = readonly { base: string; rules: IgnoreFile }[];

export interface WalkOptions {
  /** Levels, 1 for the folder alone. */
  depth: number;
  signal: AbortSignal;
  /** The .gitignore files of the folders above, the outermost first. */
  ignore?: IgnoreFiles;
  /** Called before a folder is let go whose entries were named. */
  beforeLeaving?: () => Promise<void>;
  /** Told of folders that could not be entered or not be listed whole. */
  onIncomplete?: (path: string) => void;
}

/** No deeper than this, whatever was asked: each level holds a folder open. */
export const MAX_DEPTH = 100;
const MAX_IN_FOLDER = 20_000;
const MAX_IGNORE_BYTES = 256_000;

/**
 * Everything beneath a held folder, names in order, through held folders: links are named and never entered. `.git` and
 * our own temporary files are left out. Does not close `folder`.
 */
export async function* walk(folder: HeldFolder, path: string, options: WalkOptions): AsyncGenerator<Entry> {
  yield* inside(folder, path, { ...options, depth: Math.min(options.depth, MAX_DEPTH) }, options.ignore ?? [], {
    pace: new Pace(options.signal),
    whole: options.depth >= MAX_DEPTH,
  });
}

async function* inside(
  folder: HeldFolder,
  path: string,
  options: WalkOptions,
  above: IgnoreFiles,
  { pace, whole }: { pace: Pace; whole: boolean },
): AsyncGenerator<Entry> {
  const { signal, onIncomplete } = options;
  const { entries, complete } = await listed(folder);
  if (!complete) onIncomplete?.(path);
  const own = entries.some(({ name }) => name === '.gitignore') ? await ignoreFileIn(folder, pace) : undefined;
  const ignore = own === undefined ? above : [...above, { base: path, rules: own }];
  for (const { name, kind } of entries) {
    signal.throwIfAborted();
    // Rules of a tenant may be many: other calls get their turn.
    if (pace.isDue) await pace.turn();
    const inner = path === '' ? name : `${path}/${name}`;
    const entry = { path: inner, name, kind, folder, ignored: await isIgnored(ignore, inner, kind === 'folder', pace) };
    yield entry;
    if (kind !== 'folder' || entry.ignored) continue;
    if (options.depth <= 1) {
      if (whole) onIncomplete?.(inner);
      continue;
    }
    const next = await folder.folder(name).catch(() => undefined);
    if (next === undefined) {
      onIncomplete?.(inner);
      continue;
    }
    try {
      yield* inside(next, inner, { ...options, depth: options.depth - 1 }, ignore, { pace, whole });
      await options.beforeLeaving?.();
    } finally {
      await next.close();
    }
  }
}

async function listed(folder: HeldFolder): Promise<{ entries: Pick<Entry, 'name' | 'kind'>[]; complete: boolean }> {
  const entries: Pick<Entry, 'name' | 'kind'>[] = [];
  const directory = await opendir(folder.path, { bufferSize: 256 });
  for await (const entry of directory) {
    const { name } = entry;
    if (name === '.git' || isTemporary(name)) continue;
    // Leaving the loop closes the folder.
    if (entries.length >= MAX_IN_FOLDER) return { entries: inOrder(entries), complete: false };
    const kind = entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other';
    entries.push({ name, kind });
  }
  return { entries: inOrder(entries), complete: true };
}

const inOrder = (entries: Pick<Entry, 'name' | 'kind'>[]) =>
  entries.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

/** The rules of a folder's .gitignore; one that is a link, no file or too large counts as none. */
export async function ignoreFileIn(folder: HeldFolder, pace: Pace): Promise<IgnoreFile | undefined> {
  const handle = await folder.file('.gitignore').catch(() => undefined);
  if (handle === undefined) return undefined;
  try {
    if (!(await handle.stat()).isFile()) return undefined;
    const bytes = await readUpTo(handle, MAX_IGNORE_BYTES);
    return bytes && (await parseIgnore(bytes.toString('utf8'), pace));
  } catch {
    return undefined;
  } finally {
    await handle.close();
  }
}
