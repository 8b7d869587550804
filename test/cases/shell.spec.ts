import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ordinaryUser } from '@yardmaster/testkit';
import { describe, expect, it } from 'vitest';
import type { Verdict } from './suite.ts';
import { attacks } from './suites/shell-attacks.ts';
import { suite as dependencies } from './suites/shell-deps.ts';

const file = (name: string): string => new URL(`./sandbox/${name}`, import.meta.url).pathname;
const content = (name: string): unknown => JSON.parse(readFileSync(file(name), 'utf8'));
const MINUTES = 60_000;

/** Every case must pass; one that was skipped says what it lacked. */
async function allPass(verdicts: AsyncIterable<Verdict> | Iterable<Verdict>): Promise<void> {
  const failed = [];
  let passed = 0;
  for await (const verdict of verdicts) {
    if (verdict.ok) passed++;
    else if (verdict.skipped === undefined) failed.push(verdict);
    else console.log(`skipped ${verdict.id}: ${verdict.skipped}`);
  }
  expect(failed).toEqual([]);
  expect(passed).toBeGreaterThan(30);
}

/** Why root has no cgroups to limit commands with; asked of the kernel, not of the code under test. */
function noCgroups(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root: an ordinary user runs the cases without cgroups';
  const mount = '/sys/fs/cgroup';
  const v2 = existsSync(join(mount, 'cgroup.controllers'));
  try {
    for (const base of v2 ? [mount] : [join(mount, 'memory'), join(mount, 'pids')]) {
      const probe = join(base, `yardmaster-probe-${process.pid}`);
      mkdirSync(probe);
      rmdirSync(probe);
    }
    if (v2) writeFileSync(join(mount, 'cgroup.subtree_control'), '+memory +pids');
    return undefined;
  } catch (error) {
    return `needs cgroups that root may write to (${(error as Error).message})`;
  }
}

describe('sandbox cases', () => {
  it(
    'every command comes to its verdict, without privileges',
    async (context) => {
      const user = ordinaryUser(file('attacks.json'));
      if (typeof user === 'string') return context.skip(user);
      await allPass(attacks(content('attacks.json'), 'unprivileged'));
    },
    5 * MINUTES,
  );

  it(
    'every command comes to its verdict, as root with cgroups',
    async (context) => {
      const why = noCgroups();
      if (why !== undefined) return context.skip(why);
      await allPass(attacks(content('attacks.json'), 'root'));
    },
    5 * MINUTES,
  );

  it('every missing dependency is told', () => allPass(dependencies(content('deps.json'), file('deps.json'))));
});
