import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { type Bus, failpoint } from '@yardmaster/bus';
import { messages, newId, Runs, subjects, type TenantId, YardError } from '@yardmaster/contracts';
import { ConversationStore, isTerminal, type RunRecord, type RunRef } from '@yardmaster/conversation';
import { BUS, type Logger, LOGGER } from '@yardmaster/service-kit';
import type { Caller } from '../http/request.js';
import { KnownNames } from './known-names.js';
import type { StartRunDto } from './start-run.dto.js';
import { firstMessage, startRunJson, toStartRun } from './start-run.mapping.js';

export interface StartOptions {
  idempotencyKey?: string | undefined;
  trace?: string | undefined;
}

/** Starting, cancelling and steering runs: the record first, then the message that makes someone work on it. */
@Injectable()
export class RunsService {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly logger: Logger,
    private readonly store: ConversationStore,
    private readonly known: KnownNames,
  ) {}

  /**
   * Starts a run. With an idempotency key the same body gets the same run, whoever of several requests comes first and
   * wherever an earlier one died: everything after the claim can be done twice.
   */
  async start(caller: Caller, request: StartRunDto, options: StartOptions = {}): Promise<RunRecord> {
    await this.known.check(caller.tenant, request);
    if (request.conversation_id !== undefined) await this.known.conversation(caller, request.conversation_id);
    let ids = { run: newId(), conversation: request.conversation_id ?? newId() };
    const key = options.idempotencyKey;
    if (key !== undefined) ids = await this.store.idempotency.claim(caller.tenant, key, hashOf(request), ids);
    const ref: RunRef = { tenant: caller.tenant, run: ids.run, conversation: ids.conversation };
    try {
      return await this.create(ref, request, options.trace);
    } catch (error) {
      // Nothing was made: the key may be used again, also with another body.
      if (key !== undefined && YardError.is(error) && (error.class === 'CONFLICT' || error.class === 'NOT_FOUND'))
        await this.store.idempotency.forget(caller.tenant, key);
      throw error;
    }
  }

  /** Asks a run to end. Throws CONFLICT `YM-RUN-ENDED` when it has. */
  async cancel(tenant: TenantId, run: string, reason?: string): Promise<RunRecord> {
    const { outcome, record } = await this.store.requestCancel(tenant, run, reason);
    if (outcome === 'ended')
      throw new YardError('CONFLICT', 'YM-RUN-ENDED', `Run ${run} is ${record.state} already.`, {
        details: { state: record.state },
      });
    const command = { runId: run, kind: 'cancel', dataJson: JSON.stringify({ reason: reason ?? '' }) };
    this.bus.publish(subjects.cancel(tenant, run), messages.command, command);
    await this.bus.enqueue(subjects.command(tenant, run), messages.command, command);
    // Nobody works on a run that waits or parks: this message makes someone end it.
    await this.wake(record, 'wake');
    return record;
  }

  /** Leaves a message for the running agent; answers its number. */
  async steer(tenant: TenantId, run: string, text: string): Promise<number> {
    const record = await this.store.getRun(tenant, run);
    const n = await this.store.steer(refOf(record), text);
    const command = { runId: run, kind: 'steer', dataJson: JSON.stringify({ n }) };
    await this.bus.enqueue(subjects.command(tenant, run), messages.command, command);
    return n;
  }

  /** Makes a worker look at the run's record again: never refused, since what it may do stands in the record. */
  async wake(record: RunRecord, reason: 'wake' | 'approval'): Promise<void> {
    try {
      await this.bus.enqueue(subjects.runResume(record.tenant, record.id), Runs.work.message, {
        runId: record.id,
        conversationId: record.conversation,
        reason,
      });
    } catch (error) {
      // As many wake-ups as the queue takes are waiting for this run already.
      if (!YardError.is(error) || error.class !== 'EXHAUSTED') throw error;
    }
  }

  private async create(ref: RunRef, request: StartRunDto, trace: string | undefined): Promise<RunRecord> {
    const isNew = request.conversation_id === undefined;
    const spec = toStartRun(request, ref.conversation);
    const created = await this.store.createRun({
      ...ref,
      specJson: startRunJson(spec),
      first: firstMessage(spec),
      ...(request.agent !== undefined && { agent: request.agent }),
      ...(request.model !== undefined && { model: request.model }),
      ...(spec.metadataJson !== undefined && { metadataJson: spec.metadataJson }),
      onBusy: request.on_busy ?? 'enqueue',
      newConversation: isNew,
    });
    const { record } = created;
    // Interrupt: the run that has the conversation ends, and hands it to this one.
    if (created.kind === 'waiting' && request.on_busy === 'interrupt' && created.active !== undefined)
      await this.cancel(ref.tenant, created.active, `interrupted by run ${ref.run}`).catch((error: unknown) => {
        if (!YardError.is(error) || error.code !== 'YM-RUN-ENDED') throw error;
      });
    const unpublished = record.state === 'queued' && record.publishedMs === undefined;
    // A run that waits for its conversation is published by whoever gives it the conversation.
    if (created.kind === 'started' || (created.kind === 'exists' && unpublished && !isTerminal(record.state)))
      await this.publish(ref, trace);
    await created.indexed;
    return record;
  }

  private async publish(ref: RunRef, trace: string | undefined): Promise<void> {
    try {
      await this.bus.enqueue(
        subjects.runStart(ref.tenant),
        Runs.work.message,
        { runId: ref.run, conversationId: ref.conversation, reason: 'start' },
        { msgId: `start:${ref.run}`, trace },
      );
    } catch (error) {
      if (!YardError.is(error) || error.class !== 'EXHAUSTED') throw error;
      // The tenant has its share in the queue: the run waits in the tenant's own list until one of its runs ends.
      await this.store.admission.wait(ref);
      return;
    }
    failpoint('api.run.published');
    // Only the sweep reads this mark, and a message too many does no harm: nobody waits for it.
    this.store
      .markPublished(ref)
      .catch((error: unknown) => this.logger.warn({ run: ref.run, err: error }, 'the publish could not be noted'));
  }
}

export const refOf = (record: RunRecord): RunRef => ({
  tenant: record.tenant,
  conversation: record.conversation,
  run: record.id,
});

/** The same for the same request, however its members were ordered. */
function hashOf(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex');
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  return `{${Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`)
    .join(',')}}`;
}
