import { randomBytes } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { failpoint } from '@yardmaster/executor-kit';
import { idOf } from '../paths/held-folder.js';
import type { Place } from '../paths/workspace.js';
import { pathError, refusal, shown } from '../refusal.js';
import type { FileContent } from './read-file.js';

const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const TEMPORARY = /^\.ym-[0-9a-f]{16}\.tmp$/;

/** A name for a file that is not there yet; nobody guesses it, and what lists folders leaves such names out. */
export const temporaryName = (): string => `.ym-${randomBytes(8).toString('hex')}.tmp`;
export const isTemporary = (name: string): boolean => TEMPORARY.test(name);

/**
 * Puts `bytes` in the place of what was there when `before` was read (undefined: nothing). Whoever looks sees the
 * old content or the new, also after a kill or a power cut. A file with several names is the exception: it is written
 * in place, so that they stay one file. Throws `stale` when it is no longer what `before` says; nothing is changed then.
 */
export async function replaceFile(
  place: Place,
  bytes: Uint8Array,
  before: FileContent | undefined,
  temporary: string,
): Promise<void> {
  try {
    if (before !== undefined && before.stat.nlink > 1n) await writeInPlace(place, bytes, before);
    else await writeAndRename(place, bytes, before?.stat, temporary);
  } catch (error) {
    throw pathError(error, place.path);
  }
}

async function writeAndRename(
  place: Place,
  bytes: Uint8Array,
  before: BigIntStats | undefined,
  temporary: string,
): Promise<void> {
  const { folder, name } = place;
  const path = folder.at(temporary);
  try {
    // A new file gets what the process's mask leaves; the content of an old one may be private while it is written.
    const handle = await open(path, NEW_FILE, before === undefined ? 0o666 : 0o600);
    try {
      await handle.writeFile(bytes);
      if (before !== undefined) {
        await keepOwner(handle, before);
        await handle.chmod(Number(before.mode & 0o7777n));
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    failpoint('files.temporary.written');
    // Commands write to the workspace too, and they know no lock of ours.
    if (!same(await folder.look(name), before)) throw stale(place);
    await rename(path, folder.at(name));
  } catch (error) {
    await unlink(path).catch(() => undefined);
    throw error;
  }
  failpoint('files.renamed');
  await folder.sync();
}

async function writeInPlace(place: Place, bytes: Uint8Array, before: FileContent): Promise<void> {
  const handle = await open(place.folder.at(place.name), constants.O_WRONLY | constants.O_NOFOLLOW);
  try {
    if (!same(await handle.stat({ bigint: true }), before.stat)) throw stale(place);
    try {
      await overwrite(handle, bytes);
    } catch (error) {
      // The old content needs no more room than it had.
      await overwrite(handle, before.bytes);
      throw error;
    }
  } finally {
    await handle.close();
  }
}

async function overwrite(handle: FileHandle, bytes: Uint8Array): Promise<void> {
  let written = 0;
  while (written < bytes.length)
    written += (await handle.write(bytes, written, bytes.length - written, written)).bytesWritten;
  await handle.truncate(bytes.length);
  await handle.sync();
}

/** Where we may not give a file away, the new one belongs to us; its content and mode are right all the same. */
async function keepOwner(handle: FileHandle, { uid, gid }: BigIntStats): Promise<void> {
  const now = await handle.stat({ bigint: true });
  if (now.uid === uid && now.gid === gid) return;
  await handle.chown(Number(uid), Number(gid)).catch(() => undefined);
}

function same(now: BigIntStats | undefined, before: BigIntStats | undefined): boolean {
  if (now === undefined || before === undefined) return now === before;
  return (
    idOf(now) === idOf(before) &&
    now.size === before.size &&
    now.mtimeNs === before.mtimeNs &&
    now.ctimeNs === before.ctimeNs
  );
}

const stale = ({ path }: Place) =>
  refusal(
    'stale',
    `"${shown(path)}" was changed by something else at this moment. Nothing was written: read it again.`,
  );
