import type { ConversationMessage, TenantId } from '@yardmaster/contracts';
import type { Redis } from 'ioredis';
import { Admission } from './admission.js';
import { InlineBodies } from './bodies.js';
import * as conversations from './conversations.js';
import * as history from './history.js';
import { Idempotency } from './idempotency.js';
import type { ConversationRef, RunRef } from './keys.js';
import { TenantLimits } from './limits.js';
import { checkFunctions, connectRedis, firstConnection, type RedisOptions } from './redis-connection.js';
import type { Decision, RunRecord, RunState, RunUpdate } from './run-record.js';
import * as runs from './runs.js';
import { Leadership, Timers } from './timers.js';
import { type ConversationTools, ToolSets } from './tool-sets.js';
import { WindowCache, type WindowCacheOptions } from './window-cache.js';

const FIRST_CONNECTION_MS = 2_000;

/**
 * Redis in one place: conversations and their fence, run records, and the small things beside them.
 * All writes of a run go through its fencing token; whatever throws is a YardError.
 */
export class ConversationStore {
  readonly admission: Admission;
  readonly idempotency: Idempotency;
  readonly bodies: InlineBodies;
  readonly limits: TenantLimits;
  readonly timers: Timers;
  readonly leadership: Leadership;
  readonly toolSets: ToolSets;
  private readonly store: history.StoreContext;

  /** `owner` names this process in leases; it must be another one after a restart. */
  constructor(
    readonly redis: Redis,
    readonly owner: string,
    retention: Partial<history.Retention> = {},
  ) {
    this.store = { redis, owner, retention: { ...history.DEFAULT_RETENTION, ...retention } };
    this.admission = new Admission(this.store);
    this.idempotency = new Idempotency(this.store);
    this.bodies = new InlineBodies(this.store);
    this.limits = new TenantLimits(redis);
    this.timers = new Timers(redis);
    this.leadership = new Leadership(redis, owner);
    this.toolSets = new ToolSets(this.store);
  }

  /** Connects, waits a moment for the connection and keeps trying after that: ask `checkReady` before serving. */
  static async connect(
    options: RedisOptions & { owner: string; retention?: Partial<history.Retention> },
  ): Promise<ConversationStore> {
    const redis = connectRedis(options);
    await firstConnection(redis, FIRST_CONNECTION_MS);
    return new ConversationStore(redis, options.owner, options.retention);
  }

  /** Throws UNAVAILABLE while Redis is away or has not loaded the functions. */
  checkReady(): Promise<void> {
    return checkFunctions(this.redis);
  }

  async close(): Promise<void> {
    if (this.redis.status === 'ready') await this.redis.quit().catch(() => undefined);
    else this.redis.disconnect();
  }

  /** Takes the conversation for one run: lease, fencing token and record in one step; and what it knows of its tools. */
  async acquire(request: history.AcquireRequest): Promise<history.Acquired & { tools: ConversationTools }> {
    // Commands of one connection keep their order, so the tools are read after the lease was taken, and cost no round trip.
    const [taken, tools] = await Promise.all([history.acquire(this.store, request), this.toolSets.of(request)]);
    if (taken.kind === 'acquired' && taken.started) this.reindex(request, { state: 'running' }, 'running');
    return { ...taken, tools };
  }

  /** Extends the lease; throws CONFLICT `YM-FENCED` when the conversation was taken, `YM-STATE-LOST` when Redis forgot it. */
  async renew(request: history.FencedRef & { leaseMs: number }): Promise<void> {
    return history.renew(this.store, request);
  }

  /** Gives the lease back; `handBack`: this delivery does not count as an attempt. */
  async release(request: history.FencedRef & { handBack?: boolean }): Promise<void> {
    return history.release(this.store, request);
  }

  /**
   * Appends items and sets record fields in one step; answers the new sequence. Sending the same again is a success.
   * Throws CONFLICT: `YM-FENCED`, `YM-SEQ-CONFLICT` (someone wrote), `YM-STATE-LOST` (Redis fell behind),
   * `YM-RUN-ENDED`; EXHAUSTED `YM-CONVERSATION-FULL`. A terminal state is set by `finish` only.
   */
  async append(request: history.AppendRequest): Promise<number> {
    history.refuseTerminal(request.record);
    const written = await history.write(this.store, request);
    this.reindex(request, request.record, written.state);
    return written.seq;
  }

  /**
   * The last write of a run: final items, terminal state, lease given back, and the conversation handed to the run that
   * waits for it, which the caller must publish. Answers the state that counts: `cancelled` wins over `completed` when a
   * cancel had been accepted.
   */
  async finish(request: history.AppendRequest & { record: RunUpdate & { state: RunState } }): Promise<history.Written> {
    const written = await history.write(this.store, request);
    this.reindex(request, request.record, written.state);
    return written;
  }

