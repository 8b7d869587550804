import { readFileSync, readdirSync } from 'node:fs';

/** What a tree of processes used at one moment. */
export interface TreeUsage {
  pids: number[];
  rssBytes: number;
  cpuMs: number;
}

const PAGE_BYTES = 4096;
const TICK_MS = 10;

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

function children(pid: number): number[] {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
  return threads.flatMap((tid) => read(`/proc/${pid}/task/${tid}/children`).split(' ').filter(Boolean).map(Number));
}

/** Resident memory and CPU of one process and what it has reaped; null when it is gone. */
function usageOf(pid: number): { rssBytes: number; cpuMs: number } | null {
  const stat = read(`/proc/${pid}/stat`);
  // The name may contain anything, the fields begin behind its last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields.length < 22) return null;
  const ticks = Number(fields[11]) + Number(fields[12]) + Number(fields[13]) + Number(fields[14]);
  return { rssBytes: Number(fields[21]) * PAGE_BYTES, cpuMs: ticks * TICK_MS };
}

/**
 * Looks at a process and all below it. In a pid namespace orphans go to its first process, so from there the walk
 * misses nobody; `maxPids` bounds the work.
 */
export function treeUsage(root: number, maxPids = 20_000): TreeUsage {
  const usage: TreeUsage = { pids: [], rssBytes: 0, cpuMs: 0 };
  const queue = [root];
  for (let pid = queue.pop(); pid !== undefined && usage.pids.length < maxPids; pid = queue.pop()) {
    const one = usageOf(pid);
    if (one === null) continue;
    usage.pids.push(pid);
    usage.rssBytes += one.rssBytes;
    usage.cpuMs += one.cpuMs;
    queue.push(...children(pid));
  }
  return usage;
}

/** True while the process exists (a zombie does not count). */
export function isAlive(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`);
  const state = stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
  return state !== '' && state !== 'Z' && state !== 'X';
}

/** When a process started, in clock ticks since boot: tells it from a later one of the same number. Empty when it is gone. */
export function startTimeOf(pid: number): string {
  const stat = read(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}
