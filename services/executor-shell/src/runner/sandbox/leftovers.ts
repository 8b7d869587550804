import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTimeOf } from '@yardmaster/guard';

/** Variable of bubblewrap's own environment (a command never gets it): which runner started it, and for which command. */
export const MARK = 'YARDMASTER_SANDBOX';
let count = 0;

/** A mark that no other start of a sandbox has. */
export function newMark(): string {
  return `${process.pid}.${startTimeOf(process.pid)}.${++count}`;
}

/**
 * Ends what bubblewrap had begun when it was killed. Between making its child and telling who that is, it leaves that
 * child waiting for ever, with no parent to be found by.
 */
export function endMarked(mark: string): Promise<void> {
  return endAll((found) => found === mark);
}

/** Ends sandboxes whose runner is gone: it is killed with its runner, except in the moment of its own start. */
export function endLeftovers(): Promise<void> {
  return endAll((found) => {
    const [pid, started] = found.split('.');
    return startTimeOf(Number(pid)) !== started;
  });
}

async function endAll(isOver: (mark: string) => boolean): Promise<void> {
  for (let round = 0; round < 100; round++) {
    const found = marked().filter(({ mark }) => isOver(mark));
    if (found.length === 0) return;
    for (const { pid } of found) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // already gone
      }
    }
    await sleep(10);
  }
}

function marked(): { pid: number; mark: string }[] {
  return readdirSync('/proc').flatMap((name) => {
    const pid = Number(name);
    try {
      if (!Number.isInteger(pid) || statSync(`/proc/${pid}`).uid !== process.getuid!()) return [];
      const mark = new RegExp(`(?:^|\\0)${MARK}=([^\\0]*)`).exec(readFileSync(`/proc/${pid}/environ`, 'latin1'))?.[1];
      return mark === undefined || pid === process.pid ? [] : [{ pid, mark }];
    } catch {
      return [];
    }
  });
}
