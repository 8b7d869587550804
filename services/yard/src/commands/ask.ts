import { type Approval, isTerminal, type Run, type StartRunRequest } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';
import { readStdin } from '../cli/invocation.js';
import { Interrupted } from '../cli/interruptions.js';
import { UsageError } from '../cli/usage-error.js';
import type { Session } from '../connection/session.js';
import { EXIT } from '../exit-codes.js';
import { printable } from '../terminal.js';
import { conversationId } from './find.js';
import { follow } from './follow.js';

/** `yard ask TEXT|-`: starts a run, follows it, asks about calls that need approval, prints the answer. */
export async function ask(invocation: Invocation): Promise<number> {
  const session = await invocation.session({ waits: true });
  const run = await startRun(invocation, session);
  return follow(invocation, session, run.id, {
    onApproval: async (call) => decideOn(invocation, session, run.id, call),
  });
}

/** `yard run start TEXT|-` */
export async function start(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const run = await startRun(invocation, session);
  await invocation.output.object(run, () => run.id);
  invocation.output.note(`${run.state}; follow it with: yard run watch ${run.id}`);
}

async function startRun(invocation: Invocation, session: Session): Promise<Run> {
  const { args } = invocation;
  const input = args.length === 1 && args[0] === '-' ? await readStdin() : args.join(' ');
  if (input.trim() === '') throw new UsageError('the task is empty');
  const key = invocation.text('idempotency-key');
  const handle = await session.api.runs.start(await requestOf(invocation, session, input), {
    ...(key === undefined ? {} : { idempotencyKey: key }),
  });
  return handle.run;
}

async function requestOf(invocation: Invocation, session: Session, input: string): Promise<StartRunRequest> {
  const text = (name: string, member: string) => {
    const value = invocation.text(name);
    return value === undefined ? {} : { [member]: value };
  };
  const conversation = invocation.text('conversation');
  const tools = invocation.list('tool');
  const metadata = invocation.list('metadata');
  const limits = Object.fromEntries(
    Object.entries({
      max_iterations: invocation.number('max-iterations'),
      max_tokens: invocation.number('max-tokens'),
      max_cost_usd: invocation.number('max-cost'),
      timeout_s: invocation.number('run-timeout'),
    }).filter(([, value]) => value !== undefined),
  );
  return {
    input,
    ...text('agent', 'agent'),
    ...text('model', 'model'),
    ...text('system', 'system'),
    ...text('workspace', 'workspace'),
    ...text('tool-dispatcher', 'tool_dispatcher'),
    ...text('on-busy', 'on_busy'),
    ...(conversation === undefined ? {} : { conversation_id: await conversationId(session, conversation) }),
    ...(tools === undefined ? {} : { tools }),
    ...(metadata === undefined ? {} : { metadata: metadataOf(metadata) }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
  };
}

function metadataOf(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const equals = pair.indexOf('=');
      if (equals < 1) throw new UsageError(`--metadata must be KEY=VALUE (got "${pair.slice(0, 60)}")`);
      return [pair.slice(0, equals), pair.slice(equals + 1)];
    }),
  );
}

/** Asks on the terminal whether a call may run. Returns an exit code when nobody can be asked. */
async function decideOn(
  invocation: Invocation,
  session: Session,
  run: string,
  call: string,
): Promise<number | undefined> {
  const approval = await waitingApproval(session, run, call);
  if (approval === undefined) return undefined;
  const { terminal } = invocation;
  if (!invocation.interactive) {
    process.stderr.write(`the run waits for approval of ${approval.tool}; decide with:\n`);
    process.stderr.write(
      `  yard approval approve ${run} ${approval.call}\n  yard approval deny ${run} ${approval.call}\n`,
    );
    return EXIT.waitsForApproval;
  }
  terminal.line(`${terminal.bold(approval.tool)} (effect: ${approval.effect}) wants to run with:`);
  terminal.line(printable(JSON.stringify(approval.arguments, null, 2)));
  if (approval.reason) terminal.line(`asked because: ${printable(approval.reason)}`);
  const ask = (question: string) =>
    invocation.ask(question).catch((error: unknown) => {
      if (!(error instanceof Interrupted)) throw error;
      throw new Interrupted(`\ndetached, the run goes on and waits for the decision: yard approval list ${run}`);
    });
  const yes = /^y(es)?$/i.test((await ask('Let it run? [y/N] ')) ?? '');
  const reason = yes ? undefined : await ask('Why not (the model reads it)? ');
  await session.api.runs.decide(run, approval.call, {
    decision: yes ? 'approve' : 'deny',
    args_hash: approval.args_hash,
    ...(reason ? { reason } : {}),
  });
  return undefined;
}

/** The approval that a call waits for; the event may be there a moment before the record. */
async function waitingApproval(session: Session, run: string, call: string): Promise<Approval | undefined> {
  for (let tries = 0; tries < 20; tries++) {
    const found = (await session.api.runs.approvals(run)).find((approval) => approval.call === call);
    if (found !== undefined) return found.state === 'waiting' ? found : undefined;
    if (isTerminal((await session.api.runs.get(run)).state)) return undefined;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return undefined;
}
