// npm run -s faults -- [--slack N] [ID...]: fault scenarios against real processes and servers.
// Prints one line per scenario, then `N passed, N failed, N skipped`; exit 0 only if none failed. `--slack N`
// multiplies every time limit, for machines with other things to do.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { quiet, violations } from './oracle.ts';
import { Rig } from './rig.ts';
import { type Scenario, Skip } from './scenario.ts';
import { api } from './scenarios/api.ts';
import { approvals } from './scenarios/approvals.ts';
import { cancel } from './scenarios/cancel.ts';
import { failpoints } from './scenarios/failpoints.ts';
import { ownership } from './scenarios/ownership.ts';
import { stores } from './scenarios/stores.ts';
import { tools } from './scenarios/tools.ts';

const SCENARIOS: Record<string, Scenario> = {
  ...failpoints,
  ...stores,
  ...ownership,
  ...cancel,
  ...approvals,
  ...api,
  ...tools,
};

interface Case {
  id: string;
  what: string;
}
const cases = JSON.parse(readFileSync(new URL('../cases/faults/faults.json', import.meta.url), 'utf8')) as Case[];

let slack = 1;
let keep = false;
const wanted: string[] = [];
for (let args = process.argv.slice(2); args.length > 0;) {
  const arg = args.shift()!;
  if (arg === '--slack') slack = Number(args.shift());
  else if (arg === '--keep-logs') keep = true;
  else wanted.push(arg.toUpperCase());
}
const unknown = wanted.filter((id) => !cases.some((each) => each.id === id));
if (unknown.length > 0 || !(slack > 0)) {
  console.error(
    `usage: npm run -s faults -- [--slack N] [--keep-logs] [ID...]; unknown: ${unknown.join(' ') || 'slack'}`,
  );
  process.exit(2);
}

/** Faults that are not run here, and why. */
const NOT_HERE: Record<string, string> = {
  D25: 'not automated: it compares latencies with and without a storm of 120 runs and needs an otherwise idle machine',
  D26: 'not automated: it compares waiting times of 40 tenants and needs an otherwise idle machine',
  D32: 'not automated: it compares the lag of readers at 20 MB of text and needs an otherwise idle machine',
  D34: 'not automated: it fills 200 MB of history and compares memory and latency on an otherwise idle machine',
};

const total = { passed: 0, failed: 0, skipped: 0 };
let shared: Rig | undefined;
/** What the shared stack's scenarios are expected to leave in the dead letters, all together. */
let deadLetters = 0;

async function runOne({ id, what }: Case): Promise<void> {
  const scenario = SCENARIOS[id];
  if (scenario === undefined) return tell(id, what, 'skipped', NOT_HERE[id] ?? 'no scenario is written for it', 0);
  let rig: Rig | undefined;
  const problems: string[] = [];
  let began = performance.now();
  try {
    rig =
      scenario.own === undefined
        ? (shared ??= await Rig.start({ slack }))
        : await Rig.start({ ...scenario.own, slack });
    began = performance.now();
    const from = rig.touched.length;
    const expected = await scenario.run(rig, (holds, text) => void (holds || problems.push(text)));
    const touched = rig.touched.slice(from);
    await quiet(rig, touched);
    const base = scenario.own === undefined ? deadLetters : 0;
    if (scenario.own === undefined) deadLetters += expected?.deadLetters ?? 0;
    problems.push(...(await violations(rig, touched, { deadLetters: base + (expected?.deadLetters ?? 0) })));
  } catch (error) {
    if (error instanceof Skip) {
      tell(id, what, 'skipped', error.message, performance.now() - began);
      return;
    }
    problems.push(
      error instanceof Error ? (process.env['FAULTS_STACKS'] ? (error.stack ?? '') : error.message) : String(error),
    );
  } finally {
    const ms = performance.now() - began;
    if (problems.length > 0 && keep && rig !== undefined)
      for (const [file, log] of rig.logs()) console.error(`--- ${file}\n${log}`);
    if (rig !== undefined && rig !== shared) await rig.stop();
    // A stack that a fault has left in disorder says nothing about the next fault.
    else if (problems.length > 0 && shared !== undefined) {
      await shared.stop();
      shared = undefined;
      deadLetters = 0;
    }
    if (problems.length > 0) tell(id, what, 'failed', problems.join('; '), ms);
    else if (rig !== undefined && !skippedIds.has(id)) tell(id, what, 'passed', '', ms);
  }
}

const skippedIds = new Set<string>();
function tell(id: string, what: string, verdict: keyof typeof total, why: string, ms: number): void {
  total[verdict]++;
  if (verdict === 'skipped') skippedIds.add(id);
  console.log(`${id} ${verdict} ${(ms / 1000).toFixed(1)} s  ${what}${why === '' ? '' : `: ${why}`}`);
}

for (const each of cases) if (wanted.length === 0 || wanted.includes(each.id)) await runOne(each);

if (shared !== undefined) {
  // What came late would have come by now: everything that the shared stack went through is looked at again.
  const began = performance.now();
  try {
    await sleep(3 * shared.ackWaitMs);
    await quiet(shared);
    const late = await violations(shared, shared.touched, { deadLetters });
    if (late.length > 0)
      tell(
        'U1-U6',
        'all scenarios of the shared stack, after three ack waits',
        'failed',
        late.join('; '),
        performance.now() - began,
      );
  } catch (error) {
    tell('U1-U6', 'all scenarios of the shared stack', 'failed', String(error), performance.now() - began);
  } finally {
    await shared.stop();
  }
}
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exit(total.failed === 0 && total.passed + total.skipped > 0 ? 0 : 1);
