// What a service costs before it does anything: the time until it is ready on one core, and its memory at rest.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Row } from './report.ts';

const { LocalStack, serviceNames } = await import('../../services/yard/dist/stack/local-stack.js');
const { serviceEntry } = await import('../../services/yard/dist/stack/checkout.js');

const READY_S = 5;
const IDLE_MIB = 160;
const REST_MS = 5_000;

/** One more process of each service joins a running stack, one at a time. */
export async function* services(): AsyncGenerator<Row> {
  const state = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  const stack = await LocalStack.start({
    state,
    model: { yaml: '{}', words: '', model: '', demo: true },
    apiPort: 0,
    onProgress: () => {},
  });
  try {
    for (const name of serviceNames()) {
      const { readyS, idleMib } = await measure(name, stack.environmentOf(name));
      yield row(`service ready ${name}`, readyS, 's', `<= ${READY_S} s`, readyS <= READY_S);
      yield row(`idle RSS ${name}`, idleMib, 'MiB', `<= ${IDLE_MIB} MiB`, idleMib <= IDLE_MIB);
    }
  } finally {
    await stack.stop();
    rmSync(state, { recursive: true, force: true });
  }
}

const row = (metric: string, value: number, unit: string, target: string, ok: boolean): Row => ({
  bench: 'bus',
  metric,
  value,
  unit,
  target,
  ok,
});

async function measure(name: string, env: NodeJS.ProcessEnv): Promise<{ readyS: number; idleMib: number }> {
  const pinned = spawnSync('taskset', ['-c', '0', 'true']).status === 0;
  const command = [...(pinned ? ['taskset', '-c', '0'] : []), process.execPath, serviceEntry(name)];
  const began = performance.now();
  const child = spawn(command[0]!, command.slice(1), { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout });
  await new Promise<void>((resolve, reject) => {
    lines.on('line', (line) => line.includes('"msg":"ready"') && resolve());
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code}`)));
  });
  const readyS = (performance.now() - began) / 1000;
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  const idleMib = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1024;
  child.removeAllListeners('exit');
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await gone;
  return { readyS, idleMib };
}
