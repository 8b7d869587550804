import { costOf, speaksOfModel, UnsendableRequest, type FailureVerdict, type WireEvent } from '@yardmaster/llm-wire';
import { runAttempt, type AttemptOutcome, type AttemptPlan } from './attempt.js';
import {
  endpointOf,
  type Candidate,
  type CutWish,
  type ProviderKeyRef,
  type Rendered,
  type Renderer,
} from './candidate.js';
import type { CircuitBreakers } from './circuit-breaker.js';
import { backoffMs, sleep, type Clock } from './clock.js';
import type { DeadlineBoard } from './deadline-board.js';
import type { AttemptRecord, ChatResult, Frame, ResultMarks } from './frame.js';
import { giveUpError, type GiveUp } from './give-up.js';
import { chooseKey, DEAD_KEY_MS, keyBoardId } from './key-pool.js';
import type { RetryBudgets } from './retry-budget.js';
import type { RouteMemory } from './route-memory.js';
import type { Transport } from './transport.js';

/** One request to a model. */
export interface ChatRun {
  id: string;
  /** A conversation keeps its key and pod while they are healthy. */
  conversationId?: string;
  /** Milliseconds since the epoch; nothing goes on beyond it. */
  deadlineAt: number;
  /** Attempts in all; 8 by default. */
  maxAttempts?: number;
  maxTokens?: number;
  render: Renderer;
  /** Aborted when nobody waits for the answer any more: the provider's socket is closed at once. */
  signal: AbortSignal;
  /** After content was shown: reset and start again (true), or end with an error (false, for readers of live tokens). */
  restartAfterCommit: boolean;
  /** Try elsewhere what one provider's content filter refused; off by default. */
  routeAroundContentFilter?: boolean;
}

export interface FailoverDeps {
  clock: Clock;
  transport: Transport;
  /** Cooling and refused keys. */
  keys: DeadlineBoard;
  breakers: CircuitBreakers;
  budgets: RetryBudgets;
  routes: RouteMemory;
  /** Told of every attempt as it ends, also of cancelled ones: accounting and spans. */
  onAttempt?: (record: AttemptRecord) => void;
  /** The provider's own words, redacted, for the log only. */
  onProviderText?: (record: AttemptRecord, text: string) => void;
}

const MAX_ATTEMPTS = 8;
/** With something else to try, nobody waits longer than this for a provider that asks for patience. */
const PATIENCE_MS = 5_000;
const PATIENCE_CAP_MS = 30_000;
/** A probe of an open circuit may cost its request this much, no more, if others could serve. */
const PROBE_FIRST_TOKEN_MS = 5_000;
const MAX_REFITS = 3;
/** An answer shorter than this is not worth lowering the reservation for. */
const LEAST_OUTPUT_TOKENS = 256;
const TOKEN_MARGIN = 32;

interface Track {
  candidate: Candidate;
  dead: boolean;
  /** Failed tries that count against `retries`. */
  tries: number;
  notBefore: number;
  /** Did not say a word in time: others go first. */
  silent: boolean;
  throttles: number;
  refits: number;
  rendered: Rendered | undefined;
  maxTokens: number | undefined;
  triedResponses: boolean;
}

type Choice =
  { track: Track; key: ProviderKeyRef | undefined; othersReady: boolean } | { waitUntil: number } | undefined;

/**
 * Gets one request answered, whatever the providers do: models, providers, keys and retries under one deadline. Failures
 * before the first content are invisible; after it the reader is told to start again.
 */
export async function* runChat(
  run: ChatRun,
  candidates: readonly Candidate[],
  deps: FailoverDeps,
): AsyncGenerator<Frame, void, undefined> {
  yield* new ChatEngine(run, candidates, deps).frames();
}

class ChatEngine {
  private readonly tracks: Track[];
  private readonly attempts: AttemptRecord[] = [];
  private readonly marks: ResultMarks = {};
  private readonly refusals: string[] = [];
  private readonly refusedKeys = new Set<string>();
  private readonly sticky: string;
  private readonly run: ChatRun;
  private readonly deps: FailoverDeps;
  /** Something of the current attempt reached the reader. */
  private shown = false;
  /** Text or a call did. */
  private committed = false;
  private held: Frame[] = [];
  private overflowed = false;
  private retryAt: number | undefined;

