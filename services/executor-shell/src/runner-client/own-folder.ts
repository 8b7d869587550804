import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTimeOf } from '@yardmaster/guard';

const PREFIX = 'ym-shell-';
const OWNER = 'owner.json';
/** A folder without an owner yet, or of another pid namespace, may belong to somebody who just starts. */
const YOUNG_MS = 60_000;

interface Owner {
  pid: number;
  /** When that process started, in clock ticks since boot: tells it from a later one of the same number. */
  started: string;
  /** Numbers of processes mean something within one pid namespace only. */
  namespace: string;
}

/**
 * Makes the private folder of an executor, for the socket and state of its runner, and removes those of executors that
 * were killed.
 */
export async function makeOwnFolder(parent = tmpdir()): Promise<string> {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(PREFIX)) continue;
    const path = join(parent, name);
    if (await isAbandoned(path)) rmSync(path, { recursive: true, force: true });
  }
  const path = mkdtempSync(join(parent, PREFIX));
  const me: Owner = { pid: process.pid, started: startTimeOf(process.pid), namespace: ownNamespace() };
  writeFileSync(join(path, OWNER), JSON.stringify(me), { mode: 0o600 });
  return path;
}

async function isAbandoned(path: string): Promise<boolean> {
  try {
    const { uid, mtimeMs } = statSync(path);
    if (uid !== process.getuid?.()) return false;
    const owner = readOwner(path);
    if (owner?.namespace === ownNamespace()) return startTimeOf(owner.pid) !== owner.started;
    return Date.now() - mtimeMs > YOUNG_MS && !(await answers(join(path, 'runner.sock')));
  } catch {
    return false;
  }
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
