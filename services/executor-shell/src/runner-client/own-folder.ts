import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, startTimeOf } from '@yardmaster/guard';

const PREFIX = 'ym-shell-';
const OWNER = 'owner.json';
/** A folder without an owner yet, or of another pid namespace, may belong to somebody who just starts. */
const YOUNG_MS = 60_000;
/** A runner whose executor was killed ends its commands and writes their records; this is more than it needs for that. */
const ENDING_MS = 5_000;
const RECORDS = join('state', 'jobs');
const RECORD = /^job_[0-9a-f]+$/;

interface Owner {
  pid: number;
  /** When that process started, in clock ticks since boot: tells it from a later one of the same number. */
  started: string;
  /** Numbers of processes mean something within one pid namespace only. */
  namespace: string;
}

type State = 'in-use' | 'ending' | 'abandoned';

/** Makes the private folder of an executor, for the socket and state of its runner. */
export function makeOwnFolder(parent = tmpdir()): string {
  const path = mkdtempSync(join(parent, PREFIX));
  const me: Owner = { pid: process.pid, started: startTimeOf(process.pid), namespace: ownNamespace() };
  writeFileSync(join(path, OWNER), JSON.stringify(me), { mode: 0o600 });
  return path;
}

/** Removes an executor's own folder; only the records of background jobs stay, for the executor that comes next. */
export function leaveOwnFolder(path: string): void {
  if (recordsIn(path).length === 0) return rmSync(path, { recursive: true, force: true });
  for (const name of readdirSync(path))
    if (name !== OWNER && name !== 'state') rmSync(join(path, name), { recursive: true, force: true });
  for (const name of readdirSync(join(path, 'state')))
    if (name !== 'jobs') rmSync(join(path, 'state', name), { recursive: true, force: true });
}

/**
 * Moves the records of background jobs from the folders of executors that are gone to `jobsDir`, and removes those
 * folders. With `wait`, runners that are just ending are waited for. Answers how many records it has moved.
 */
export async function inheritJobs(
  jobsDir: string,
  { parent = tmpdir(), wait = false }: { parent?: string; wait?: boolean } = {},
): Promise<number> {
  let moved = 0;
  for (const deadline = Date.now() + ENDING_MS; ; await sleep(50)) {
    let ending = false;
    for (const name of readdirSync(parent)) {
      if (!name.startsWith(PREFIX)) continue;
      const path = join(parent, name);
      const state = await stateOf(path);
      if (state === 'ending') ending = true;
      if (state !== 'abandoned') continue;
      for (const record of recordsIn(path)) if (move(join(path, RECORDS, record), jobsDir, record)) moved++;
      rmSync(path, { recursive: true, force: true });
    }
    if (!wait || !ending || Date.now() > deadline) return moved;
  }
}

function recordsIn(path: string): string[] {
  try {
    return readdirSync(join(path, RECORDS), { withFileTypes: true })
      .filter((entry) => entry.isFile() && RECORD.test(entry.name))
      .map((entry) => entry.name);
  } catch {
    return [];
  }
}

function move(from: string, jobsDir: string, name: string): boolean {
  try {
    mkdirSync(jobsDir, { recursive: true, mode: 0o700 });
    const to = join(jobsDir, name);
    try {
      renameSync(from, to);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
      copyFileSync(from, to);
    }
    return true;
  } catch {
    // Another executor has just taken it, or there is no room: then it will not be found.
    return false;
  }
}

async function stateOf(path: string): Promise<State> {
  try {
    const stat = lstatSync(path);
    if (!stat.isDirectory() || stat.uid !== process.getuid?.()) return 'in-use';
    const owner = readOwner(path);
    const known = owner?.namespace === ownNamespace() ? owner : undefined;
    if (known !== undefined && startTimeOf(known.pid) === known.started) return 'in-use';
    if (known === undefined && Date.now() - stat.mtimeMs <= YOUNG_MS) return 'in-use';
    if (await answers(join(path, 'runner.sock'))) return known === undefined ? 'in-use' : 'ending';
    // It closes its socket first and its records last: what is removed under it would come back without an owner.
    return known !== undefined && hasRunner(path) ? 'ending' : 'abandoned';
  } catch {
    return 'in-use';
  }
}

/** Is a runner of this folder still a process? Each has a folder with its number. */
function hasRunner(path: string): boolean {
  const state = join(path, 'state');
  if (!existsSync(state)) return false;
  return readdirSync(state).some((name) => {
    const pid = /^run-(\d+)$/.exec(name)?.[1];
    return pid !== undefined && isAlive(Number(pid));
  });
}

function readOwner(path: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(join(path, OWNER), 'utf8')) as Owner;
  } catch {
    return undefined;
  }
}

const ownNamespace = (): string => readlinkSync('/proc/self/ns/pid');

function answers(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
