// Entry of every npm script. Plain JavaScript for Node 20 and newer with nothing installed: it installs what is
// missing, makes sure that the pinned Node runs the task, finds the servers, and hands over.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { check } from './check.mjs';
import { ensureDependencies, ensureNode } from './dependencies.mjs';
import { SetupError, root, run, setTool } from './exec.mjs';
import { ensureServers } from './servers.mjs';

/** What each task needs beside the npm packages, and what it does; every `do` returns an exit code. */
const TASKS = {
  start: { servers: 'need', build: true, do: (args) => node('services/yard/dist/main.js', 'start', ...args) },
  test: { servers: 'need', build: true, do: (args) => vitest('run', ...args) },
  check: { servers: 'need', do: () => check() },
  build: { do: (args) => tsc('-b', ...args) },
  // One process for all projects: each would read all types again, which is seven times the work.
  lint: { do: (args) => run('nx', ['run', 'yardmaster:lint', ...args]) },
  format: { do: (args) => run('prettier', ['--log-level', 'warn', '--write', ...(args.length ? args : ['.'])]) },
  proto: { do: () => run('buf', ['generate']) },
  cases: { servers: 'look', build: true, do: (args) => node('test/cases/run.ts', ...args) },
  faults: { servers: 'need', build: true, do: (args) => node('test/faults/run.ts', ...args) },
  bench: { servers: 'need', build: true, do: bench },
  'test:charts': { servers: 'look', build: true, do: (args) => own('charts', args) },
  'test:cluster': { servers: 'look', build: true, do: (args) => own('cluster', args) },
  'test:images': { servers: 'look', do: (args) => own('images', args) },
  'test:llama': { servers: 'need', build: true, do: (args) => own('llama', args) },
};

const node = (...args) => run('node', args);
const tsc = (...args) => run('tsc', args);
const vitest = (...args) => run('vitest', args);

/** Benchmarks: the peers they are measured against have a package.json of their own. */
async function bench(args) {
  if (existsSync(join(root, 'test/bench/package.json'))) await ensureDependencies('test/bench');
  return node('test/bench/run.ts', ...args);
}

/** Tests that need more than the defaults: a runner of their own, else vitest on their folder. */
function own(name, args) {
  const folder = `test/${name}`;
  if (existsSync(join(root, folder, 'run.ts'))) return node(`${folder}/run.ts`, ...args);
  if (existsSync(join(root, folder, 'vitest.config.ts')))
    return vitest('run', '--config', `${folder}/vitest.config.ts`, ...args);
  throw new SetupError(`there are no ${name} tests in ${folder}`);
}

async function main([name, ...args]) {
  const task = TASKS[name];
  if (task === undefined) {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    console.error(`no task "${name ?? ''}"; there are: ${Object.keys(scripts).join(', ')}`);
    return 2;
  }
  // The servers first: what is missing there should be said before minutes of installing packages.
  if (task.servers !== undefined) await ensureServers({ required: task.servers === 'need' });
  await ensureDependencies();
  setTool('node', await ensureNode());
  if (task.build) {
    const code = await tsc('-b');
    if (code !== 0) return code;
  }
  return task.do(args);
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  console.error(`yardmaster: ${error.message}`);
  process.exitCode = error.exitCode;
}
