import { constants, type BigIntStats } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY;

/**
 * A folder that is held open: what is done through it cannot be led elsewhere by links that are swapped meanwhile.
 * Node has no openat; a path below /proc/self/fd is resolved by the kernel from the open folder, which is the same.
 */
export class HeldFolder {
  private constructor(private readonly handle: FileHandle) {}

  /** Opens a folder by a path that nobody but us can change; links in it are followed. */
  static async open(path: string): Promise<HeldFolder> {
    return new HeldFolder(await open(path, FOLDER));
  }

  /** The path of one name in this folder, for calls that do not follow a link in last place. */
  at(name: string): string {
    if (name.includes('/') || name.includes('\0') || name === '..' || name === '')
      throw new TypeError('a name in a folder is one component');
    return `${this.path}/${name}`;
  }

  get path(): string {
    return `/proc/self/fd/${this.handle.fd}`;
  }

  /** Opens a folder in this one; a link in its place is not followed (ENOTDIR or ELOOP). */
  async folder(name: string): Promise<HeldFolder> {
    return new HeldFolder(await open(this.at(name), FOLDER | constants.O_NOFOLLOW));
  }

  /** Opens what is there for reading, without following a link and without waiting for the other end of a pipe. */
  file(name: string): Promise<FileHandle> {
    return open(this.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  }

  /** What is there, a link itself included; undefined when there is nothing. */
  async look(name: string): Promise<BigIntStats | undefined> {
    try {
      return await lstat(this.at(name), { bigint: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** The same for every way to this folder. */
  async id(): Promise<string> {
    return idOf(await this.handle.stat({ bigint: true }));
  }

  /** Makes what was renamed, made or removed in the folder last through a power cut. */
  sync(): Promise<void> {
    return this.handle.sync();
  }

  close(): Promise<void> {
    return this.handle.close();
  }
}

/** Device and inode: equal for two names of one file. */
export const idOf = ({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): string => `${dev}:${ino}`;

/** As `idOf`, and another for the next file that gets a freed inode. */
export const lifeOf = (stat: BigIntStats): string => `${idOf(stat)}:${stat.birthtimeNs}`;