  constructor(run: ChatRun, candidates: readonly Candidate[], deps: FailoverDeps) {
    this.run = run;
    this.deps = deps;
    this.sticky = run.conversationId ?? run.id;
    this.tracks = candidates.map((candidate) => ({
      candidate,
      dead: false,
      tries: 0,
      notBefore: 0,
      silent: false,
      throttles: 0,
      refits: 0,
      rendered: undefined,
      maxTokens: run.maxTokens,
      triedResponses: false,
    }));
  }

  async *frames(): AsyncGenerator<Frame, void, undefined> {
    const { clock } = this.deps;
    if (this.tracks.length === 0) return yield this.giveUp('no_candidate');
    for (;;) {
      if (this.run.signal.aborted) return;
      if (clock.now() >= this.run.deadlineAt) return yield this.giveUp('deadline');
      if (this.attempts.length >= (this.run.maxAttempts ?? MAX_ATTEMPTS)) return yield this.giveUp('exhausted');
      const choice = this.choose();
      if (choice === undefined) return yield this.giveUp(this.reasonToGiveUp());
      if ('waitUntil' in choice) {
        if (choice.waitUntil >= this.run.deadlineAt) {
          this.retryAt = choice.waitUntil;
          return yield this.giveUp('exhausted');
        }
        await sleep(clock, choice.waitUntil - clock.now(), this.run.signal);
        continue;
      }
      const rendered = await this.prepare(choice.track);
      if (rendered === undefined) continue;
      const done = yield* this.attempt(choice.track, rendered, choice.key, choice.othersReady);
      if (done) return;
    }
  }

  /** The first candidate that may be asked now, or how long to wait, or nothing left. */
  private choose(): Choice {
    const { clock, keys, breakers } = this.deps;
    const now = clock.now();
    const ready: { track: Track; key: ProviderKeyRef | undefined }[] = [];
    let earliest = Infinity;
    let begun: { at: number } | undefined;
    for (const track of this.tracks) {
      if (track.dead) continue;
      const choice = chooseKey(track.candidate, keys, now, this.sticky, this.refusedKeys);
      const keyAt = 'readyAt' in choice ? choice.readyAt : 0;
      const at = Math.max(track.notBefore, keyAt, breakers.readyAt(endpointOf(track.candidate)));
      if (at <= now && 'key' in choice) {
        ready.push({ track, key: choice.key });
        continue;
      }
      if (!Number.isFinite(at)) {
        // Every key of it was refused.
        track.dead = true;
        continue;
      }
      earliest = Math.min(earliest, at);
      // The candidate that we were at: a short wait for it comes before the next one.
      if (ready.length === 0 && begun === undefined && !track.silent && (track.tries > 0 || track.throttles > 0))
        begun = { at };
    }
    if (ready.length === 0) return earliest === Infinity ? undefined : { waitUntil: earliest };
    const remaining = this.run.deadlineAt - now;
    if (begun !== undefined && begun.at - now <= Math.min(PATIENCE_MS, PATIENCE_CAP_MS, remaining / 2))
      return { waitUntil: begun.at };
    const first = ready.find(({ track }) => !track.silent) ?? ready[0];
    return first === undefined ? undefined : { ...first, othersReady: ready.length > 1 };
  }

  /** Renders for this candidate unless that was done; undefined if it cannot take the request. */
  private async prepare(track: Track): Promise<Rendered | undefined> {
    if (track.rendered !== undefined) return track.rendered;
    const rendered = await this.render(track);
    if (rendered === undefined) track.dead = true;
    else track.rendered = rendered;
    return rendered;
  }

