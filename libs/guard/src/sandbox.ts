import { copyFileSync, lstatSync, mkdirSync, readdirSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Private to one sandbox; a memory file system that ends with it. */
export const SANDBOX_HOME = '/home/agent';

const asset = (path: string): string => fileURLToPath(new URL(`../sandbox/${path}`, import.meta.url));

/** What kernel surface is closed to whatever runs in a sandbox; given to bubblewrap on a descriptor (`--seccomp`). */
export const SECCOMP_FILE = asset(`seccomp/${process.arch === 'arm64' ? 'arm64' : 'x64'}.bpf`);

/** What of the machine's /etc programs need and what is no secret. */
const ETC = ['ld.so.cache', 'alternatives', 'ssl', 'pki', 'localtime', 'mime.types', 'java', 'fonts'];

/** The environment that everything in a sandbox starts with; nothing of whoever starts it is inherited. */
export const SANDBOX_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: SANDBOX_HOME,
  USER: 'agent',
  LOGNAME: 'agent',
  SHELL: '/bin/bash',
  LANG: 'C.UTF-8',
  TERM: 'dumb',
  TMPDIR: '/tmp',
};

export interface SandboxLimits {
  pids: number;
  openFiles: number;
  /** Largest file. */
  diskMb: number;
  memoryMb: number;
}

/**
 * A bound for a single process, so that it cannot outrun whoever watches the sum. It counts what is written to, not
 * what is reserved, so programs that reserve much work.
 */
export function dataLimitKb(memoryMb: number): number {
  return Math.round(memoryMb * 1.5) * 1024 + 65_536;
}

/** Variables that the first bash of a sandbox reads, and that are gone before anything else begins. */
export function limitVariables(limits: SandboxLimits): Record<string, string> {
  return {
    BASH_ENV: '/run/limits',
    SANDBOX_FILES: String(limits.openFiles),
    SANDBOX_FILE_KB: String(limits.diskMb * 1024),
    SANDBOX_DATA_KB: String(dataLimitKb(limits.memoryMb)),
    SANDBOX_PIDS: String(limits.pids),
  };
}

/** Arguments of bubblewrap: namespaces of its own for everything, no network, no capability, no life after its parent. */
export function isolationArguments(): string[] {
  return [
    '--unshare-all',
    '--unshare-user',
    '--disable-userns',
    // Load-bearing: without it a child in a session of its own outlives a killed bwrap.
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
  ];
}

/**
 * Copies what a sandbox sees as /etc into the new folder `path`, once for all sandboxes: a mount for each file costs every
 * command more than a millisecond. Keys of the machine (`ssl/private`) stay out, as does what this user may not read.
 */
export function makeSandboxEtc(path: string): void {
  mkdirSync(path, { recursive: true, mode: 0o755 });
  for (const name of ETC) copyReadable(`/etc/${name}`, join(path, name));
  for (const name of ['passwd', 'group', 'hosts']) copyFileSync(asset(`rootfs/${name}`), join(path, name));
}

function copyReadable(from: string, to: string): void {
  let entry;
  try {
    entry = lstatSync(from);
    // A name of /etc itself may lead elsewhere on the machine: what it leads to is what is meant.
    if (entry.isSymbolicLink() && dirname(from) === '/etc') entry = statSync(from);
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(from), to);
    else if (entry.isFile()) copyFileSync(from, to);
    else if (entry.isDirectory() && from !== '/etc/ssl/private') {
      const names = readdirSync(from);
      mkdirSync(to, { mode: 0o755 });
      for (const name of names) copyReadable(join(from, name), join(to, name));
    }
  } catch (error) {
    if (!/^(ENOENT|EACCES|EPERM|ELOOP)$/.test((error as NodeJS.ErrnoException).code ?? '')) throw error;
  }
}

/**
 * The read-only system: programs and libraries, /etc and `readOnlyPaths`. `etc` comes from `makeSandboxEtc`; without it
 * the same files of the machine are shown one by one, which is dearer and needs nothing made before.
 */
export function systemArguments(readOnlyPaths: readonly string[], etc?: string): string[] {
  const args = ['--ro-bind', '/usr', '/usr', ...systemFolders()];
  if (etc === undefined) {
    args.push('--dir', '/etc');
    for (const name of ETC) args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`);
    for (const name of ['passwd', 'group', 'hosts']) args.push('--ro-bind', asset(`rootfs/${name}`), `/etc/${name}`);
  } else args.push('--ro-bind', etc, '/etc');
  args.push('--ro-bind', asset('rootfs/limits.sh'), '/run/limits');
  for (const path of readOnlyPaths) args.push('--ro-bind', path, path);
  return args;
}

/** /proc, /dev and what may be written without anybody keeping it: each a memory file system of `tmpMb`. */
export function privateArguments(tmpMb: number): string[] {
  const size = String(tmpMb * 1024 * 1024);
  const memory = (path: string) => ['--perms', '1777', '--size', size, '--tmpfs', path];
  return [
    ...['--proc', '/proc', '--dev', '/dev'],
    ...memory('/tmp'),
    ...memory('/dev/shm'),
    ...['--perms', '0700', '--size', size, '--tmpfs', SANDBOX_HOME],
    ...['--symlink', '../tmp', '/var/tmp'],
  ];
}

/** What comes after the last mount: nothing more can be written but what was bound or is private. */
export function sealArguments(cwd: string): string[] {
  return [
    ...['--remount-ro', '/dev', '--remount-ro', '/', '--chdir', cwd],
    ...['--uid', '1000', '--gid', '1000', '--hostname', 'sandbox'],
  ];
}

let system: string[] | undefined;

/** /bin, /lib and their kin as this machine has them: links into /usr, or folders. */
function systemFolders(): string[] {
  system ??= ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'].flatMap((name) => {
    try {
      return lstatSync(`/${name}`).isSymbolicLink()
        ? ['--symlink', readlinkSync(`/${name}`), `/${name}`]
        : ['--ro-bind', `/${name}`, `/${name}`];
    } catch {
      return [];
    }
  });
  return system;
}
