import { type ConversationMessage, type TenantId, YardError } from '@yardmaster/contracts';
import type { FencedRef, StoreContext, Written } from './history.js';
import { checkedId, decodeOwner, encodeOwner, keys, type RunRef } from './keys.js';
import { call, command } from './redis-connection.js';
import {
  type Decision,
  decodeRun,
  RUN_STATES,
  type RunError,
  type RunRecord,
  type RunState,
  SUMMARY_FIELDS,
} from './run-record.js';

export type OnBusy = 'enqueue' | 'reject' | 'interrupt';

export interface NewRun extends RunRef {
  /** `StartRun` as protobuf JSON. */
  specJson: string;
  agent?: string;
  model?: string;
  metadataJson?: string;
  /** The user's message; it is written into the history when the run gets the conversation. */
  first?: ConversationMessage;
  /** What to do when another run has the conversation; `enqueue` by default. */
  onBusy?: OnBusy;
  /** The conversation is made with this run; otherwise it must exist. */
  newConversation?: boolean;
}

export interface CreatedRun {
  /** `started`: publish its message. `waiting`: behind `active` in the conversation. `exists`: made by an earlier try. */
  kind: 'started' | 'waiting' | 'exists';
  record: RunRecord;
  /** The run that has the conversation. */
  active: string | undefined;
  /** Resolves when the run is in the lists of its tenant; its message may be published meanwhile. */
  indexed: Promise<void>;
}

/**
 * Creates a run record and lets it take, or wait for, its conversation. Doing it again is harmless (`exists`).
 * Throws NOT_FOUND for an unknown conversation, CONFLICT `YM-CONVERSATION-BUSY` with `reject`.
 */
export async function createRun(store: StoreContext, run: NewRun): Promise<CreatedRun> {
  const fields = ['spec', run.specJson];
  if (run.agent !== undefined) fields.push('agent', run.agent);
  if (run.model !== undefined) fields.push('model', run.model);
  if (run.metadataJson !== undefined) fields.push('metadata', run.metadataJson);
  if (run.first !== undefined) fields.push('first', JSON.stringify(run.first));
  const { historyTtlMs, runTtlMs } = store.retention;
  // The index first: a record that nobody finds would be worse than an index entry without a record.
  const [, answer] = await Promise.all([
    command(store.redis.set(keys.runIndex(run.run), encodeOwner(run), 'PX', runTtlMs)),
    call(
      store.redis,
      'run_create',
      [keys.meta(run), keys.run(run), keys.queue(run)],
      [
        run.run,
        run.newConversation ? 1 : 0,
        run.onBusy ?? 'enqueue',
        historyTtlMs,
        runTtlMs,
        keys.runPrefix(run),
        ...fields,
      ],
    ) as Promise<[string, ...unknown[]]>,
  ]);
  const kind = answer[0];
  if (kind === 'unknown' || kind === 'busy') {
    await command(store.redis.unlink(keys.runIndex(run.run)));
    throw kind === 'unknown'
      ? new YardError('NOT_FOUND', 'YM-CONVERSATION-UNKNOWN', `There is no conversation ${run.conversation}.`)
      : new YardError('CONFLICT', 'YM-CONVERSATION-BUSY', `Run ${String(answer[1])} is working on this conversation.`, {
          details: { run: String(answer[1]) },
        });
  }
  if (kind === 'exists')
    return { kind, record: decodeRun(run, answer[1] as string[])!, active: undefined, indexed: Promise.resolve() };
  const at = String(answer[2]);
  const record = decodeRun(run, [...fields, 'id', run.run, 'state', 'queued', 'created', at, 'updated', at])!;
  const indexed = Promise.all([
    command(store.redis.sadd(keys.tenants, run.tenant)),
    indexRun(store, record, true),
    ...(run.newConversation ? [indexConversation(store, run)] : []),
  ]).then(() => undefined);
  // Whoever does not wait for it must not end the process by that.
  indexed.catch(() => undefined);
  return { kind: kind as 'started' | 'waiting', record, active: (answer[1] as string) || undefined, indexed };
}

export const indexConversation = (store: StoreContext, ref: { tenant: TenantId; conversation: string }) =>
  command(store.redis.zadd(keys.conversations(ref.tenant), 0, ref.conversation));

/** Puts a run into the lists of its tenant, under its present state; `first` leaves it alone when it is in them. */
export async function indexRun(
  store: StoreContext,
  run: Pick<RunRecord, 'id' | 'tenant' | 'conversation' | 'state' | 'agent'>,
  first = false,
): Promise<void> {
  const lists = [
    keys.tenantRuns(run.tenant),
    ...RUN_STATES.map((state) => keys.tenantState(run.tenant, state)),
    keys.tenantConversation(run.tenant, run.conversation),
    ...(run.agent === undefined ? [] : [keys.tenantAgent(run.tenant, run.agent)]),
  ];
  await call(store.redis, 'run_index', lists, [
    run.id,
    RUN_STATES.indexOf(run.state) + 1,
    RUN_STATES.length,
    oldestId(Date.now() - store.retention.runTtlMs),
    store.retention.runTtlMs,
    first ? 1 : 0,
  ]);
}