  private async render(track: Track, wish?: CutWish): Promise<Rendered | undefined> {
    const { clock } = this.deps;
    let cancelTimer = (): void => undefined;
    const late = new Promise<null>((resolve) => {
      cancelTimer = clock.after(this.run.deadlineAt - clock.now(), () => resolve(null));
    });
    try {
      // The history comes from a store that may hang; the deadline holds for it too.
      const rendered = await Promise.race([this.run.render(track.candidate, wish), late]);
      return rendered ?? undefined;
    } catch (error) {
      if (!(error instanceof UnsendableRequest)) throw error;
      this.refusals.push(error.message);
      return undefined;
    } finally {
      cancelTimer();
    }
  }

  /** Runs one attempt and decides what comes next; true when the request is over. */
  private async *attempt(
    track: Track,
    rendered: Rendered,
    key: ProviderKeyRef | undefined,
    othersReady: boolean,
  ): AsyncGenerator<Frame, boolean, undefined> {
    const { candidate } = track;
    const { clock, breakers, budgets, routes } = this.deps;
    const endpoint = endpointOf(candidate);
    const isProbe = breakers.enter(endpoint);
    if (track.tries === 0 && track.throttles === 0) budgets.requested(candidate.provider);
    const viaResponses =
      candidate.family === 'openai-chat' &&
      candidate.responsesFallback &&
      (track.triedResponses || routes.usesResponses(endpoint) === true);
    const plan: AttemptPlan = {
      candidate,
      family: viaResponses ? 'openai-responses' : candidate.family,
      key,
      rendered,
      maxTokens: track.maxTokens,
      deadlineAt: this.run.deadlineAt,
      signal: this.run.signal,
    };
    if (isProbe && othersReady) plan.firstTokenMs = Math.min(PROBE_FIRST_TOKEN_MS, candidate.timeouts.firstTokenMs);
    const record: AttemptRecord = {
      number: this.attempts.length + 1,
      provider: candidate.provider,
      model: candidate.model,
      dialect: candidate.dialect,
      keyId: key?.id ?? '',
      outcome: 'cancelled',
      status: 0,
      startedAt: clock.now(),
      durationMs: 0,
      usage: null,
    };
    if (viaResponses) record.viaResponses = true;
    this.shown = false;
    this.committed = false;
    this.held = [];
    let outcome: AttemptOutcome | undefined;
    try {
      const events = runAttempt(plan, this.deps.transport, clock);
      try {
        for (;;) {
          const step = await events.next();
          if (step.done === true) {
            outcome = step.value;
            break;
          }
          for (const frame of this.toFrames(step.value, record)) yield frame;
        }
      } finally {
        // The reader may have gone away in the middle of a yield.
        if (outcome === undefined) await events.return(undefined as never);
      }
    } catch (error) {
      if (!(error instanceof UnsendableRequest)) throw error;
      breakers.abandoned(endpoint);
      this.refusals.push(error.message);
      track.dead = true;
      return false;
    } finally {
      // Without an outcome: cancelled by the reader.
      if (outcome === undefined && !track.dead) {
        breakers.abandoned(endpoint);
        this.finish(record, candidate, {
          kind: 'stopped',
          by: 'cancelled',
          status: record.status,
          usage: record.usage,
          firstTokenMs: undefined,
        });
      }
    }
    this.finish(record, candidate, outcome);
    return yield* this.decide(track, key, plan, record, outcome);
  }

