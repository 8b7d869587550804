import type { Run, RunState } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { ago, type Column, table } from '../cli/table.js';
import { UsageError } from '../cli/usage-error.js';
import { exitCodeOf } from '../exit-codes.js';
import { seconds } from '../terminal.js';
import { durationMs } from './duration.js';
import { conversationId, runId } from './find.js';
import { detachable, follow, showResult } from './follow.js';
import { collect, wantedItems } from './list-pages.js';

/** A model without a price costs nobody knows what, which is not nothing. */
const cost = (run: Run) =>
  run.usage.cost_usd > 0 ? run.usage.cost_usd.toFixed(4) : run.usage.total_tokens > 0 ? 'unknown' : undefined;
const took = (run: Run) =>
  run.started_at === null
    ? undefined
    : seconds(Date.parse(run.ended_at ?? new Date().toISOString()) - Date.parse(run.started_at));

const COLUMNS: readonly Column<Run>[] = [
  { name: 'id', of: (run) => run.id },
  { name: 'state', of: (run) => `${run.state}${run.reason ? ` (${run.reason})` : ''}` },
  { name: 'agent', of: (run) => run.agent },
  { name: 'model', of: (run) => run.model, wide: true },
  { name: 'steps', of: (run) => run.steps },
  { name: 'tokens', of: (run) => run.usage.total_tokens },
  { name: 'usd', of: cost, wide: true },
  { name: 'took', of: took },
  { name: 'created', of: (run) => ago(run.created_at) },
  { name: 'conversation', of: (run) => run.conversation_id, wide: true },
  { name: 'error', of: (run) => run.error?.message, max: 48 },
];

/** `yard run list` */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const conversation = invocation.text('conversation');
  const since = invocation.text('since');
  const oldest = since === undefined ? undefined : sinceMs(since);
  const filter = {
    ...(invocation.text('state') === undefined ? {} : { state: invocation.text('state') as RunState }),
    ...(invocation.text('agent') === undefined ? {} : { agent: invocation.text('agent')! }),
    ...(conversation === undefined ? {} : { conversation_id: await conversationId(session, conversation) }),
  };
  const page = await collect<Run>(
    wantedItems(invocation),
    (query) => session.api.runs.page({ ...filter, ...query }),
    (run) => oldest !== undefined && run.created_at !== null && Date.parse(run.created_at) < oldest,
  );
  const narrowed = Object.keys(filter).length > 0 || since !== undefined;
  await invocation.output.page(
    page,
    COLUMNS,
    narrowed ? 'no run is like that; all of them: yard run list' : 'no runs; start one with: yard ask "…"',
  );
  if (page.next_cursor === null || invocation.output.structured) return;
  let total: number | undefined;
  if (filter.agent === undefined && conversation === undefined && oldest === undefined) {
    const { runs } = await session.lookup.me();
    total = filter.state === undefined ? Object.values(runs).reduce((a, b) => a + b, 0) : runs[filter.state];
  }
  invocation.output.note(`${page.items.length}${total === undefined ? '' : ` of ${total}`}; more: --limit N or --all`);
}

/** A moment: an age counted back from now, or a time. */
function sinceMs(text: string): number {
  const age = durationMs(text);
  if (age !== undefined) return Date.now() - age;
  const time = Date.parse(text);
  if (Number.isNaN(time))
    throw new UsageError(`--since must be an age such as 15m, 2h, 3d or a time (got "${text.slice(0, 60)}")`);
  return time;
}

/** `yard run get RUN` */
export async function get(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const run = await session.api.runs.get(await runId(session, invocation.args[0]!));
  await invocation.output.object(run, () => describe(run));
}

interface Attempt {
  provider?: string;
  model?: string;
  key?: string;
  class?: string;
  reason?: string;
  status?: number;
  ms?: number;
}

/** The cause first, then what was tried, then the rest. */
function describe(run: Run): string {
  const attempts = (run.error?.details?.['attempts'] ?? []) as Attempt[];
  const cause =
    run.error === undefined
      ? undefined
      : `Run failed: ${run.error.message}  [${run.error.code}; yard explain ${run.error.code}]\n`;
  return [
    cause,
    attempts.length === 0
      ? undefined
      : `${table(
          attempts,
          [
            { name: 'provider', of: (attempt) => attempt.provider },
            { name: 'model', of: (attempt) => attempt.model },
            { name: 'key', of: (attempt) => attempt.key },
            { name: 'status', of: (attempt) => attempt.status || undefined },
            { name: 'what', of: (attempt) => attempt.reason },
            { name: 'then', of: (attempt) => attempt.class },
            { name: 'ms', of: (attempt) => attempt.ms },
          ],
          false,
        )}\n`,
    fields([
      ['run', run.id],
      ['state', run.state],
      ['reason', run.reason],
      ['cancelled', run.cancel_reason],
      ['conversation', run.conversation_id],
      ['agent', run.agent],
      ['model', run.model],
      ['steps', run.steps],
      [
        'tokens',
        `${run.usage.total_tokens} (${run.usage.prompt_tokens} in, ${run.usage.cached_tokens} of them cached, ${run.usage.completion_tokens} out)`,
      ],
      ['cost', run.usage.cost_usd > 0 ? `${cost(run)} USD` : cost(run)],
      ['created', run.created_at === null ? undefined : `${run.created_at} (${ago(run.created_at)})`],
      ['took', took(run)],
      ['metadata', Object.keys(run.metadata).length === 0 ? undefined : JSON.stringify(run.metadata)],
    ]),
    run.output === undefined ? undefined : `\n${run.output}`,
    run.state === 'waiting_approval' ? `\nIt waits: yard approval list ${run.id}` : undefined,
  ]
    .filter((part) => part !== undefined)
    .join('\n');
}

/** `yard run watch RUN` */
export async function watch(invocation: Invocation): Promise<number> {
  const session = await invocation.session({ waits: true });
  const id = await runId(session, invocation.args[0]!);
  return follow(invocation, session, id, {
    after: invocation.number('after'),
    onApproval: async (call) => {
      invocation.output.note(`  decide with: yard approval approve ${id} ${call} (or deny)`);
      return undefined;
    },
  });
}

/** `yard run result RUN` */
export async function result(invocation: Invocation): Promise<number> {
  const session = await invocation.session({ waits: true });
  const id = await runId(session, invocation.args[0]!);
  const { signal, release } = detachable(invocation, id);
  try {
    const run = await session.api.runs.result(id, { signal });
    if (run.error !== undefined) invocation.output.note(`${run.error.message}  [${run.error.code}]`);
    if (invocation.output.form === 'jsonl') await invocation.output.object(run, () => '');
    else await showResult(invocation, run);
    return exitCodeOf(run.state);
  } finally {
    release();
  }
}

/** `yard run cancel RUN` */
export async function cancel(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const run = await session.api.runs.cancel(await runId(session, invocation.args[0]!), invocation.text('reason'));
  await invocation.output.object(run, () => `${run.id} ${run.state}`);
}
