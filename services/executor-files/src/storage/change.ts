import { unlink } from 'node:fs/promises';
import { YardError } from '@yardmaster/contracts';
import { failpoint, type ToolContext, type ToolOutcome } from '@yardmaster/executor-kit';
import { idOf, lifeOf } from '../paths/held-folder.js';
import { type Place, resolve } from '../paths/workspace.js';
import { isRefusal, pathError, refusal, shown } from '../refusal.js';
import { type FileServices, workspaceOf } from '../services.js';
import type { Change } from './call-journal.js';
import { type FileContent, readFile } from './read-file.js';
import { replaceFile, temporaryName } from './replace-file.js';

/** A file that is held for changing: nobody else in this process changes it meanwhile. */
export interface HeldFile {
  place: Place;
  /** Undefined when there is no file yet. */
  content: FileContent | undefined;
}

/**
 * Does a changing call once: when the journal knows it, its first result is returned with `already_applied`. A call
 * that was only begun is done again (`resumed`) if its change is not there.
 */
export async function once(
  services: FileServices,
  context: ToolContext,
  run: (resumed: boolean) => Promise<ToolOutcome>,
): Promise<ToolOutcome> {
  const { journal } = services;
  const entry = await journal.find(context);
  if (entry === undefined) return run(false);
  if (entry.state === 'begun') {
    const state = await stateOf(services, context, entry.change);
    if (state === 'missing') {
      await journal.forget(context);
      return run(true);
    }
    if (state === 'unclear')
      throw refusal(
        'unclear',
        'This call was begun before and interrupted, and what it names has been changed since: whether it took effect is unknown. Nothing was done now: look at it again.',
      );
    await journal.finish(context);
  }
  return {
    ...entry.outcome,
    output: `${entry.outcome.output}\n(This call had been applied already; nothing was done again.)`,
    verdict: { ...entry.outcome.verdict, status: 'already_applied', already_applied: true },
  };
}

/**
 * Holds the file that `path` names (through links that stay inside) while `work` reads and changes it. With `create`
 * missing folders are made, if the tenant has room for a file of `room` bytes.
 */
export async function holdFile<T>(
  services: FileServices,
  context: ToolContext,
  path: string,
  options: { create: boolean; maxBytes: number; room?: number },
  work: (file: HeldFile) => Promise<T>,
): Promise<T> {
  const { quotas } = services;
  const makeFolder = async () => {
    // No folders for a file that will not fit.
    await quotas.fits(context.tenant, options.room ?? 0, 2);
    await quotas.take(context.tenant, 0, 1);
  };
  const place = await resolve(workspaceOf(services, context), path, {
    follow: true,
    ...(options.create ? { makeFolder } : {}),
  });
  try {
    return await services.locks.hold([await lockKey(place)], async () => {
      context.signal.throwIfAborted();
      const content = await readFile(services, context, place, options.maxBytes);
      if (content === undefined || content.stat.nlink < 2n) return work({ place, content });
      // Other names of the file are other keys: its inode is one more. It is always taken last.
      return services.locks.hold([`inode ${idOf(content.stat)}`], async () =>
        work({ place, content: await readFile(services, context, place, options.maxBytes) }),
      );
    });
  } finally {
    await place.folder.close();
  }
}

/** The same for all paths to one name. */
export const lockKey = async (place: Place): Promise<string> => `name ${await place.folder.id()}/${place.name}`;

/** Refuses when the file is not the one that the caller has read. */
export function expect(file: HeldFile, expected: string | undefined): void {
  if (expected === undefined) return;
  const name = shown(file.place.path);
  if (file.content === undefined)
    throw refusal('stale', `There is no "${name}" any more. Nothing was written.`, { current_sha256: null });
  const current = file.content.hash;
  if (current !== expected)
    throw refusal(
      'stale',
      `"${name}" has changed since it was read (its SHA-256 is ${current}). Nothing was written: read it again.`,
      { current_sha256: current },
    );
}

/** What is going to be written, with its SHA-256 (hex). */
export interface NewContent {
  bytes: Uint8Array;
  hash: string;
}