  private async *decide(
    track: Track,
    key: ProviderKeyRef | undefined,
    plan: AttemptPlan,
    record: AttemptRecord,
    outcome: AttemptOutcome,
  ): AsyncGenerator<Frame, boolean, undefined> {
    const { candidate } = track;
    const { breakers, routes } = this.deps;
    const endpoint = endpointOf(candidate);
    if (outcome.kind === 'ok') {
      breakers.succeeded(endpoint);
      if (record.viaResponses === true) {
        routes.remember(endpoint, true);
        this.marks.responsesFallback = true;
      }
      yield* this.succeed(track, record, outcome);
      return true;
    }
    if (outcome.kind === 'stopped') {
      breakers.abandoned(endpoint);
      if (outcome.by === 'cancelled') return true;
      yield this.giveUp('deadline');
      return true;
    }
    const { failure } = outcome;
    if (failure.class === 'retry') breakers.failed(endpoint);
    else breakers.succeeded(endpoint);
    if (this.run.signal.aborted) return true;

    if (failure.status === 404 && this.mayTryResponses(track, plan, outcome.body)) {
      track.triedResponses = true;
      return false;
    }
    if (record.viaResponses === true && failure.status === 404) routes.remember(endpoint, false);

    if (failure.class === 'model_output') {
      const { provider, model, dialect } = candidate;
      yield { ...this.giveUp('model_output'), modelOutput: { provider, model, dialect } };
      return true;
    }
    if (this.committed && !this.run.restartAfterCommit) {
      yield this.giveUp('broken');
      return true;
    }
    if (this.shown) yield { type: 'attempt_reset', attempt: record.number, reason: record.reason ?? failure.class };
    this.shown = false;
    if (failure.reason === 'content_filter' && this.run.routeAroundContentFilter !== true) {
      yield this.giveUp('content_filter');
      return true;
    }
    await this.apply(track, key, failure, outcome);
    return false;
  }

  private mayTryResponses(track: Track, plan: AttemptPlan, body: string | undefined): boolean {
    const { candidate } = track;
    if (
      candidate.family !== 'openai-chat' ||
      plan.family !== 'openai-chat' ||
      !candidate.responsesFallback ||
      track.triedResponses
    )
      return false;
    return this.deps.routes.usesResponses(endpointOf(candidate)) !== false && !speaksOfModel(body ?? '');
  }

  /** What the failure means for this candidate, its key and its provider. */
  private async apply(
    track: Track,
    key: ProviderKeyRef | undefined,
    failure: FailureVerdict,
    outcome: AttemptOutcome & { kind: 'failed' },
  ): Promise<void> {
    const { clock, keys, budgets } = this.deps;
    const { candidate } = track;
    const now = clock.now();
    switch (failure.class) {
      case 'retry': {
        track.tries++;
        if (track.tries > candidate.retries || !budgets.take(candidate.provider)) {
          track.dead = true;
          return;
        }
        if (outcome.overdue === 'first_token') track.silent = true;
        track.notBefore = now + (failure.retryAfterMs ?? backoffMs(track.tries - 1, candidate.backoffMs, clock.random));
        return;
      }
      case 'rotate_key_then_retry': {
        const wait = failure.retryAfterMs ?? backoffMs(track.throttles, candidate.backoffMs, clock.random);
        track.throttles++;
        keys.extend(keyBoardId(candidate, key), now + wait, 'throttled');
        // Other keys are other allowances; only the same one again counts as a retry.
        if (candidate.keys.length <= 1) track.tries++;
        if (track.tries > candidate.retries) track.dead = true;
        return;
      }
      case 'context_overflow':
        return this.refit(track, failure);
      case 'next_model':
        track.dead = true;
        return;
      case 'next_provider': {
        const aboutKey = failure.reason === 'auth' || failure.reason === 'plan_limit';
        if (aboutKey) {
          keys.extend(keyBoardId(candidate, key), now + DEAD_KEY_MS, failure.reason);
          this.refusedKeys.add(keyBoardId(candidate, key));
        }
        this.leaveProvider(candidate.provider, aboutKey);
        return;
      }
      case 'model_output':
        return;
    }
  }

  /** Nothing more of this provider; but where only a key was refused and nobody else is left, its other keys may serve. */
  private leaveProvider(provider: string, aboutKey: boolean): void {
    const others = this.tracks.some((track) => !track.dead && track.candidate.provider !== provider);
    for (const track of this.tracks) {
      if (track.candidate.provider !== provider) continue;
      const hasOtherKey = track.candidate.keys.some((key) => !this.refusedKeys.has(keyBoardId(track.candidate, key)));
      if (!aboutKey || others || !hasOtherKey) track.dead = true;
    }
  }

