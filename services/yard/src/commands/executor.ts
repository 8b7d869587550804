import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { executorAccount, toolStream } from '@yardmaster/contracts';
import type { Invocation } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { UsageError } from '../cli/usage-error.js';
import { EXIT } from '../exit-codes.js';
import { addedExecutors, addExecutor, kindProblem } from '../stack/added-executors.js';
import { type StackFile, stackFile, stackIn, stateFolder } from '../stack/checkout.js';
import { StackError } from '../stack/stack-error.js';

const WAIT_MS = 30_000;

/**
 * `yard executor add KIND`: queue, account and login for executors of one's own, in the local stack. A stack that runs has
 * them at once, one that does not when it starts.
 */
export async function add(invocation: Invocation): Promise<number> {
  const kind = invocation.args[0]!;
  const problem = kindProblem(kind);
  if (problem !== undefined) throw new UsageError(problem);
  if (invocation.text('api-url') !== undefined || (invocation.text('context') ?? 'local') !== 'local')
    throw new UsageError(
      `executors of an installation are declared where it is installed: executors.${kind} in the values of the chart, or --executors of yard setup files and bootstrap (docs/executors.md)`,
    );
  const state = stateFolder();
  const running = stackIn(stackFile());
  if (invocation.on('dry-run')) {
    invocation.terminal.line(`would add the executor kind "${kind}" to the stack in ${state}`);
    return EXIT.ok;
  }
  if (running !== undefined && running.executors === undefined)
    throw new StackError('the stack that runs here is older than this yard: end it with yard dev down', EXIT.conflict);
  mkdirSync(state, { recursive: true, mode: 0o700 });
  addExecutor(state, kind);
  const file = running === undefined ? undefined : await made(kind, running, invocation.waitMs ?? WAIT_MS);
  const nats = file === undefined ? undefined : new URL(file.nats_url);
  const executor = {
    kind,
    state: file === undefined ? 'declared' : 'ready',
    queue: toolStream(kind),
    account: executorAccount(kind).account,
    login: executorAccount(kind).user,
    nats_url: nats === undefined ? null : `nats://${nats.host}`,
    password_file: join(state, 'secrets', `nats-${executorAccount(kind).user}`),
  };
  await invocation.output.object(executor, () =>
    fields([
      ['kind', executor.kind],
      ['state', executor.state],
      ['queue', executor.queue],
      ['account', executor.account],
      ['login', executor.login],
      ['YM_NATS_URL', executor.nats_url ?? undefined],
      ['YM_NATS_PASSWORD_FILE', executor.password_file],
    ]),
  );
  if (file === undefined)
    invocation.output.note('no stack runs here; queue, account and login are made when one starts: yard dev up');
  return EXIT.ok;
}

/** Asks the stack to look at its list, and waits until it says that it has made what is new. */
async function made(kind: string, running: StackFile, waitMs: number): Promise<StackFile> {
  process.kill(running.pid, 'SIGUSR2');
  for (const until = Date.now() + waitMs; Date.now() < until; await sleep(50)) {
    const file = stackIn(stackFile());
    if (file === undefined) {
      // It may be in the middle of being written.
      if (isAlive(running.pid)) continue;
      throw new StackError('the stack has ended meanwhile', EXIT.unreachable);
    }
    if (file.executors?.includes(kind) === true) return file;
    if (file.executor_problem !== undefined && addedExecutors(stateFolder()).includes(kind))
      throw new StackError(`the stack could not add "${kind}": ${file.executor_problem}`, EXIT.bug);
  }
  throw new StackError(`the stack did not add "${kind}" in time (its log: yard logs)`, EXIT.waitedTooLong);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
