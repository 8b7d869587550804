import { readFileSync, readdirSync, readlinkSync, statSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RunnerConfig } from '../config.js';
import { type Validated } from '../validate.js';
import { BASE_ENVIRONMENT, WORKSPACE } from './bwrap-arguments.js';
import { type Launcher, profileHash } from './launcher.js';
import { type Launch } from './run-sandboxed.js';

/** Marks what belongs to a command; a process that drops it belongs to nobody and is ended with the next command. */
const MARK = 'YARDMASTER_COMMAND';

/**
 * Mode pod: the pod itself is the sandbox (gVisor or Kata, one for a session), so nothing is built around a command. What a
 * command leaves behind is found by its mark, and by belonging to nobody.
 */
export class PodLauncher implements Launcher {
  readonly mode = 'pod';
  readonly profileHash: string;
  readonly #dir: string;
  readonly #live = new Set<string>();

  constructor(config: RunnerConfig, privateDir: string) {
    this.#dir = join(privateDir, 'commands');
    this.profileHash = profileHash(config, { mode: 'pod' });
  }

  async prepare(
    key: string,
    validated: Validated,
  ): Promise<{ launch: Launch; sweep: () => void; cleanUp: () => Promise<void> }> {
    const folder = join(this.#dir, key);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const script = join(folder, 'command');
    await writeFile(script, validated.command, { mode: 0o400 });
    this.#live.add(key);
    const home = join(folder, 'home');
    await mkdir(home, { mode: 0o700 });
    const launch: Launch = {
      program: '/usr/bin/prlimit',
      // Here the limit counts every task of this user, the runner's own included.
      args: [`--nproc=${validated.limits.pids + ownTasks()}`, '/bin/bash', '--noprofile', '--norc', script],
      env: { ...BASE_ENVIRONMENT, ...validated.env, HOME: home, [MARK]: key },
      cwd: validated.hostPath + validated.cwd.slice(WORKSPACE.length),
      sandbox: 'none',
    };
    return {
      launch,
      sweep: () => this.#sweep(key),
      cleanUp: async () => {
        this.#live.delete(key);
        this.#sweep(key);
        await rm(folder, { recursive: true, force: true });
      },
    };
  }

  /** Ends the processes of a command and those that nobody owns; again until no new one appears. */
  #sweep(key: string): void {
    for (let round = 0; round < 5; round++) {
      const found = strangers().filter(({ mark }) => mark === null || mark === key || !this.#live.has(mark));
      if (found.length === 0) return;
      for (const { pid } of found) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // already gone
        }
      }
    }
  }
}

/** Ends what a runner that was killed has left running; only its mark tells it from what does not belong here. */
export async function endLeftovers(): Promise<void> {
  for (let round = 0; round < 50; round++) {
    const left = strangers().filter(({ mark }) => mark !== null);
    if (left.length === 0) return;
    for (const { pid } of left) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // already gone
      }
    }
    await sleep(20);
  }
}

/** Processes of this user in this pod that are neither the runner, nor above it, nor what it started for itself. */
export function strangers(): { pid: number; mark: string | null }[] {
  const parents = ancestors(process.pid);
  return readdirSync('/proc').flatMap((name) => {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid || parents.has(pid)) return [];
    try {
      if (statSync(`/proc/${pid}`).uid !== process.getuid!()) return [];
      const { state, parent } = statOf(pid);
      if (state === 'Z') return [];
      const mark =
        new RegExp(`(?:^|\\0)${MARK}=([^\\0]*)`).exec(readFileSync(`/proc/${pid}/environ`, 'latin1'))?.[1] ?? null;
      if (
        mark === null &&
        parent === process.pid &&
        /\/(du|mkfifo|dash|sh|node)$/.test(readlinkSync(`/proc/${pid}/exe`))
      )
        return [];
      return [{ pid, mark }];
    } catch {
      return [];
    }
  });
}

function ownTasks(): number {
  let count = 0;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      if (statSync(`/proc/${name}`).uid === process.getuid!()) count += readdirSync(`/proc/${name}/task`).length;
    } catch {
      // gone meanwhile
    }
  }
  return count;
}

function ancestors(pid: number): Set<number> {
  const found = new Set<number>();
  for (let next = statOf(pid).parent; next > 0 && !found.has(next); next = statOf(next).parent) found.add(next);
  return found;
}

function statOf(pid: number): { state: string; parent: number } {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0]!, parent: Number(fields[1]) };
}
