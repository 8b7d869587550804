import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import type { ToolContext } from '@yardmaster/executor-kit';
import type { Place } from '../paths/workspace.js';
import { pathError, refusal, shown } from '../refusal.js';
import type { FileServices } from '../services.js';

export interface FileBytes {
  bytes: Uint8Array;
  stat: BigIntStats;
}

export interface FileContent extends FileBytes {
  /** SHA-256 of the bytes, hex. */
  hash: string;
}

/** As `readBytes`, with the hash. */
export async function readFile(
  services: FileServices,
  context: ToolContext,
  place: Place,
  maxBytes: number,
): Promise<FileContent | undefined> {
  const read = await readBytes(place, maxBytes);
  if (read === undefined) return undefined;
  const { bytes, stat } = read;
  return { ...(await services.content.run('hash', { bytes }, context)), stat };
}

/** The whole of an ordinary file, or undefined when there is none. Refuses folders, devices, pipes and what is too large. */
export async function readBytes(place: Place, maxBytes: number): Promise<FileBytes | undefined> {
  if (place.name === '.') throw refusal('is_folder', 'The path names the workspace itself, which is a folder.');
  let handle: FileHandle;
  try {
    handle = await place.folder.file(place.name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw pathError(error, place.path);
  }
  try {
    const stat = await handle.stat({ bigint: true });
    if (stat.isDirectory()) throw refusal('is_folder', `"${shown(place.path)}" is a folder: use file_list.`);
    if (!stat.isFile())
      throw refusal('not_a_file', `"${shown(place.path)}" is a device, pipe or socket, not an ordinary file.`);
    const bytes = stat.size > maxBytes ? undefined : await readUpTo(handle, maxBytes, Number(stat.size));
    if (bytes === undefined)
      throw refusal(
        'too_large',
        `"${shown(place.path)}" has ${stat.size} bytes; ${maxBytes} is the limit. Use file_search or shell commands for parts of it.`,
        { bytes: Number(stat.size), limit: maxBytes },
      );
    return { bytes, stat };
  } finally {
    await handle.close();
  }
}

/**
 * All bytes from the start, or undefined when there are more than `maxBytes`: the file may grow while it is read. They
 * have memory of their own, so that it can be moved to a thread.
 */
export async function readUpTo(handle: FileHandle, maxBytes: number, expected = 0): Promise<Buffer | undefined> {
  let buffer = Buffer.allocUnsafeSlow(Math.min(maxBytes, expected) + 1);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
    length += bytesRead;
    if (bytesRead === 0) return buffer.subarray(0, length);
    if (length > maxBytes) return undefined;
    if (length < buffer.length) continue;
    const larger = Buffer.allocUnsafeSlow(Math.min(maxBytes + 1, Math.max(buffer.length * 2, 64_000)));
    buffer.copy(larger);
    buffer = larger;
  }
}