/** The start of every UUIDv7 made at this time: ids sort by age, so lists need no other order. */
function oldestId(ms: number): string {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}`;
}

const noSuchRun = (run: string) => new YardError('NOT_FOUND', 'YM-RUN-UNKNOWN', `There is no run ${run.slice(0, 60)}.`);

/** Which conversation a run belongs to. Throws NOT_FOUND, the same for a run of another tenant. */
export async function findRun(store: StoreContext, tenant: TenantId, run: string): Promise<RunRef> {
  let key: string;
  try {
    key = keys.runIndex(run);
  } catch {
    throw noSuchRun(run);
  }
  const owner = await command(store.redis.get(key));
  const ref = owner === null ? undefined : decodeOwner(owner);
  if (ref?.tenant !== tenant) throw noSuchRun(run);
  return { ...ref, run };
}

/** The record of a run of this tenant. Throws NOT_FOUND, also for another tenant's run. */
export async function getRun(store: StoreContext, tenant: TenantId, run: string): Promise<RunRecord> {
  const ref = await findRun(store, tenant, run);
  const record = decodeRun(ref, Object.entries(await command(store.redis.hgetall(keys.run(ref)))).flat());
  if (record === undefined) throw noSuchRun(run);
  return record;
}

export interface RunFilter {
  conversation?: string;
  state?: RunState;
  agent?: string;
  /** As `nextCursor` of the page before. */
  cursor?: string;
  limit?: number;
}

export interface Page<T> {
  items: T[];
  nextCursor: string | undefined;
}

/** Most records that one page looks at; a page may be short, its cursor goes on. */
const LOOK_AT = 1_000;

/** A tenant's runs, newest first; records come without their long texts. */
export async function listRuns(store: StoreContext, tenant: TenantId, filter: RunFilter): Promise<Page<RunRecord>> {
  const limit = Math.max(1, Math.min(filter.limit ?? 50, 200));
  const list =
    filter.conversation !== undefined
      ? keys.tenantConversation(tenant, filter.conversation)
      : filter.state !== undefined
        ? keys.tenantState(tenant, filter.state)
        : filter.agent !== undefined
          ? keys.tenantAgent(tenant, filter.agent)
          : keys.tenantRuns(tenant);
  const items: RunRecord[] = [];
  let after = filter.cursor === undefined ? undefined : decodeCursor(filter.cursor);
  for (let looked = 0; looked < LOOK_AT;) {
    const ids = await command(
      store.redis.zrange(list, after === undefined ? '+' : `(${after}`, '-', 'BYLEX', 'REV', 'LIMIT', 0, limit + 1),
    );
    const records = await Promise.all(ids.map((id) => readSummary(store, tenant, id)));
    for (const [i, record] of records.entries()) {
      after = ids[i]!;
      looked++;
      if (record === undefined) continue;
      if (filter.state !== undefined && record.state !== filter.state) {
        // The lists are written after the records: whoever died in between left the run under its old state.
        await indexRun(store, record);
        continue;
      }
      if (filter.agent !== undefined && record.agent !== filter.agent) continue;
      if (filter.conversation !== undefined && record.conversation !== filter.conversation) continue;
      items.push(record);
      if (items.length === limit)
        return { items, nextCursor: i + 1 < ids.length ? encodeCursor(record.id) : undefined };
    }
    if (ids.length <= limit) return { items, nextCursor: undefined };
  }
  return { items, nextCursor: after === undefined ? undefined : encodeCursor(after) };
}

async function readSummary(store: StoreContext, tenant: TenantId, id: string): Promise<RunRecord | undefined> {
  const owner = await command(store.redis.get(keys.runIndex(id)));
  if (owner === null) return undefined;
  const ref = decodeOwner(owner);
  if (ref.tenant !== tenant) return undefined;
  const values = await command(store.redis.hmget(keys.run({ ...ref, run: id }), ...SUMMARY_FIELDS));
  const flat: string[] = [];
  for (const [i, value] of values.entries()) if (value !== null) flat.push(SUMMARY_FIELDS[i]!, value);
  return decodeRun(ref, flat);
}

export const encodeCursor = (id: string) => Buffer.from(id).toString('base64url');

export function decodeCursor(cursor: string): string {
  try {
    return checkedId(Buffer.from(cursor, 'base64url').toString());
  } catch {
    throw new YardError('INVALID', 'YM-CURSOR', 'That cursor is not one that a list answered; start without one.');
  }
}

/** How many runs of a tenant are in each state. */
export async function countRuns(store: StoreContext, tenant: TenantId): Promise<Record<RunState, number>> {
  const counts = await Promise.all(
    RUN_STATES.map((state) => command(store.redis.zcard(keys.tenantState(tenant, state)))),
  );
  return Object.fromEntries(RUN_STATES.map((state, i) => [state, counts[i]!])) as Record<RunState, number>;
}

export type CancelOutcome = 'requested' | 'already' | 'ended';

/**
 * Asks for a cancel, without a fence: from now on the run can end as `cancelled` (or `failed: state_lost`) only.
 * The caller then wakes the workers. Throws NOT_FOUND.
 */
export async function requestCancel(
  store: StoreContext,
  tenant: TenantId,
  run: string,
  reason = '',
): Promise<{ outcome: CancelOutcome; record: RunRecord }> {
  const ref = await findRun(store, tenant, run);
  const [outcome] = (await call(store.redis, 'run_cancel', [keys.run(ref)], [reason])) as [string, string];
  const record = await getRun(store, tenant, run);
  if (outcome === 'requested') await indexRun(store, record);
  return { outcome: outcome as CancelOutcome, record };
}

/** Ends a cancelled run that still waits behind another one; false when it is not such a run (any more). */
export async function cancelWaiting(store: StoreContext, ref: RunRef): Promise<boolean> {
  const done = await call(
    store.redis,
    'run_cancel_waiting',
    [keys.meta(ref), keys.run(ref), keys.queue(ref)],
    [ref.run],
  );
  if (done === 1) await indexRun(store, await getRun(store, ref.tenant, ref.run));
  return done === 1;
}

/** Most steering messages that may wait for the agent to read them. */
const MAX_STEERING = 32;

/** Leaves a message for the running agent; answers its number. Throws CONFLICT `YM-RUN-ENDED`, EXHAUSTED when 32 wait. */
export async function steer(store: StoreContext, ref: RunRef, text: string): Promise<number> {
  try {
    return (await call(store.redis, 'run_steer', [keys.run(ref)], [text, MAX_STEERING])) as number;
  } catch (error) {
    if (YardError.is(error) && error.code === 'YM-CONVERSATION-FULL')
      throw new YardError('EXHAUSTED', 'YM-STEER-FULL', `${MAX_STEERING} messages wait for this run already.`, {
        retryAfterMs: 1_000,
      });
    throw error;
  }
}

/**
 * Records a person's decision over one pending call: the first one wins. Throws NOT_FOUND for a call that is not
 * pending, CONFLICT when the run does not wait, the arguments are not those that were shown, or it was decided already.
 */
export async function decide(
  store: StoreContext,
  record: RunRecord,
  callId: string,
  decision: Omit<Decision, 'atMs'>,
): Promise<void> {
  const ref: RunRef = { tenant: record.tenant, conversation: record.conversation, run: record.id };
  const decided = (earlier?: Decision) =>
    new YardError(
      'CONFLICT',
      'YM-APPROVAL-DECIDED',
      earlier === undefined
        ? 'That call was decided already.'
        : `That call was ${earlier.decision === 'approve' ? 'approved' : 'denied'} already, by key ${earlier.by} at ${new Date(earlier.atMs).toISOString()}.`,
    );
  if (Object.hasOwn(record.decisions, callId)) throw decided(record.decisions[callId]);
  const pending = record.pending.find((entry) => entry.call === callId && entry.approval !== undefined);
  if (pending === undefined)
    throw new YardError('NOT_FOUND', 'YM-APPROVAL-UNKNOWN', `Call ${callId.slice(0, 60)} asks for no approval.`, {
      details: { known: record.pending.filter((entry) => entry.approval).map((entry) => entry.call) },
    });
  if (pending.argsHash !== decision.argsHash)
    throw new YardError(
      'CONFLICT',
      'YM-APPROVAL-ARGS',
      'The arguments are not those that were decided on: read the approval again.',
      { details: { args_hash: pending.argsHash } },
    );
  const first = await call(
    store.redis,
    'run_decide',
    [keys.run(ref)],
    [callId, JSON.stringify(record.pending), JSON.stringify({ ...decision, atMs: Date.now() })],
  );
  if (first !== 1) throw decided();
}

/** Notes that the queue has the run's message; the sweep publishes only runs without this mark. */
export async function markPublished(store: StoreContext, ref: RunRef): Promise<void> {
  await call(store.redis, 'run_published', [keys.run(ref)], []);
}

/**
 * Ends a run as `failed` with code `state_lost`, because Redis fell behind what the run knew: works without a record,
 * takes the conversation's sequence from what is there, and keeps the fence from going backwards.
 */
export async function failLost(store: StoreContext, ref: FencedRef, message: string): Promise<Written> {
  const error: RunError = { class: 'CONFLICT', code: 'state_lost', message };
  await command(store.redis.set(keys.runIndex(ref.run), encodeOwner(ref), 'PX', store.retention.runTtlMs));
  const [state, next] = (await call(
    store.redis,
    'lost',
    [keys.meta(ref), keys.history(ref), keys.run(ref), keys.queue(ref)],
    [
      ref.run,
      ref.fence,
      store.retention.historyTtlMs,
      store.retention.runTtlMs,
      keys.runPrefix(ref),
      'id',
      ref.run,
      'error',
      JSON.stringify(error),
    ],
  )) as [string, string];
  await Promise.all([
    command(store.redis.sadd(keys.tenants, ref.tenant)),
    indexRun(store, { ...ref, id: ref.run, state: state as RunState, agent: undefined }),
    indexConversation(store, ref),
  ]);
  return { seq: -1, state: state as RunState, next: next || undefined };
}
