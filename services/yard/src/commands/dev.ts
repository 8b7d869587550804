import { spawn } from 'node:child_process';
import { openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { EXIT } from '../exit-codes.js';
import { bringUp, runningStack, StackError } from '../stack/bring-up.js';
import { stateFolder } from '../stack/checkout.js';
import { seconds, Terminal } from '../terminal.js';

const DETACHED_WAIT_MS = 120_000;
const DOWN_WAIT_MS = 30_000;

/** `yard dev up|status|logs|down|reset`: the local stack without a sample task. */
export async function dev(verb: string, args: string[]): Promise<number> {
  switch (verb) {
    case 'up':
      return up(args);
    case 'status':
      return status();
    case 'down':
      return down();
    case 'reset':
      return reset();
    default:
      process.stderr.write(`unknown command "dev ${verb}"; there are: dev up, status, down, reset\n`);
      return EXIT.usage;
  }
}

async function up(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      detach: { type: 'boolean', default: false },
      config: { type: 'string' },
      provider: { type: 'string' },
      port: { type: 'string' },
      'no-color': { type: 'boolean', default: false },
    },
  });
  const terminal = new Terminal(process.stderr, { noColour: values['no-color'] });
  const existing = runningStack();
  if (existing !== undefined) {
    terminal.line(`the stack runs already: process ${existing.pid}, ${existing.api_url}, since ${existing.started_at}`);
    return EXIT.ok;
  }
  if (values.detach)
    return detach(
      args.filter((arg) => arg !== '--detach'),
      terminal,
    );
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());
  const running = await bringUp({
    config: values.config,
    provider: values.provider,
    apiPort: values.port === undefined ? undefined : Number(values.port),
    onProgress: ({ what, state, ms, words }) =>
      terminal.line(
        `${state} ${what}${ms === undefined ? '' : ` ${seconds(ms)}`}${words === undefined ? '' : `: ${words}`}`,
      ),
  });
  terminal.line(`model ${running.modelWords}`);
  terminal.line(`API ${running.stack.file.api_url}, key ${running.stack.file.api_key}`);
  if (!stop.signal.aborted)
    await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve(), { once: true }));
  terminal.line('stopping');
  await running.stop();
  return EXIT.ok;
}

/** The same in a process of its own; returns when it is ready. */
async function detach(args: string[], terminal: Terminal): Promise<number> {
  const log = join(stateFolder(), 'stack.log');
  const { mkdirSync } = await import('node:fs');
  mkdirSync(stateFolder(), { recursive: true, mode: 0o700 });
  const out = openSync(log, 'w', 0o600);
  const child = spawn(process.execPath, [process.argv[1]!, 'dev', 'up', ...args], {
    detached: true,
    stdio: ['ignore', out, out],
  });
  let exited: number | null = null;
  child.once('exit', (code) => (exited = code ?? 1));
  const until = Date.now() + DETACHED_WAIT_MS;
  while (Date.now() < until) {
    const file = runningStack();
    if (file !== undefined && file.pid === child.pid && file.api_url !== '') {
      child.unref();
      terminal.line(`ready: API ${file.api_url}, process ${file.pid}, log ${log}`);
      return EXIT.ok;
    }
    if (exited !== null) {
      const { readFileSync } = await import('node:fs');
      process.stderr.write(readFileSync(log, 'utf8').split('\n').slice(-10).join('\n'));
      return exited === 0 ? EXIT.bug : exited;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  child.kill('SIGTERM');
  process.stderr.write(`the stack was not ready after ${DETACHED_WAIT_MS / 1000} s (log: ${log})\n`);
  return EXIT.waitedTooLong;
}

function status(): number {
  const file = runningStack();
  if (file === undefined) {
    process.stderr.write('no stack runs in this checkout; start one with: npm start\n');
    return EXIT.unreachable;
  }
  process.stdout.write(
    `${JSON.stringify({ ...file, api_key: '[in .yard/dev.json]', nats_url: hide(file.nats_url), redis_url: hide(file.redis_url) }, null, 2)}\n`,
  );
  return EXIT.ok;
}

const hide = (url: string) => url.replace(/\/\/[^@/]*@/, '//');

async function down(): Promise<number> {
  const file = runningStack();
  if (file === undefined) {
    process.stderr.write('no stack runs in this checkout\n');
    return EXIT.ok;
  }
  process.kill(file.pid, 'SIGTERM');
  const until = Date.now() + DOWN_WAIT_MS;
  while (Date.now() < until) {
    try {
      process.kill(file.pid, 0);
    } catch {
      process.stderr.write('stopped\n');
      return EXIT.ok;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  process.stderr.write(`process ${file.pid} did not end in ${DOWN_WAIT_MS / 1000} s\n`);
  return EXIT.waitedTooLong;
}

async function reset(): Promise<number> {
  if (runningStack() !== undefined) {
    const code = await down();
    if (code !== EXIT.ok) return code;
  }
  rmSync(stateFolder(), { recursive: true, force: true });
  process.stderr.write(`removed ${stateFolder()}\n`);
  return EXIT.ok;
}

/** A failure on the way up, in one line. */
export function stackFailure(error: unknown): number {
  if (!(error instanceof StackError)) throw error;
  process.stderr.write(`yard: ${error.message}\n`);
  return error.exitCode;
}
