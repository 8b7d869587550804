import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Yardmaster } from '@yardmaster/client';
import { SAMPLE_TASK } from '@yardmaster/local-stack';
import type { Invocation } from '../cli/invocation.js';
import { RunProgress } from '../run-progress.js';
import { bringUp, runningStack, type RunningStack } from '../stack/bring-up.js';
import { CHECKOUT, stateFolder } from '../stack/checkout.js';
import { DEMO_TENANT } from '../stack/local-stack.js';
import { seconds, Terminal } from '../terminal.js';
import { EXIT, exitCodeOf } from '../exit-codes.js';

const EXAMPLE = join(CHECKOUT, 'examples', 'sample-task', 'workspace');
/** A task that cannot be done, for whoever wants to see a run fail. */
const BROKEN_TASK = { input: 'Say hello.', model: 'demo-broken' } as const;

/** `npm start`: everything up, one sample task from end to end, the addresses; stays up until Ctrl-C unless told otherwise. */
export async function start(invocation: Invocation): Promise<number> {
  const terminal = new Terminal(process.stdout, { noColour: invocation.on('no-color') });
  const existing = runningStack();
  if (existing !== undefined) {
    terminal.line(`the stack runs already: process ${existing.pid}, ${existing.api_url}, since ${existing.started_at}`);
    return EXIT.ok;
  }
  const interactive = process.stdin.isTTY === true && process.stdout.isTTY === true && !process.env['CI'];
  const stay = invocation.on('stay');
  const once = invocation.on('once') || (!stay && !interactive);
  if (once && !invocation.on('once'))
    terminal.line(
      terminal.dim('no terminal (or CI is set): ending after the task, as with --once; --stay keeps the stack up'),
    );
  // Ctrl-C is how a stack that stays is ended; a task that was to run once and did not is interrupted.
  const ofCtrlC = once ? EXIT.interrupted : EXIT.ok;

  const broken = invocation.text('task') === 'broken';
  const stopping = new AbortController();
  let running: RunningStack | undefined;
  let ended: Promise<void> | undefined;
  const end = () => (ended ??= running?.stop() ?? Promise.resolve());
  const onSignal = () => {
    if (stopping.signal.aborted) return;
    terminal.line('\nstopping');
    stopping.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    running = await bringUp({
      config: invocation.text('config'),
      // The task that is made to fail is a model of the demo server.
      provider: broken ? 'demo' : invocation.text('provider'),
      signal: stopping.signal,
      onProgress: ({ what, state, ms, words }) =>
        terminal.line(
          state === 'ready'
            ? `  ${terminal.green('ready')} ${what}${ms === undefined ? '' : terminal.dim(` ${seconds(ms)}`)}`
            : `  ${state === 'died' ? terminal.red('died') : 'note'}  ${what}: ${words ?? ''}`,
        ),
    });
    terminal.line(`  model ${running.modelWords}`);
    if (stopping.signal.aborted) return ofCtrlC;
    const code = await runTask(
      running,
      terminal,
      broken ? BROKEN_TASK : { input: invocation.args.join(' ') || SAMPLE_TASK },
      stopping.signal,
    );
    const { file } = running.stack;
    terminal.line();
    terminal.line(`API      ${file.api_url}/v1   key ${file.api_key}`);
    terminal.line(`API docs ${file.api_url}/docs`);
    terminal.line(terminal.dim(`state    ${stateFolder()} (logs in ${file.logs})`));
    if (once) return code;
    terminal.line('Ctrl-C ends everything. In another terminal: npx yard ask "…"');
    await new Promise<void>((resolve) => {
      if (stopping.signal.aborted) resolve();
      else stopping.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    return EXIT.ok;
  } catch (error) {
    if (stopping.signal.aborted) return ofCtrlC;
    throw error;
  } finally {
    await end();
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

/** Runs one task and shows its steps as they happen. */
async function runTask(
  running: RunningStack,
  terminal: Terminal,
  task: { input: string; model?: string },
  signal: AbortSignal,
): Promise<number> {
  const { file, state } = running.stack;
  // A fresh copy each time: the sample's mistake must be there to be mended.
  const workspace = join(state, 'workspaces', DEMO_TENANT, 'sample');
  if (existsSync(EXAMPLE)) cpSync(EXAMPLE, workspace, { recursive: true, force: true });
  else mkdirSync(workspace, { recursive: true });
  const api = new Yardmaster({ apiUrl: file.api_url, apiKey: file.api_key });
  terminal.line();
  terminal.line(`${terminal.bold('task')} ${task.input}`);
  const run = await api.runs.start({ ...task, workspace: 'sample' }, { signal });
  const progress = new RunProgress(terminal);
  for await (const event of run.events({ signal })) progress.show(event);
  const done = await run.result({ signal });
  progress.summary(done);
  terminal.line(terminal.dim(`run ${done.id}`));
  return exitCodeOf(done.state);
}