  /** The prompt does not fit: lower the reservation, or cut, or leave it to a larger window. */
  private async refit(track: Track, failure: FailureVerdict): Promise<void> {
    this.overflowed = true;
    const { contextLimit = track.candidate.contextTokens, promptTokens, outputTokens } = failure.overflow ?? {};
    const prompt = promptTokens ?? track.rendered?.promptTokens;
    const reserved = track.maxTokens ?? outputTokens;
    if (track.refits < MAX_REFITS) {
      track.refits++;
      // Only where the provider named both numbers: an estimate would lower it again and again.
      if (promptTokens !== undefined && contextLimit !== undefined && reserved !== undefined) {
        const room = contextLimit - promptTokens - TOKEN_MARGIN;
        if (room >= Math.min(LEAST_OUTPUT_TOKENS, reserved) && room < reserved) {
          track.maxTokens = room;
          return;
        }
      }
      const target = contextLimit === undefined ? undefined : contextLimit - Math.min(reserved ?? 0, contextLimit / 2);
      const keep = prompt !== undefined && target !== undefined && target < prompt ? (target / prompt) * 0.95 : 0.5;
      const cut = await this.render(track, { moreThan: track.rendered?.turnsCut ?? 0, keep });
      if (cut !== undefined) {
        track.rendered = cut;
        return;
      }
    }
    track.dead = true;
    for (const other of this.tracks) {
      if (other.dead || other === track) continue;
      const known = other.candidate.contextTokens;
      const larger =
        known === undefined
          ? other.candidate.model !== track.candidate.model
          : contextLimit === undefined || known > contextLimit;
      if (!larger) other.dead = true;
    }
  }

  private *succeed(
    track: Track,
    record: AttemptRecord,
    outcome: AttemptOutcome & { kind: 'ok' },
  ): Generator<Frame, void, undefined> {
    const { answer } = outcome;
    const { candidate } = track;
    yield* this.flushHeld();
    if (!this.shown) yield this.startFrame(record);
    for (const [index, call] of answer.calls.entries()) yield { type: 'call', index, ...call };
    const cost = this.totalCost();
    if (answer.usage !== null) {
      yield {
        type: 'usage',
        usage: answer.usage,
        ...(record.costUsd === undefined ? {} : { costUsd: record.costUsd }),
      };
    }
    const marks: ResultMarks = { ...this.marks, ...answer.marks };
    if (track.rendered !== undefined && track.rendered.turnsCut > 0) marks.turnsCut = track.rendered.turnsCut;
    if (track.maxTokens !== undefined && track.maxTokens !== this.run.maxTokens)
      marks.maxTokensLoweredTo = track.maxTokens;
    const result: ChatResult = {
      provider: candidate.provider,
      model: candidate.model,
      dialect: candidate.dialect,
      text: answer.text,
      reasoning: answer.reasoning,
      calls: answer.calls,
      thinkingBlocks: answer.thinking_blocks,
      finishReason: answer.finish_reason,
      usage: answer.usage,
      marks,
      attempts: this.attempts,
    };
    if (cost !== undefined) result.costUsd = cost;
    if (answer.embeddings !== undefined) result.embeddings = answer.embeddings;
    yield { type: 'end', result };
  }

  /** Frames of one batch; pieces of text that came together travel together. */
  private toFrames(events: readonly WireEvent[], record: AttemptRecord): Frame[] {
    const out: Frame[] = [];
    const push = (frame: Frame & { type: 'delta' | 'reasoning' }): void => {
      const last = out.at(-1);
      if (last?.type === frame.type)
        out[out.length - 1] = { ...last, text: (last as { text: string }).text + frame.text } as Frame;
      else out.push(frame);
    };
    for (const event of events) {
      if (event.type === 'text') {
        this.commit(out, record);
        push({ type: 'delta', text: event.text });
      } else if (event.type === 'call_start') {
        this.commit(out, record);
      } else if (event.type === 'reasoning') {
        // Readers that cannot start again get no reasoning before the content: it would end the invisible failover.
        if (!this.committed && !this.run.restartAfterCommit) this.held.push({ type: 'reasoning', text: event.text });
        else {
          this.show(out, record);
          push({ type: 'reasoning', text: event.text });
        }
      } else if (event.type === 'text_was_reasoning' && this.run.restartAfterCommit) {
        // Readers that cannot take text back keep what they saw.
        out.push(
          { type: 'attempt_reset', attempt: record.number, reason: 'text_was_reasoning' },
          this.startFrame(record),
        );
        if (event.reasoning !== '') out.push({ type: 'reasoning', text: event.reasoning });
      }
    }
    return out;
  }

