// `npm run check`: all that CI does. Every step runs even when an earlier one failed, so that one run shows all.
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { root, run } from './exec.mjs';

const BASELINE = 'libs/contracts/proto-baseline.binpb';
const GENERATED = 'libs/contracts/src/gen';

/** Runs all steps, prints one line for each, and answers 0 when all passed. */
export async function check() {
  const steps = [
    ['generated code is current', generatedIsCurrent, existsSync(join(root, 'proto'))],
    ['protos follow the rules (buf lint)', () => run('buf', ['lint']), existsSync(join(root, 'proto'))],
    [
      'protos break no old message (buf breaking)',
      () => run('buf', ['breaking', '--against', BASELINE]),
      existsSync(join(root, BASELINE)),
    ],
    ['formatting (prettier)', () => run('prettier', ['--log-level', 'warn', '--check', '.'])],
    ['lint (eslint through nx)', () => run('nx', ['run', 'yardmaster:lint'])],
    // After lint: eslint reads the project graph that nx has just written.
    ['forbidden imports are refused', () => run('node', ['libs/local-stack/setup/planted.mjs'])],
    ['build (tsc -b)', () => run('tsc', ['-b'])],
    ['types of tests (tsc)', () => run('tsc', ['-p', 'tsconfig.check.json'])],
    // Without helm it says so and passes.
    ['charts (helm)', () => run('node', ['test/charts/run.ts'])],
    ['tests (vitest)', () => run('vitest', ['run'])],
  ];
  const failed = [];
  let passed = 0;
  for (const [name, step, applies = true] of steps) {
    if (!applies) continue;
    console.log(`\n== ${name}`);
    const from = performance.now();
    const code = await step();
    console.log(`== ${name}: ${code === 0 ? 'ok' : 'FAILED'} (${((performance.now() - from) / 1000).toFixed(1)} s)`);
    if (code >= 128) return code; // interrupted
    if (code === 0) passed++;
    else failed.push(name);
  }
  console.log(`\n${failed.length === 0 ? `check: ${passed} steps passed` : `check FAILED: ${failed.join('; ')}`}`);
  return failed.length === 0 ? 0 : 1;
}

/** Generates the code of proto/ beside the checkout and compares it with what is committed. */
async function generatedIsCurrent() {
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-proto-'));
  try {
    const code = await run('buf', ['generate', '-o', folder]);
    if (code !== 0) return code;
    const fresh = contents(join(folder, GENERATED));
    const committed = contents(join(root, GENERATED));
    const differing = [...new Set([...fresh.keys(), ...committed.keys()])].filter(
      (name) => fresh.get(name) !== committed.get(name),
    );
    for (const name of differing) console.log(`${GENERATED}/${name} is not what proto/ generates: run "npm run proto"`);
    return differing.length === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function contents(folder) {
  if (!existsSync(folder)) return new Map();
  return new Map(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((file) => [relative(folder, file), readFileSync(file, 'utf8')]),
  );
}
