import { existsSync, mkdirSync, readFileSync, readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive } from '@yardmaster/guard';

/** The cgroup of one command: what the first process of the sandbox joins, and what it came to. */
export interface CommandCgroup {
  /** Files to which the starting shell writes its own pid. */
  joinFiles: string[];
  /** Peak memory in bytes, CPU in ms, processes ended for lack of memory; null where the kernel does not say. */
  usage(): { peakBytes: number | null; cpuMs: number | null; oomKills: number };
  remove(): Promise<void>;
}

export interface CgroupLimits {
  memoryMb: number;
  pids: number;
}

/** Names that begin so are ours; the number is the pid of the runner that made them. */
const PREFIX = 'yardmaster-shell-';

/**
 * Limits for memory and processes by cgroups, where this process may make them: as root on a machine of its own, or
 * beneath a delegated cgroup. Version 2, or the controllers of version 1.
 */
export class Cgroups {
  readonly version: 1 | 2;
  readonly #bases: Readonly<Record<string, string>>;

  private constructor(version: 1 | 2, bases: Readonly<Record<string, string>>) {
    this.version = version;
    this.#bases = bases;
  }

  /** The usable cgroups, or why there are none. */
  static detect(mount = '/sys/fs/cgroup', ownGroups = readText('/proc/self/cgroup')): Cgroups | string {
    try {
      if (existsSync(join(mount, 'cgroup.controllers'))) return new Cgroups(2, { all: prepareV2(mount, ownGroups) });
      const bases: Record<string, string> = {};
      for (const controller of ['memory', 'pids', 'cpuacct']) {
        const own =
          ownGroups
            .split('\n')
            .find((line) => line.split(':')[1]?.split(',').includes(controller))
            ?.split(':')[2] ?? '/';
        const dir = [join(mount, controller, own), join(mount, controller)].find((path) =>
          existsSync(join(path, 'cgroup.procs')),
        );
        if (dir === undefined) {
          if (controller === 'cpuacct') continue;
          return `there is no ${controller} controller below ${mount}`;
        }
        reap(dir);
        const base = join(dir, `${PREFIX}${process.pid}`);
        mkdirSync(base, { recursive: true });
        bases[controller] = base;
      }
      return new Cgroups(1, bases);
    } catch (error) {
      return `cgroups are not writable here: ${(error as Error).message}`;
    }
  }

  create(name: string, limits: CgroupLimits): CommandCgroup {
    const bytes = String(limits.memoryMb * 1024 * 1024);
    const dirs = Object.fromEntries(Object.entries(this.#bases).map(([key, base]) => [key, join(base, name)]));
    for (const dir of Object.values(dirs)) mkdirSync(dir);
    const file = (controller: string, name: string): string =>
      join(dirs[this.version === 2 ? 'all' : controller]!, name);
    // bwrap itself and its first process inside count as well.
    const pids = String(limits.pids + 4);
    if (this.version === 2) {
      writeFileSync(file('memory', 'memory.max'), bytes);
      quietly(() => writeFileSync(file('memory', 'memory.swap.max'), '0'));
      quietly(() => writeFileSync(file('memory', 'memory.oom.group'), '1'));
      writeFileSync(file('pids', 'pids.max'), pids);
    } else {
      writeFileSync(file('memory', 'memory.limit_in_bytes'), bytes);
      quietly(() => writeFileSync(file('memory', 'memory.memsw.limit_in_bytes'), bytes));
      writeFileSync(file('pids', 'pids.max'), pids);
    }
    return {
      joinFiles: Object.values(dirs).map((dir) => join(dir, 'cgroup.procs')),
      usage: () => {
        if (this.version === 2) {
          const peak = number(readText(file('memory', 'memory.peak')) || readText(file('memory', 'memory.current')));
          const cpu = number(/usage_usec (\d+)/.exec(readText(file('cpu', 'cpu.stat')))?.[1] ?? '');
          const kills = number(/oom_kill (\d+)/.exec(readText(file('memory', 'memory.events')))?.[1] ?? '');
          return { peakBytes: peak, cpuMs: cpu === null ? null : cpu / 1000, oomKills: kills ?? 0 };
        }
        const cpu = 'cpuacct' in dirs ? number(readText(file('cpuacct', 'cpuacct.usage'))) : null;
        const kills = number(/oom_kill (\d+)/.exec(readText(file('memory', 'memory.oom_control')))?.[1] ?? '');
        return {
          peakBytes: number(readText(file('memory', 'memory.max_usage_in_bytes'))),
          cpuMs: cpu === null ? null : cpu / 1e6,
          oomKills: kills ?? 0,
        };
      },
      remove: async () => {
        for (const dir of Object.values(dirs)) await removeDir(dir);
      },
    };
  }

  /** Removes what this runner made; call when no command runs. */
  close(): void {
    for (const base of Object.values(this.#bases)) quietly(() => rmdirSync(base));
  }
}

function prepareV2(mount: string, ownGroups: string): string {
  const own = /^0::(.*)$/m.exec(ownGroups)?.[1] ?? '/';
  let failure = '';
  for (const dir of new Set([join(mount, own), mount])) {
    try {
      reap(dir);
      const enable = (where: string): void => writeFileSync(join(where, 'cgroup.subtree_control'), '+memory +pids');
      // A cgroup with processes in it cannot hand controllers down (except the root), so this may fail for our own.
      enable(dir);
      quietly(() => writeFileSync(join(dir, 'cgroup.subtree_control'), '+cpu'));
      const base = join(dir, `${PREFIX}${process.pid}`);
      mkdirSync(base, { recursive: true });
      enable(base);
      quietly(() => writeFileSync(join(base, 'cgroup.subtree_control'), '+cpu'));
      return base;
    } catch (error) {
      failure = (error as Error).message;
    }
  }
  throw new Error(failure);
}

/** Removes the cgroups of runners that no longer exist. */
function reap(dir: string): void {
  for (const name of readdirSync(dir)) {
    if (!name.startsWith(PREFIX) || isAlive(Number(name.slice(PREFIX.length)))) continue;
    for (const child of readdirSync(join(dir, name), { withFileTypes: true }))
      if (child.isDirectory()) quietly(() => rmdirSync(join(dir, name, child.name)));
    quietly(() => rmdirSync(join(dir, name)));
  }
}

async function removeDir(dir: string): Promise<void> {
  // The last process may still be on its way out for a moment.
  for (let attempt = 0; attempt < 50; attempt++) {
    try {
      await rmdir(dir);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
      await sleep(10 + attempt * 5);
    }
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function number(text: string): number | null {
  const value = Number.parseInt(text, 10);
  return Number.isFinite(value) ? value : null;
}

function quietly(action: () => void): void {
  try {
    action();
  } catch {
    // optional files and controllers
  }
}