  /** Sets record fields under the fence, without comparing the sequence; answers the run's state. */
  async updateRun(request: history.FencedRef & { record: RunUpdate; release?: boolean }): Promise<RunState> {
    history.refuseTerminal(request.record);
    const written = await history.write(this.store, { ...request, expectedSeq: -1, items: [] });
    this.reindex(request, request.record, written.state);
    return written.state;
  }

  /** The newest part of a conversation, oldest first, as stored JSON. */
  async window(request: history.WindowRequest): Promise<history.HistoryItem[]> {
    return history.window(this.store, request);
  }

  /** Windows for a process that asks for the same conversations again and again: it reads only what is new. */
  windowCache(options: WindowCacheOptions): WindowCache {
    const cache = new WindowCache(this.store, options);
    // A Redis that comes back may have lost its last writes, and others may have taken their numbers.
    this.redis.on('close', () => cache.clear());
    return cache;
  }

  /** Creates a run record; see `CreatedRun`. */
  async createRun(run: runs.NewRun): Promise<runs.CreatedRun> {
    return runs.createRun(this.store, run);
  }

  /** Throws NOT_FOUND, the same for a run of another tenant. */
  async getRun(tenant: TenantId, run: string): Promise<RunRecord> {
    return runs.getRun(this.store, tenant, run);
  }

  /** A tenant's runs, newest first, without their long texts. */
  async listRuns(tenant: TenantId, filter: runs.RunFilter = {}): Promise<runs.Page<RunRecord>> {
    return runs.listRuns(this.store, tenant, filter);
  }

  async countRuns(tenant: TenantId): Promise<Record<RunState, number>> {
    return runs.countRuns(this.store, tenant);
  }

  /** Asks for a cancel; the caller wakes the workers. Throws NOT_FOUND. */
  async requestCancel(
    tenant: TenantId,
    run: string,
    reason?: string,
  ): Promise<{ outcome: runs.CancelOutcome; record: RunRecord }> {
    return runs.requestCancel(this.store, tenant, run, reason);
  }

  /** Ends a cancelled run that waits behind another one of its conversation; false when it is not such a run. */
  async cancelWaiting(ref: RunRef): Promise<boolean> {
    return runs.cancelWaiting(this.store, ref);
  }

  /** Leaves a message for a running agent; answers its number. */
  async steer(ref: RunRef, text: string): Promise<number> {
    return runs.steer(this.store, ref, text);
  }

  /** Records the first decision over a pending call; the caller wakes the run. */
  async decide(record: RunRecord, call: string, decision: Omit<Decision, 'atMs'>): Promise<void> {
    return runs.decide(this.store, record, call, decision);
  }

  /** Notes that the queue has the run's message. */
  async markPublished(ref: RunRef): Promise<void> {
    return runs.markPublished(this.store, ref);
  }

  /** Ends a run as `failed`, code `state_lost`; works although Redis knows nothing of it any more. */
  async failLost(ref: history.FencedRef, message: string): Promise<history.Written> {
    return runs.failLost(this.store, ref, message);
  }

  async createConversation(tenant: TenantId): Promise<conversations.Conversation> {
    return conversations.createConversation(this.store, tenant);
  }

  async getConversation(tenant: TenantId, id: string): Promise<conversations.Conversation> {
    return conversations.getConversation(this.store, tenant, id);
  }

  async listConversations(
    tenant: TenantId,
    request: { cursor?: string; limit?: number } = {},
  ): Promise<runs.Page<conversations.Conversation>> {
    return conversations.listConversations(this.store, tenant, request);
  }

  async deleteConversation(ref: ConversationRef): Promise<void> {
    return conversations.deleteConversation(this.store, ref);
  }

  /** Items after a sequence, oldest first, for people. */
  async listItems(
    ref: ConversationRef,
    request: { afterSeq?: number; limit?: number } = {},
  ): Promise<history.HistoryItem[]> {
    return conversations.listItems(this.store, ref, request);
  }

  /** Lets a summary stand for a prefix of the history. */
  async compact(
    request: ConversationRef & { upToSeq: number; summary: ConversationMessage; fence?: number },
  ): Promise<void> {
    await conversations.compact(this.store, request);
    // The cache behind the summary is lost anyway: the tools in front are drawn anew.
    await this.toolSets.unpin(request);
  }

  /**
   * The lists by state follow the record. Nobody waits for them: commands of one connection keep their order, and what a
   * crash or an outage leaves undone is repaired by the next list.
   */
  private reindex(ref: RunRef, update: RunUpdate | undefined, state: RunState): void {
    if (update?.state === undefined) return;
    runs.indexRun(this.store, { ...ref, id: ref.run, state, agent: undefined }).catch(() => undefined);
  }
}
