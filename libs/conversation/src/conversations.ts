import { type ConversationMessage, newId, type TenantId, YardError } from '@yardmaster/contracts';
import { type HistoryItem, type StoreContext } from './history.js';
import { type ConversationRef, keys } from './keys.js';
import { call, command } from './redis-connection.js';
import { decodeCursor, encodeCursor, indexConversation, type Page } from './runs.js';

export interface Conversation {
  id: string;
  createdMs: number;
  /** Number of the last item. */
  seq: number;
  bytes: number;
  /** The run that works on it, or parks in it. */
  activeRun: string | undefined;
  /** Everything up to this item is represented by a summary. */
  compactedUpTo: number | undefined;
}

const noSuchConversation = (id: string) =>
  new YardError('NOT_FOUND', 'YM-CONVERSATION-UNKNOWN', `There is no conversation ${id.slice(0, 60)}.`);

export async function createConversation(store: StoreContext, tenant: TenantId): Promise<Conversation> {
  const ref = { tenant, conversation: newId() };
  await call(store.redis, 'conversation_create', [keys.meta(ref)], [store.retention.historyTtlMs]);
  await indexConversation(store, ref);
  return getConversation(store, tenant, ref.conversation);
}

/** Throws NOT_FOUND, also for what cannot be an id. */
export async function getConversation(store: StoreContext, tenant: TenantId, id: string): Promise<Conversation> {
  let key: string;
  try {
    key = keys.meta({ tenant, conversation: id });
  } catch {
    throw noSuchConversation(id);
  }
  const [created, seq, bytes, active, sumto] = await command(
    store.redis.hmget(key, 'created', 'seq', 'bytes', 'active', 'sumto'),
  );
  if (created === null || created === undefined) throw noSuchConversation(id);
  return {
    id,
    createdMs: Number(created),
    seq: Number(seq ?? 0),
    bytes: Number(bytes ?? 0),
    activeRun: active || undefined,
    compactedUpTo: sumto ? Number(sumto) : undefined,
  };
}

/** A tenant's conversations, newest first. */
export async function listConversations(
  store: StoreContext,
  tenant: TenantId,
  request: { cursor?: string; limit?: number },
): Promise<Page<Conversation>> {
  const limit = Math.max(1, Math.min(request.limit ?? 50, 200));
  const list = keys.conversations(tenant);
  const items: Conversation[] = [];
  let after = request.cursor === undefined ? undefined : decodeCursor(request.cursor);
  for (;;) {
    const ids = await command(
      store.redis.zrange(list, after === undefined ? '+' : `(${after}`, '-', 'BYLEX', 'REV', 'LIMIT', 0, limit + 1),
    );
    const found = await Promise.allSettled(ids.map((id) => getConversation(store, tenant, id)));
    for (const [i, result] of found.entries()) {
      after = ids[i]!;
      if (result.status === 'fulfilled') items.push(result.value);
      else if (YardError.is(result.reason) && result.reason.class === 'NOT_FOUND')
        await command(store.redis.zrem(list, after)); // it has expired
      else throw result.reason;
      if (items.length === limit) return { items, nextCursor: i + 1 < ids.length ? encodeCursor(after) : undefined };
    }
    if (ids.length <= limit) return { items, nextCursor: undefined };
  }
}

/** Deletes history and queue. Throws NOT_FOUND, or CONFLICT `YM-CONVERSATION-BUSY` while a run has it. */
export async function deleteConversation(store: StoreContext, ref: ConversationRef): Promise<void> {
  await getConversation(store, ref.tenant, ref.conversation);
  const [outcome, active] = (await call(
    store.redis,
    'conversation_delete',
    [keys.meta(ref), keys.history(ref), keys.queue(ref)],
    [keys.runPrefix(ref), 0],
  )) as [string, string?];
  if (outcome === 'unknown') throw noSuchConversation(ref.conversation);
  if (outcome === 'busy')
    throw new YardError('CONFLICT', 'YM-CONVERSATION-BUSY', `Run ${active} is working on this conversation.`, {
      details: { run: active },
    });
  await command(store.redis.zrem(keys.conversations(ref.tenant), ref.conversation));
}

/** Items after `afterSeq`, oldest first: for people, so compacted ones are shown as they are. */
export async function listItems(
  store: StoreContext,
  ref: ConversationRef,
  request: { afterSeq?: number; limit?: number },
): Promise<HistoryItem[]> {
  const limit = Math.max(1, Math.min(request.limit ?? 100, 500));
  const entries = await command(
    store.redis.xrange(keys.history(ref), `(${request.afterSeq ?? 0}-0`, '+', 'COUNT', limit),
  );
  return entries.map(([id, fields]) => ({ seq: Number.parseInt(id, 10), json: fields[1] ?? '' }));
}

/**
 * Lets a summary stand for everything up to a sequence. Under the fence of the run that has the conversation, or without
 * one when no run has it. Throws CONFLICT when the sequence is not in the history or was compacted already.
 */
export async function compact(
  store: StoreContext,
  request: ConversationRef & { upToSeq: number; summary: ConversationMessage; fence?: number },
): Promise<void> {
  await call(
    store.redis,
    'compact',
    [keys.meta(request), keys.history(request)],
    [
      request.upToSeq,
      JSON.stringify(request.summary),
      keys.runPrefix(request),
      store.retention.historyTtlMs,
      request.fence ?? '',
    ],
  );
}
