import { type ConversationMessage, YardError } from '@yardmaster/contracts';
import type { Redis } from 'ioredis';
import { type ConversationRef, keys, type RunRef } from './keys.js';
import { call, command } from './redis-connection.js';
import { decodeRun, encodeUpdate, isTerminal, type RunRecord, type RunState, type RunUpdate } from './run-record.js';

/** How long things are kept, and how much of them. */
export interface Retention {
  historyTtlMs: number;
  runTtlMs: number;
  idempotencyTtlMs: number;
  bodyTtlMs: number;
  maxConversationBytes: number;
}

export const DEFAULT_RETENTION: Retention = {
  historyTtlMs: 7 * 86_400_000,
  runTtlMs: 30 * 86_400_000,
  idempotencyTtlMs: 86_400_000,
  bodyTtlMs: 600_000,
  maxConversationBytes: 32 * 1_048_576,
};

export interface StoreContext {
  redis: Redis;
  owner: string;
  retention: Retention;
}

export type Acquired =
  /** `started`: the run's first message was written with the lease, just now. */
  | { kind: 'acquired'; fence: number; seq: number; record: RunRecord | undefined; started: boolean }
  /**
   * Another worker, or another run of the conversation, has it. With `waiting` the run is in the conversation's queue
   * behind `run` and is handed out by `finish`; without, the same run is being worked on until `leaseMsLeft` has passed.
   */
  | { kind: 'busy'; owner: string; leaseMsLeft: number; run: string; waiting: boolean; record: RunRecord | undefined }
  /** The run is over: nothing may be written any more. */
  | { kind: 'ended'; record: RunRecord };

export interface AcquireRequest extends RunRef {
  /** JetStream's delivery sequence of the run message: grows with every delivery, also when Redis forgot everything. */
  deliverySequence: number;
  leaseMs: number;
}

/** Takes the conversation for one run: a lease, and a fencing token above every earlier one. */
export async function acquire(store: StoreContext, request: AcquireRequest): Promise<Acquired> {
  const answer = (await call(
    store.redis,
    'acquire',
    [keys.meta(request), keys.history(request), keys.run(request), keys.queue(request)],
    [
      request.run,
      request.deliverySequence,
      store.owner,
      request.leaseMs,
      store.retention.historyTtlMs,
      store.retention.runTtlMs,
      keys.runPrefix(request),
      store.retention.maxConversationBytes,
    ],
  )) as [string, ...unknown[]];
  switch (answer[0]) {
    case 'acquired': {
      const [, fence, seq, fields, started] = answer as unknown as [string, number, number, string[], number];
      return { kind: 'acquired', fence, seq, record: decodeRun(request, fields), started: started === 1 };
    }
    case 'ended':
      return { kind: 'ended', record: decodeRun(request, answer[1] as string[])! };
    default: {
      const [, owner, leaseMsLeft, run, waiting, fields] = answer as unknown as [
        string,
        string,
        number,
        string,
        number,
        string[],
      ];
      return { kind: 'busy', owner, leaseMsLeft, run, waiting: waiting === 1, record: decodeRun(request, fields) };
    }
  }
}

export interface FencedRef extends RunRef {
  fence: number;
}

/** Extends the lease. Throws `YM-FENCED` when someone else has taken the conversation. Appends extend it too. */
export async function renew(store: StoreContext, request: FencedRef & { leaseMs: number }): Promise<void> {
  await call(
    store.redis,
    'renew',
    [keys.meta(request), keys.history(request)],
    [request.fence, request.leaseMs, store.retention.historyTtlMs],
  );
}

/** Gives the lease back. With `handBack` this delivery does not count as an attempt (shutdown). */
export async function release(store: StoreContext, request: FencedRef & { handBack?: boolean }): Promise<void> {
  await call(
    store.redis,
    'release',
    [keys.meta(request), keys.run(request)],
    [request.fence, request.run, request.handBack ? 1 : 0],
  );
}

export interface AppendRequest extends FencedRef {
  /** Sequence of the last item that the writer knows of. */
  expectedSeq: number;
  /** What to append, in order; a string is an item that was serialised already. */
  items: readonly (ConversationMessage | string)[];
  /** Fields of the run record, written in the same step. */
  record?: RunUpdate;
  /** Give the lease back in the same step: a run that parks. */
  release?: boolean;
}

export interface Written {
  seq: number;
  /** The run's state now: `cancelled` instead of `completed` when a cancel was accepted before. */
  state: RunState;
  /** The run of this conversation that is next; its message must be published. */
  next: string | undefined;
}

