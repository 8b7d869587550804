import { opendir, rename, rmdir, unlink } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { failpoint, type Tool, type ToolContext } from '@yardmaster/executor-kit';
import { type HeldFolder, lifeOf } from '../paths/held-folder.js';
import { type Place, resolve } from '../paths/workspace.js';
import { pathError, refusal, shown } from '../refusal.js';
import { type FileServices, workspaceOf } from '../services.js';
import { changeOnce, expect, lockKey, once } from '../storage/change.js';
import { readFile } from '../storage/read-file.js';
import { temporaryName } from '../storage/replace-file.js';
import { fileTool } from './definition.js';

interface DeleteArguments {
  path: string;
  recursive?: boolean;
  expected_sha256?: string;
}

interface Removed {
  files: number;
  bytes: number;
}

/** Folders held open one in another. */
const MAX_HELD = 100;

/** `file_delete`: a link is deleted itself, never what it leads to. */
export const fileDelete = (services: FileServices): Tool =>
  fileTool<DeleteArguments>('file_delete', (args, context) =>
    once(services, context, async () => {
      const place = await resolve(workspaceOf(services, context), args.path, { follow: false });
      try {
        if (place.name === '.') throw refusal('path', 'The workspace itself cannot be deleted: name what is in it.');
        return await services.locks.hold([await lockKey(place)], () => remove(services, context, place, args));
      } catch (error) {
        throw pathError(error, args.path);
      } finally {
        await place.folder.close();
      }
    }),
  );

async function remove(services: FileServices, context: ToolContext, place: Place, args: DeleteArguments) {
  const { folder, name } = place;
  const found = await folder.look(name);
  if (found === undefined) throw refusal('not_found', `There is no "${shown(args.path)}" in the workspace.`);
  if (found.isDirectory() && args.recursive !== true)
    throw refusal('is_folder', `"${shown(args.path)}" is a folder: set recursive to delete it with all in it.`);
  if (args.expected_sha256 !== undefined) {
    if (!found.isFile())
      throw refusal('invalid_input', `"${shown(args.path)}" is no ordinary file, so it has no SHA-256 to compare.`);
    expect(
      { place, content: await readFile(services, context, place, services.limits.readBytes) },
      args.expected_sha256,
    );
  }
  const removed: Removed = { files: 0, bytes: 0 };
  const outcome = {
    output: found.isDirectory() ? `Deleted ${shown(args.path)} and all in it.` : `Deleted ${shown(args.path)}.`,
    verdict: { status: 'deleted', path: place.path },
  };
  context.signal.throwIfAborted();
  try {
    await changeOnce(services, context, { kind: 'delete', path: place.path, id: lifeOf(found) }, outcome, async () => {
      if (found.isDirectory()) {
        await empty(await folder.folder(name), context.signal, removed);
        await rmdir(folder.at(name));
      } else {
        await unlink(folder.at(name));
        if (found.isFile() && found.nlink < 2n) removed.bytes += Number(found.size);
      }
      removed.files++;
      failpoint('files.deleted');
      await folder.sync();
    });
  } finally {
    services.quotas.give(context.tenant, removed.bytes, removed.files);
  }
  return outcome;
}

/**
 * Deletes all in a held folder, through held folders, so that no exchanged link leads elsewhere. Closes it. Folders
 * that lie too deep to hold all above them are moved up and deleted in the next round.
 */
async function empty(folder: HeldFolder, signal: AbortSignal, removed: Removed): Promise<void> {
  try {
    while (await emptyTo(folder, folder, signal, removed, 1));
  } finally {
    await folder.close();
  }
}

/** True when folders were moved up into `top`. */
async function emptyTo(
  folder: HeldFolder,
  top: HeldFolder,
  signal: AbortSignal,
  removed: Removed,
  depth: number,
): Promise<boolean> {
  let movedUp = false;
  for await (const { name } of await opendir(folder.path, { bufferSize: 256 })) {
    signal.throwIfAborted();
    const found = await folder.look(name);
    if (found === undefined) continue;
    if (found.isDirectory() && depth >= MAX_HELD) {
      await rename(folder.at(name), top.at(temporaryName()));
      movedUp = true;
      continue;
    }
    if (found.isDirectory()) {
      const inner = await folder.folder(name);
      try {
        movedUp = (await emptyTo(inner, top, signal, removed, depth + 1)) || movedUp;
      } finally {
        await inner.close();
      }
      await rmdir(folder.at(name));
    } else {
      await unlink(folder.at(name));
      if (found.isFile() && found.nlink < 2n) removed.bytes += Number(found.size);
    }
    if (++removed.files % 256 === 0) await nextTurn();
  }
  return movedUp;
}