  private commit(out: Frame[], record: AttemptRecord): void {
    if (this.committed) return;
    this.committed = true;
    this.show(out, record);
    out.push(...this.flushHeld());
  }

  private show(out: Frame[], record: AttemptRecord): void {
    if (this.shown) return;
    this.shown = true;
    out.push(this.startFrame(record));
  }

  private flushHeld(): Frame[] {
    const held = this.held;
    this.held = [];
    return held;
  }

  private startFrame(record: AttemptRecord): Frame {
    const { number, provider, model, dialect } = record;
    return { type: 'start', attempt: number, provider, model, dialect };
  }

  private finish(record: AttemptRecord, candidate: Candidate, outcome: AttemptOutcome): void {
    record.durationMs = this.deps.clock.now() - record.startedAt;
    record.status = outcome.status;
    if (outcome.firstTokenMs !== undefined) record.firstTokenMs = outcome.firstTokenMs;
    record.usage = outcome.kind === 'ok' ? outcome.answer.usage : outcome.usage;
    if (record.usage !== null && candidate.price !== undefined) record.costUsd = costOf(record.usage, candidate.price);
    if (outcome.kind === 'ok') record.outcome = 'ok';
    else if (outcome.kind === 'stopped') record.outcome = outcome.by;
    else {
      const { failure } = outcome;
      record.outcome = failure.class;
      record.reason =
        outcome.empty === true
          ? 'empty'
          : outcome.overdue !== undefined && outcome.overdue !== 'deadline'
            ? outcome.overdue
            : failure.reason;
      if (failure.retryAfterMs !== undefined) record.retryAfterMs = failure.retryAfterMs;
    }
    this.attempts.push(record);
    this.deps.onAttempt?.(record);
    if (outcome.kind === 'failed' && outcome.failure.text !== undefined) {
      this.deps.onProviderText?.(record, redact(outcome.failure.text, candidate));
    }
  }

  private totalCost(): number | undefined {
    let total: number | undefined;
    for (const { costUsd } of this.attempts) if (costUsd !== undefined) total = (total ?? 0) + costUsd;
    return total;
  }

  private reasonToGiveUp(): GiveUp['because'] {
    const last = this.attempts.at(-1);
    if (last === undefined) return this.refusals.length > 0 ? 'unsendable' : this.overflowed ? 'overflow' : 'exhausted';
    return this.overflowed && last.outcome === 'context_overflow' ? 'overflow' : 'exhausted';
  }

  private giveUp(because: GiveUp['because']): Frame & { type: 'error' } {
    const { clock, keys } = this.deps;
    const now = clock.now();
    if (because === 'exhausted' && this.retryAt === undefined) {
      for (const { candidate } of this.tracks) {
        for (const key of candidate.keys.length === 0 ? [undefined] : candidate.keys) {
          const entry = keys.active(keyBoardId(candidate, key), now);
          if (entry?.reason === 'throttled') this.retryAt = Math.min(this.retryAt ?? Infinity, entry.until);
        }
      }
    }
    const error = giveUpError({ because, retryAt: this.retryAt, refusals: this.refusals }, this.attempts, now);
    return { type: 'error', error, attempts: this.attempts };
  }
}

/** Providers quote keys in their errors, in part or whole. */
export function redact(text: string, candidate: Candidate): string {
  let clean = text;
  for (const key of candidate.keys) {
    const value = key.reveal();
    if (value.length >= 4) clean = clean.replaceAll(value, '[key]');
  }
  return clean
    .replace(/\b(sk|ak|pk|gsk|xai|key|nvapi|hf)[-_][A-Za-z0-9*_-]{6,}/g, '[key]')
    .replace(/\bBearer\s+\S+/gi, 'Bearer [key]')
    .slice(0, 2048);
}
