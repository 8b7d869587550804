import { constants } from 'node:fs';
import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { YardError } from '@yardmaster/contracts';

/** A folder that is held open: what is done through it cannot be led elsewhere by links that are swapped meanwhile. */
export class HeldFolder {
  constructor(private readonly handle: FileHandle) {}

  /** A path that the kernel resolves from the open folder, whatever its name is by now. */
  at(name: string): string {
    return `/proc/self/fd/${this.handle.fd}/${name}`;
  }

  get path(): string {
    return `/proc/self/fd/${this.handle.fd}`;
  }

  close(): Promise<void> {
    return this.handle.close();
  }
}

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const WORKSPACE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** Opens the parent folder of `path` beneath the workspace, component by component, following no link. */
export async function openParent(
  root: string,
  tenant: string,
  workspace: string,
  path: string,
  options: { create?: boolean } = {},
): Promise<{ folder: HeldFolder; name: string }> {
  if (!WORKSPACE.test(workspace))
    throw new YardError('INVALID', 'YM-WORKSPACE', `"${workspace.slice(0, 60)}" is no workspace name.`);
  const parts = partsOf(path);
  const home = join(root, tenant, workspace);
  await mkdir(home, { recursive: true });
  let folder = new HeldFolder(await open(home, FOLDER));
  try {
    for (const part of parts.slice(0, -1)) {
      if (options.create)
        await mkdir(folder.at(part)).catch((error: NodeJS.ErrnoException) =>
          error.code === 'EEXIST' ? undefined : Promise.reject(error),
        );
      const next = new HeldFolder(
        await open(folder.at(part), FOLDER).catch((error: unknown) => Promise.reject(pathError(error, path))),
      );
      await folder.close();
      folder = next;
    }
  } catch (error) {
    await folder.close();
    throw error;
  }
  return { folder, name: parts.at(-1) ?? '.' };
}

function partsOf(path: string): string[] {
  if (path.includes('\0')) throw new YardError('INVALID', 'YM-PATH', 'A path cannot contain a NUL character.');
  if (path.startsWith('/'))
    throw new YardError(
      'INVALID',
      'YM-PATH',
      `"${path.slice(0, 200)}" is absolute: give a path relative to the workspace.`,
    );
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..'))
    throw new YardError(
      'INVALID',
      'YM-PATH',
      `"${path.slice(0, 200)}" leads out of the workspace: ".." is not allowed.`,
    );
  return parts;
}

/** What the system said, in words that a model can act on. */
export function pathError(error: unknown, path: string): YardError {
  const code = (error as NodeJS.ErrnoException).code;
  const shown = path.slice(0, 200);
  switch (code) {
    case 'ENOENT':
      return new YardError('NOT_FOUND', 'YM-PATH-UNKNOWN', `There is no "${shown}" in the workspace.`);
    case 'ELOOP':
    case 'ENOTDIR':
      return new YardError(
        'INVALID',
        'YM-PATH',
        `"${shown}" leads through something that is no folder (or is a link, which is not followed).`,
      );
    case 'EISDIR':
      return new YardError('INVALID', 'YM-PATH', `"${shown}" is a folder.`);
    case 'ENAMETOOLONG':
      return new YardError('INVALID', 'YM-PATH', 'The path is too long.');
    case 'ENOSPC':
    case 'EDQUOT':
      return new YardError('EXHAUSTED', 'YM-DISK-FULL', 'The disk of the workspaces is full.');
    default:
      return YardError.is(error)
        ? error
        : new YardError('INTERNAL', 'YM-FILE', `"${shown}" cannot be used (${code ?? 'error'}).`, { cause: error });
  }
}