/** Puts new content into a held file: quota, journal, then the change. Returns the outcome with what it says of links. */
export async function putContent(
  services: FileServices,
  context: ToolContext,
  { place, content }: HeldFile,
  { bytes, hash }: NewContent,
  outcome: ToolOutcome,
): Promise<ToolOutcome> {
  const stat = content?.stat;
  if (stat !== undefined && (stat.mode & 0o222n) === 0n)
    throw refusal('read_only', `"${shown(place.path)}" is read-only. Nothing was written: change its mode first.`);
  const growth = bytes.length - (content?.bytes.length ?? 0);
  const change = {
    kind: 'content',
    path: place.path,
    before: content?.hash ?? null,
    after: hash,
    temporary: temporaryName(),
  } satisfies Change;
  const told = withLinks(outcome, place, stat?.nlink ?? 1n);
  await services.quotas.take(context.tenant, growth, content === undefined ? 1 : 0);
  try {
    context.signal.throwIfAborted();
    await changeOnce(services, context, change, told, () => replaceFile(place, bytes, content, change.temporary));
  } catch (error) {
    services.quotas.give(context.tenant, growth, content === undefined ? 1 : 0);
    throw error;
  }
  return told;
}

/** Makes a change between its two entries in the journal. */
export async function changeOnce(
  services: FileServices,
  context: ToolContext,
  change: Change,
  outcome: ToolOutcome,
  make: () => Promise<void>,
): Promise<void> {
  await services.journal.begin(context, change, outcome).catch((error: NodeJS.ErrnoException) => {
    // A full disk can be told to the model; any other trouble with the journal is ours.
    throw error.code === 'ENOSPC' || error.code === 'EDQUOT' ? pathError(error, '') : error;
  });
  failpoint('files.journal.begun');
  try {
    await make();
  } catch (error) {
    // Only what was surely not done may be forgotten.
    const state = isRefusal(error, 'stale')
      ? 'missing'
      : await stateOf(services, context, change).catch(() => 'unclear' as const);
    if (state === 'missing') await services.journal.forget(context);
    throw error;
  }
  await services.journal.finish(context);
  failpoint('files.journal.done');
}

function withLinks(outcome: ToolOutcome, { path, links }: Place, nlink: bigint): ToolOutcome {
  const notes: string[] = [];
  const verdict: Record<string, unknown> = { ...outcome.verdict };
  if (links > 0) {
    notes.push(`(Through a link: the file is ${shown(path)}.)`);
    verdict['target'] = path;
  }
  if (nlink > 1n) {
    notes.push(`(The file has ${nlink} names (hard links): it was written in place, and all of them show the change.)`);
    verdict['hard_links'] = Number(nlink);
  }
  return { ...outcome, output: [outcome.output, ...notes].join('\n'), verdict };
}

/** Is the change of a call that was begun there? */
async function stateOf(
  services: FileServices,
  context: ToolContext,
  change: Change,
): Promise<'made' | 'missing' | 'unclear'> {
  switch (change.kind) {
    case 'content': {
      const place = await placeOf(services, context, change.path);
      if (place === undefined) return change.before === null ? 'missing' : 'unclear';
      try {
        // Whoever was interrupted may have left it; a live one finds it gone and gives up.
        await unlink(place.folder.at(change.temporary)).catch(() => undefined);
        const most = services.limits.readBytes + services.limits.writeBytes * 3;
        const content = await readFile(services, context, place, most).catch((error: unknown) => {
          context.signal.throwIfAborted();
          if (!YardError.is(error)) throw error;
          return undefined;
        });
        const now = content?.hash ?? null;
        return now === change.after ? 'made' : now === change.before ? 'missing' : 'unclear';
      } finally {
        await place.folder.close();
      }
    }
    case 'delete': {
      const now = await idAt(services, context, change.path);
      return now === undefined ? 'made' : now === change.id ? 'missing' : 'unclear';
    }
    case 'move': {
      const [from, to] = [await idAt(services, context, change.from), await idAt(services, context, change.to)];
      // Both: the second name was made and the first not yet taken away.
      if (from === change.id) return 'missing';
      return to === change.id ? 'made' : 'unclear';
    }
  }
}

async function idAt(services: FileServices, context: ToolContext, path: string): Promise<string | undefined> {
  const place = await placeOf(services, context, path);
  if (place === undefined) return undefined;
  try {
    const stat = await place.folder.look(place.name);
    return stat && lifeOf(stat);
  } finally {
    await place.folder.close();
  }
}

/** The place of a path without links, or undefined when its folder is not there. */
async function placeOf(services: FileServices, context: ToolContext, path: string): Promise<Place | undefined> {
  try {
    return await resolve(workspaceOf(services, context), path, { follow: false });
  } catch (error) {
    if (isRefusal(error, 'not_found') || isRefusal(error, 'path')) return undefined;
    throw error;
  }
}
