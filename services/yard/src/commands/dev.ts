import { spawn } from 'node:child_process';
import { mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Invocation } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { ago, table } from '../cli/table.js';
import { EXIT } from '../exit-codes.js';
import { bringUp, runningStack, type RunningStack } from '../stack/bring-up.js';
import { lastStack, stackFile, stateFolder } from '../stack/checkout.js';
import { StackError } from '../stack/stack-error.js';
import { seconds } from '../terminal.js';

const DETACHED_WAIT_MS = 120_000;
const DOWN_WAIT_MS = 30_000;

/** `yard dev up`: the local stack without a sample task. */
export async function up(invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  const existing = runningStack();
  if (existing !== undefined) {
    terminal.line(`the stack runs already: process ${existing.pid}, ${existing.api_url}, since ${existing.started_at}`);
    return EXIT.ok;
  }
  if (invocation.on('dry-run')) {
    terminal.line(`would start a stack with its state in ${stateFolder()}`);
    return EXIT.ok;
  }
  if (invocation.on('detach')) return detach(invocation);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  let running: RunningStack;
  try {
    running = await bringUp({
      config: invocation.text('config'),
      provider: invocation.text('provider'),
      apiPort: invocation.number('port'),
      signal: stop.signal,
      onProgress: ({ what, state, ms, words }) =>
        terminal.line(
          `${state} ${what}${ms === undefined ? '' : ` ${seconds(ms)}`}${words === undefined ? '' : `: ${words}`}`,
        ),
    });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    terminal.line('stopped');
    return EXIT.interrupted;
  }
  terminal.line(`model ${running.modelWords}`);
  terminal.line(`API ${running.stack.file.api_url}; its key is in ${stackFile()}`);
  if (!stop.signal.aborted)
    await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve(), { once: true }));
  terminal.line('stopping');
  await running.stop();
  return EXIT.ok;
}

/** The same in a process of its own; returns when it is ready. */
async function detach(invocation: Invocation): Promise<number> {
  const { terminal } = invocation;
  const log = join(stateFolder(), 'stack.log');
  mkdirSync(stateFolder(), { recursive: true, mode: 0o700 });
  const out = openSync(log, 'w', 0o600);
  const args = invocation.rest.filter((arg) => arg !== '--detach');
  const child = spawn(process.execPath, [process.argv[1]!, 'dev', 'up', ...args], {
    detached: true,
    stdio: ['ignore', out, out],
  });
  let exited: number | null = null;
  child.once('exit', (code) => (exited = code ?? 1));
  const until = Date.now() + (invocation.waitMs ?? DETACHED_WAIT_MS);
  while (Date.now() < until) {
    const file = runningStack();
    if (file !== undefined && file.pid === child.pid && Object.keys(file.services).length > 0 && file.ready === true) {
      child.unref();
      terminal.line(`ready: API ${file.api_url}, process ${file.pid}, log ${log}`);
      return EXIT.ok;
    }
    if (exited !== null) {
      process.stderr.write(readFileSync(log, 'utf8').split('\n').slice(-10).join('\n'));
      return exited === 0 ? EXIT.bug : exited;
    }
    await sleep(100);
  }
  child.kill('SIGTERM');
  process.stderr.write(`the stack was not ready in time and was ended (log: ${log})\n`);
  return EXIT.waitedTooLong;
}

/** `yard dev status`: the stack's file without its secrets. */
export async function status({ output }: Invocation): Promise<void> {
  const file = runningStack();
  if (file === undefined) throw noStack();
  const shown = {
    ...file,
    api_key: `[in ${stackFile()}]`,
    nats_url: hide(file.nats_url),
    redis_url: hide(file.redis_url),
  };
  await output.object(shown, () =>
    [
      fields([
        ['API', shown.api_url],
        ['docs', `${shown.api_url}/docs`],
        ['process', shown.pid],
        ['since', `${shown.started_at} (${ago(shown.started_at)})`],
        [
          'model',
          shown.model.name === ''
            ? undefined
            : `${shown.model.name}${shown.model.demo ? ' (the built-in demo model)' : ''}`,
        ],
        ['logs', shown.logs],
      ]),
      '',
      table(
        Object.entries(shown.services),
        [
          { name: 'service', of: ([name]) => name },
          { name: 'process', of: ([, pid]) => pid },
          { name: 'state', of: ([, pid]) => (isAlive(pid) ? 'running' : 'starting again') },
        ],
        false,
      ),
    ].join('\n'),
  );
}

const hide = (url: string) => url.replace(/\/\/[^@/]*@/, '//');

const noStack = () => {
  const last = lastStack();
  return new StackError(
    `no stack runs in this checkout${last === undefined ? '' : ` (the last one stopped at ${last.stopped_at})`}; start one with: npm start`,
    EXIT.unreachable,
  );
};

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** `yard dev down`; nothing to end is no failure. */
export async function down(invocation: Invocation): Promise<number> {
  const file = runningStack();
  if (file === undefined) {
    invocation.output.note('no stack runs in this checkout');
    return EXIT.ok;
  }
  if (invocation.on('dry-run')) {
    invocation.output.note(`would end process ${file.pid} and its services`);
    return EXIT.ok;
  }
  process.kill(file.pid, 'SIGTERM');
  const waitMs = invocation.waitMs ?? DOWN_WAIT_MS;
  const until = Date.now() + waitMs;
  while (Date.now() < until) {
    if (!isAlive(file.pid)) {
      invocation.output.note('stopped');
      return EXIT.ok;
    }
    await sleep(100);
  }
  process.stderr.write(`process ${file.pid} did not end in ${waitMs / 1000} s\n`);
  return EXIT.waitedTooLong;
}

/** `yard dev reset` */
export async function reset(invocation: Invocation): Promise<number> {
  if (runningStack() !== undefined) {
    const code = await down(invocation);
    if (code !== EXIT.ok) return code;
  }
  if (invocation.on('dry-run')) invocation.output.note(`would remove ${stateFolder()}`);
  else {
    rmSync(stateFolder(), { recursive: true, force: true });
    invocation.output.note(`removed ${stateFolder()}`);
  }
  return EXIT.ok;
}