/** One write under the fence; `expectedSeq` -1 does not compare. */
export async function write(store: StoreContext, request: AppendRequest): Promise<Written> {
  const fields = request.record === undefined ? [] : encodeUpdate(request.record);
  const items = request.items.map((item) => (typeof item === 'string' ? item : JSON.stringify(item)));
  const [seq, state, next] = (await call(
    store.redis,
    'write',
    [keys.meta(request), keys.history(request), keys.run(request), keys.queue(request)],
    [
      request.run,
      request.fence,
      request.expectedSeq,
      request.release ? 1 : 0,
      store.retention.maxConversationBytes,
      store.retention.historyTtlMs,
      store.retention.runTtlMs,
      keys.runPrefix(request),
      fields.length,
      ...fields,
      ...items,
    ],
  )) as [number, string, string];
  return { seq, state: state as RunState, next: next === '' ? undefined : next };
}

/** A write that may not end the run: what follows an end is easy to forget, so `finish` is another function. */
export function refuseTerminal(record: RunUpdate | undefined): void {
  if (record?.state !== undefined && isTerminal(record.state))
    throw new YardError('INTERNAL', 'YM-INTERNAL', `A run becomes ${record.state} by finish() only.`);
}

export interface WindowRequest extends ConversationRef {
  /** Nothing after this sequence. */
  upToSeq?: number;
  /** Most items, the newest ones. */
  limit?: number;
  /** Stop before the items together are longer than this. */
  maxBytes?: number;
}

export interface HistoryItem {
  seq: number;
  json: string;
}

/** Items that are asked of Redis at once. */
export const PAGE = 200;
const MOST_ITEMS = 1_000;
export const MOST_CHARS = 8 * 1_048_576;

/** What stands for the beginning of a conversation, and the newest items after it, oldest first. */
export interface Newest {
  items: HistoryItem[];
  /** As the conversation's meta says, also when it lies beyond `upToSeq`. */
  summarisedUpTo: string | null;
  summary: HistoryItem | undefined;
}

/**
 * The newest part of a conversation, oldest first; costs what it returns, whatever the length of the history. Results
 * whose call lies before the window are dropped; a summary stands for what was compacted.
 */
export async function window(store: StoreContext, request: WindowRequest): Promise<HistoryItem[]> {
  return presentable(await readNewest(store, request));
}

/** Reads what a window is made of. */
export async function readNewest(store: StoreContext, request: WindowRequest): Promise<Newest> {
  const limit = request.limit ?? MOST_ITEMS;
  const maxBytes = request.maxBytes ?? MOST_CHARS;
  const upTo = request.upToSeq ?? Number.MAX_SAFE_INTEGER;
  const newestFirst: HistoryItem[] = [];
  let summary: HistoryItem | undefined;
  let summarisedUpTo: string | null = null;
  let bytes = 0;
  let end = request.upToSeq === undefined ? '+' : `${request.upToSeq}-0`;
  for (let first = true; ; first = false) {
    const count = Math.min(PAGE, limit - newestFirst.length);
    const [meta, entries] = await Promise.all([
      first ? command(store.redis.hmget(keys.meta(request), 'sumto', 'sum')) : undefined,
      command(store.redis.xrevrange(keys.history(request), end, '-', 'COUNT', count)),
    ]);
    if (meta !== undefined) summarisedUpTo = meta[0] || null;
    if (meta?.[0] && meta[1] && Number(meta[0]) <= upTo) summary = { seq: Number(meta[0]), json: meta[1] };
    let full = entries.length < count;
    for (const entry of entries) {
      const item = itemOf(entry);
      if (item.seq <= (summary?.seq ?? 0) || (bytes + item.json.length > maxBytes && newestFirst.length > 0)) {
        full = true;
        break;
      }
      bytes += item.json.length;
      newestFirst.push(item);
    }
    if (full || newestFirst.length >= limit) break;
    end = `(${entries.at(-1)![0]}`;
  }
  return { items: newestFirst.reverse(), summarisedUpTo, summary };
}

/** An entry of the stream as an item. */
export const itemOf = ([id, fields]: [id: string, fields: string[]]): HistoryItem => ({
  seq: Number.parseInt(id, 10),
  json: fields[1] ?? '',
});

/** The window as it is shown: nothing in it refers to what is not. */
export function presentable({ items, summary }: Newest): HistoryItem[] {
  const from = items[0];
  // A limit that cuts before the summary's end means that the summary lies outside the window.
  if (summary !== undefined && (from === undefined || from.seq === summary.seq + 1)) return [summary, ...items];
  if (summary === undefined && from?.seq === 1) return items.slice();
  const start = items.findIndex(({ json }) => !isResults(json));
  return start < 0 ? [] : items.slice(start);
}

function isResults(json: string): boolean {
  return (JSON.parse(json) as ConversationMessage).type === 'tool_results';
}
