import { lstatSync, readlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type RunLimits } from './run-sandboxed.js';

/** Where the workspace is inside every sandbox. */
export const WORKSPACE = '/workspace';
/** Private to one command; a memory file system that ends with it. */
export const HOME = '/home/agent';

const rootfs = (name: string): string => fileURLToPath(new URL(`../../../rootfs/${name}`, import.meta.url));

/** What of the machine's /etc programs need and what is no secret. */
const ETC = ['ld.so.cache', 'alternatives', 'ssl', 'pki', 'localtime', 'mime.types', 'java', 'fonts'];

/** The environment that every command starts with; nothing of the runner's own is inherited. */
export const BASE_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME,
  USER: 'agent',
  LOGNAME: 'agent',
  SHELL: '/bin/bash',
  LANG: 'C.UTF-8',
  TERM: 'dumb',
  TMPDIR: '/tmp',
};

/**
 * A bound for a single process, so that it cannot outrun the watchdog; the sum is what the watchdog looks at. It counts
 * what is written to, not what is reserved, so programs that reserve much work.
 */
export function dataLimitKb(memoryMb: number): number {
  return Math.round(memoryMb * 1.5) * 1024 + 65_536;
}

export interface SandboxSpec {
  workspaceHostPath: string;
  /** Path inside the sandbox. */
  cwd: string;
  env: Readonly<Record<string, string>>;
  limits: Pick<RunLimits, 'pids' | 'openFiles' | 'diskMb' | 'memoryMb'>;
  tmpMb: number;
  readOnlyPaths: readonly string[];
  /** File descriptors in the child: the script, the seccomp filter, the status stream. */
  fds: { script: number; seccomp: number; status: number };
  /** Read-only extras, used by the install stage for its way out. */
  extraBinds?: readonly { from: string; to: string }[];
}

/** The arguments of bubblewrap and of what runs inside it, for one command. */
export function bwrapArguments(spec: SandboxSpec): string[] {
  const args = [
    '--unshare-all',
    '--unshare-user',
    '--disable-userns',
    // Load-bearing: without it a child in a session of its own outlives a killed bwrap.
    '--die-with-parent',
    '--new-session',
    '--cap-drop',
    'ALL',
    '--clearenv',
  ];
  const { limits } = spec;
  const environment = {
    ...BASE_ENVIRONMENT,
    ...spec.env,
    // Read once, by the shell that runs the command, and gone before it begins.
    BASH_ENV: '/run/limits',
    SANDBOX_FILES: String(limits.openFiles),
    SANDBOX_FILE_KB: String(limits.diskMb * 1024),
    SANDBOX_DATA_KB: String(dataLimitKb(limits.memoryMb)),
    SANDBOX_PIDS: String(limits.pids),
  };
  for (const [name, value] of Object.entries(environment)) args.push('--setenv', name, value);
  args.push('--ro-bind', '/usr', '/usr', ...systemFolders());
  args.push('--dir', '/etc');
  for (const name of ETC) args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`);
  for (const name of ['passwd', 'group', 'hosts']) args.push('--ro-bind', rootfs(name), `/etc/${name}`);
  args.push('--ro-bind', rootfs('limits.sh'), '/run/limits');
  for (const path of spec.readOnlyPaths) args.push('--ro-bind', path, path);
  const size = String(spec.tmpMb * 1024 * 1024);
  args.push('--proc', '/proc', '--dev', '/dev');
  args.push(
    '--perms',
    '1777',
    '--size',
    size,
    '--tmpfs',
    '/tmp',
    '--perms',
    '1777',
    '--size',
    size,
    '--tmpfs',
    '/dev/shm',
  );
  args.push(
    '--perms',
    '0700',
    '--size',
    size,
    '--tmpfs',
    HOME,
    '--dir',
    '/var/tmp',
    '--size',
    size,
    '--perms',
    '1777',
    '--tmpfs',
    '/var/tmp',
  );
  args.push('--bind', spec.workspaceHostPath, WORKSPACE);
  for (const { from, to } of spec.extraBinds ?? []) args.push('--ro-bind', from, to);
  args.push('--perms', '0444', '--ro-bind-data', String(spec.fds.script), '/run/command');
  args.push(
    '--remount-ro',
    '/dev',
    '--remount-ro',
    '/',
    '--chdir',
    spec.cwd,
    '--uid',
    '1000',
    '--gid',
    '1000',
    '--hostname',
    'sandbox',
  );
  args.push('--seccomp', String(spec.fds.seccomp), '--json-status-fd', String(spec.fds.status), '--');
  args.push('/bin/bash', '--noprofile', '--norc', '/run/command');
  return args;
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
