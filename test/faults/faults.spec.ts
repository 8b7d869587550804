import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';

/** The faults that say most in the shortest time; `npm run -s faults` has the whole list. */
const IDS = ['D01', 'D03', 'D04', 'D05', 'D08', 'D13', 'D14', 'D21'];

let lines: string[] = [];

// The runner is what users run, so it is what is tested; all scenarios share its processes.
beforeAll(async () => {
  const runner = spawn(process.execPath, [join(import.meta.dirname, 'run.ts'), '--slack', '6', ...IDS], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  for (const stream of [runner.stdout, runner.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk.toString()));
  await new Promise((resolve) => runner.once('close', resolve));
  lines = out.trimEnd().split('\n');
}, 600_000);

describe('faults', () => {
  test.each(IDS)('%s', (id) => {
    expect(lines.find((line) => line.startsWith(`${id} `)) ?? lines.join('\n')).toContain(`${id} passed`);
  });

  test('nothing that came late was wrong', () => {
    expect(lines.filter((line) => / failed /.test(line))).toEqual([]);
    expect(lines.at(-1)).toBe(`${IDS.length} passed, 0 failed, 0 skipped`);
  });
});
