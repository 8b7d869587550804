import type { BigIntStats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { pathError, refusal, shown } from '../refusal.js';
import type { Place } from '../paths/workspace.js';

export interface FileContent {
  bytes: Buffer;
  stat: BigIntStats;
  /** SHA-256 of the bytes, hex. */
  hash: string;
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** The whole of an ordinary file, or undefined when there is none. Refuses folders, devices, pipes and what is too large. */
export async function readFile(place: Place, maxBytes: number): Promise<FileContent | undefined> {
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
    return { bytes, stat, hash: sha256(bytes) };
  } finally {
    await handle.close();
  }
}

/** All bytes from the start, or undefined when there are more than `maxBytes`: the file may grow while it is read. */
export async function readUpTo(handle: FileHandle, maxBytes: number, expected = 0): Promise<Buffer | undefined> {
  let buffer = Buffer.allocUnsafe(Math.min(maxBytes, expected) + 1);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
    length += bytesRead;
    if (bytesRead === 0) return buffer.subarray(0, length);
    if (length > maxBytes) return undefined;
    if (length === buffer.length)
      buffer = Buffer.concat([buffer], Math.min(maxBytes + 1, Math.max(buffer.length * 2, 64_000)));
  }
}
