// `npm run test:llama`: our router against a real llama.cpp server with a real small model. Where one of them cannot be
// had, the tests are skipped with that reason, and the exit code is 0.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { findModel } from './find-model.ts';
import { findServer } from './find-server.ts';
import { NotToBeHad } from './pip.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));

let found: Record<string, string>;
try {
  found = { YM_LLAMA_SERVER: findServer(), YM_LLAMA_MODEL: findModel() };
} catch (error) {
  // A setting that names something wrong is a mistake; what nobody asked for may be missing.
  const skipped = error instanceof NotToBeHad;
  console.log(`${skipped ? 'skipped' : 'test:llama'}: ${(error as Error).message}`);
  process.exit(skipped ? 0 : 1);
}
console.log(`test:llama: ${found['YM_LLAMA_SERVER']} with ${found['YM_LLAMA_MODEL']}`);
const { status } = spawnSync(
  process.execPath,
  [`${root}node_modules/vitest/vitest.mjs`, 'run', '--config', `${here}vitest.config.ts`, ...process.argv.slice(2)],
  { stdio: 'inherit', cwd: root, env: { ...process.env, ...found } },
);
process.exitCode = status ?? 1;
