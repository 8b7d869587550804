import { timingSafeEqual } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { Inject, Injectable } from '@nestjs/common';
import type { Bus, ServeContext } from '@yardmaster/bus';
import {
  type CallEmbedRequest,
  type CallEmbedResponseSchema,
  mayEmbed,
  newId,
  Router,
  YardError,
} from '@yardmaster/contracts';
import { ConversationStore, isTerminal, type PendingCall } from '@yardmaster/conversation';
import { BUS } from '@yardmaster/service-kit';

const MAX_TEXTS = 16;
const MAX_UNITS = 64_000;
/** An edit asks once; the rest is for deliveries after a crash. */
const MAX_PER_CALL = 4;
const MAX_AT_ONCE = 16;
/** Whatever the executor says that it waits for. */
const MAX_WAIT_MS = 15_000;
const CALLS_REMEMBERED = 10_000;

/**
 * Vectors of texts for calls that are under way. Executors are not trusted, and one kind's login serves all tenants: so
 * the tenant is believed only with the nonce of a call that this tenant's run waits for, which was told to the executor
 * that was given the call and to nobody else. What that executor may spend is bounded by the call.
 */
@Injectable()
export class CallEmbedService {
  /** Questions asked for calls, by their nonce, the latest at the end. */
  private readonly asked = new Map<string, number>();
  private running = 0;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly store: ConversationStore,
  ) {}

  /** Throws DENIED for a call that is not under way, EXHAUSTED over the limits, and what the router says. */
  async embed(
    { runId, callId, nonce, texts }: CallEmbedRequest,
    { tenant, deadlineMs, signal, trace }: ServeContext,
  ): Promise<MessageInitShape<typeof CallEmbedResponseSchema>> {
    const units = texts.reduce((sum, text) => sum + text.length, 0);
    if (texts.length === 0 || texts.length > MAX_TEXTS || units > MAX_UNITS || texts.includes(''))
      throw new YardError(
        'INVALID',
        'YM-EMBED-TEXTS',
        `A question takes 1 to ${MAX_TEXTS} texts, none empty, of ${MAX_UNITS} characters together.`,
      );
    if (this.running >= MAX_AT_ONCE)
      throw new YardError('EXHAUSTED', 'YM-EMBED-LIMIT', 'Too many questions for embeddings at once.');
    this.running++;
    try {
      const pending = await this.pendingCall({ tenant, run: runId, call: callId });
      if (pending === undefined || !mayEmbed(pending.kind) || !isSame(pending.nonce, nonce))
        throw new YardError('DENIED', 'YM-EMBED-CALL', 'The tenant has no such call under way.');
      this.count(nonce);
      const question = { requestId: newId(), model: '', inputs: texts, providers: [] };
      const timeoutMs = Math.min(deadlineMs, MAX_WAIT_MS);
      const answer = await this.bus.request(Router.embed, tenant, question, { timeoutMs, signal, trace });
      return { vectors: answer.vectors.map(({ values }) => ({ values })) };
    } finally {
      this.running--;
    }
  }

  private async pendingCall({
    tenant,
    run,
    call,
  }: Pick<ServeContext, 'tenant'> & { run: string; call: string }): Promise<PendingCall | undefined> {
    try {
      const record = await this.store.getRun(tenant, run);
      return isTerminal(record.state) ? undefined : record.pending.find((pending) => pending.call === call);
    } catch (error) {
      if (YardError.is(error) && (error.class === 'NOT_FOUND' || error.class === 'INVALID')) return undefined;
      throw error;
    }
  }

  /** Counted here only: with several dispatchers the bound is this many for each. */
  private count(nonce: string): void {
    const before = this.asked.get(nonce) ?? 0;
    if (before >= MAX_PER_CALL)
      throw new YardError('EXHAUSTED', 'YM-EMBED-LIMIT', `One call may ask for embeddings ${MAX_PER_CALL} times.`);
    this.asked.delete(nonce);
    this.asked.set(nonce, before + 1);
    if (this.asked.size > CALLS_REMEMBERED) this.asked.delete(this.asked.keys().next().value!);
  }
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length > 0 && left.length === right.length && timingSafeEqual(left, right);
}
