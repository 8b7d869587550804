import { type Approval, type Decision, paged, type Run } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';
import { UsageError } from '../cli/usage-error.js';
import { NothingFound } from '../connection/fragments.js';
import { runId } from './find.js';

/** `yard approval list [RUN]`: without a run, the calls of every run that waits. */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const given = invocation.args[0];
  const items: Approval[] = [];
  if (given !== undefined) items.push(...(await session.api.runs.approvals(await runId(session, given))));
  else {
    const waiting = paged<Run>((cursor) =>
      session.api.runs.page({ state: 'waiting_approval', limit: 200, ...(cursor !== undefined && { cursor }) }),
    );
    for await (const run of waiting)
      items.push(...(await session.api.runs.approvals(run.id)).filter((approval) => approval.state === 'waiting'));
  }
  if (invocation.output.form === 'name') {
    for (const { run_id, call } of items) invocation.output.line(`${run_id} ${call}`);
    return;
  }
  await invocation.output.page(
    { items, next_cursor: null } as { items: Approval[] },
    [
      { name: 'run', of: (approval) => approval.run_id },
      { name: 'call', of: (approval) => approval.call },
      { name: 'state', of: (approval) => approval.state },
      { name: 'tool', of: (approval) => approval.tool },
      { name: 'effect', of: (approval) => approval.effect },
      { name: 'by', of: (approval) => approval.decided_by, wide: true },
      { name: 'expires', of: (approval) => approval.expires_at, wide: true },
      { name: 'arguments', of: (approval) => JSON.stringify(approval.arguments), max: 60 },
    ],
    'nothing waits for an approval',
  );
}

/** `yard approval approve RUN [CALL]` */
export const approve = (invocation: Invocation) => decide(invocation, 'approve');

/** `yard approval deny RUN [CALL]` */
export const deny = (invocation: Invocation) => decide(invocation, 'deny');

/** The hash of no arguments: it can approve nothing. */
const NO_HASH = '0'.repeat(64);

async function decide(invocation: Invocation, decision: Decision['decision']): Promise<void> {
  const session = await invocation.session();
  const id = await runId(session, invocation.args[0]!);
  const all = await session.lookup.runs.approvals(id);
  const call = invocation.args[1];
  const waiting = all.filter((approval) => approval.state === 'waiting');
  const candidates = call === undefined ? (waiting.length > 0 ? waiting : all) : all.filter((one) => one.call === call);
  if (candidates.length === 0 && call === undefined)
    throw new NothingFound(`no call of run ${id} waits for an approval`);
  if (candidates.length > 1)
    throw new UsageError(
      `${candidates.length} calls wait; name one:`,
      candidates.map((one) => `${one.call}  ${one.tool} ${JSON.stringify(one.arguments).slice(0, 100)}`),
    );
  // A call that the run has left behind is not listed any more; the API still knows who decided on it, and says so.
  const [approval] = candidates as [Approval?];
  const remember = invocation.text('remember') as Decision['remember'];
  const reason = invocation.text('reason');
  const decided = await session.api.runs.decide(id, approval?.call ?? call!, {
    decision,
    args_hash: approval?.args_hash ?? NO_HASH,
    ...(reason === undefined ? {} : { reason }),
    ...(remember === undefined ? {} : { remember }),
  });
  await invocation.output.object(
    decided,
    () => `${decided.state} ${decided.tool} ${JSON.stringify(decided.arguments).slice(0, 200)}`,
  );
}
