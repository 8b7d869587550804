import { costOf, speaksOfModel, UnsendableRequest, type FailureVerdict } from '@yardmaster/llm-wire';
import { AttemptFrames } from './attempt-frames.js';
import { runAttempt, splitsThink, type AttemptOutcome, type AttemptPlan } from './attempt.js';
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
import type { EndpointLoad } from './endpoint-load.js';
import type { AttemptRecord, ChatResult, Frame, ResultMarks } from './frame.js';
import { giveUpError, type GiveUp } from './give-up.js';
import { DEAD_KEY_MS, keyBoardId } from './key-pool.js';
import { redact } from './redact.js';
import { leaveToLargerWindows, planRefit } from './refit.js';
import type { RetryBudgets } from './retry-budget.js';
import type { RouteMemory } from './route-memory.js';
import { chooseTrack, newTrack, type Track } from './track.js';
import type { Transport } from './transport.js';

/** One request to a model. */
export interface ChatRun {
  id: string;
  /** A conversation keeps its key while that is healthy. */
  conversationId?: string;
  /** Milliseconds since the epoch; nothing goes on beyond it. */
  deadlineAt: number;
  /** Attempts in all; 8 by default. */
  maxAttempts?: number;
  maxTokens?: number;
  render: Renderer;
  /**
   * Asked before every attempt: a pod that began to drain or to load after the request was planned gets nothing more.
   * Absent: all candidates serve.
   */
  isServing?: (candidate: Candidate) => boolean;
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
  /** Counts what is under way, for balancing. */
  load?: EndpointLoad;
  /** Told of every attempt as it ends, also of cancelled ones: accounting and spans. */
  onAttempt?: (record: AttemptRecord) => void;
  /** The provider's own words, redacted, for the log only. */
  onProviderText?: (record: AttemptRecord, text: string) => void;
}

const MAX_ATTEMPTS = 8;
/** Failures in a row after which nothing but a probe is sent to one pod of several. */
const POD_FAILURES = 2;
/** A probe of an open circuit may cost its request this much, no more, if others could serve. */
const PROBE_FIRST_TOKEN_MS = 5_000;

/**
 * Gets one request answered, whatever the providers do: models, providers, keys and retries under one deadline. Failures
 * before the first content are invisible; after it the reader is told to start again. Ends with an `end` or `error` frame,
 * or without one when the signal was aborted. Throws only what the renderer throws.
 */
export function runChat(
  run: ChatRun,
  candidates: readonly Candidate[],
  deps: FailoverDeps,
): AsyncGenerator<Frame, void, undefined> {
  return new ChatEngine(run, candidates, deps).frames();
}

type Failed = AttemptOutcome & { kind: 'failed' };

class ChatEngine {
  private readonly run: ChatRun;
  private readonly deps: FailoverDeps;
  private readonly tracks: Track[];
  private readonly sticky: string;
  private readonly attempts: AttemptRecord[] = [];
  private readonly marks: ResultMarks = {};
  /** Why candidates could not take the request at all. */
  private readonly refusals: string[] = [];
  private readonly refusedKeys = new Set<string>();
  private retryAt: number | undefined;

  constructor(run: ChatRun, candidates: readonly Candidate[], deps: FailoverDeps) {
    this.run = run;
    this.deps = deps;
    this.sticky = run.conversationId ?? run.id;
    this.tracks = candidates.map((candidate) => newTrack(candidate, run.maxTokens));
  }

  async *frames(): AsyncGenerator<Frame, void, undefined> {
    const { clock } = this.deps;
    const { signal, deadlineAt, maxAttempts = MAX_ATTEMPTS } = this.run;
    if (this.tracks.length === 0) return yield this.giveUp('no_candidate');
    while (!signal.aborted) {
      const now = clock.now();
      if (now >= deadlineAt) return yield this.giveUp('deadline');
      if (this.attempts.length >= maxAttempts) return yield this.giveUp('exhausted');
      const choice = chooseTrack(this.tracks, this.deps, {
        now,
        deadlineAt,
        sticky: this.sticky,
        refusedKeys: this.refusedKeys,
        isServing: this.run.isServing ?? (() => true),
      });
      if (choice === undefined) return yield this.giveUp(this.reasonToGiveUp());
      if ('waitUntil' in choice) {
        if (choice.waitUntil >= deadlineAt) {
          this.retryAt = choice.waitUntil;
          return yield this.giveUp('exhausted');
        }
        await sleep(clock, choice.waitUntil - now, signal);
        continue;
      }
      const { track } = choice;
      track.rendered ??= await this.render(track);
      if (track.rendered === undefined) {
        track.dead = true;
        continue;
      }
      const isOver = yield* this.attempt(track, track.rendered, choice.key, choice.othersReady);
      if (isOver) return;
    }
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
    const { clock, breakers, budgets, load } = this.deps;
    const endpoint = endpointOf(candidate);
    const isProbe = breakers.enter(endpoint);
    if (track.tries === 0 && track.throttles === 0) budgets.requested(candidate.provider);
    const plan: AttemptPlan = {
      candidate,
      family: this.goesToResponses(track) ? 'openai-responses' : candidate.family,
      key,
      rendered,
      maxTokens: track.maxTokens,
      deadlineAt: this.run.deadlineAt,
      signal: this.run.signal,
    };
    if (isProbe && othersReady) plan.firstTokenMs = Math.min(PROBE_FIRST_TOKEN_MS, candidate.timeouts.firstTokenMs);
    const record = this.newRecord(plan);
    const frames = new AttemptFrames(record, this.run.restartAfterCommit);
    let outcome: AttemptOutcome | undefined;
    load?.enter(endpoint);
    try {
      const events = runAttempt(plan, this.deps.transport, clock);
      try {
        for (;;) {
          const step = await events.next();
          if (step.done === true) {
            outcome = step.value;
            break;
          }
          // Not `yield*`: over a list that makes several promises of each frame.
          for (const frame of frames.of(step.value)) yield frame;
        }
      } finally {
        // The reader may have gone away in the middle of a yield: that closes the connection.
        if (outcome === undefined) await events.return(undefined as never);
      }
    } catch (error) {
      if (!(error instanceof UnsendableRequest)) throw error;
      this.refusals.push(error.message);
      track.dead = true;
      return false;
    } finally {
      load?.leave(endpoint);
      if (outcome === undefined) breakers.abandoned(endpoint);
      if (outcome === undefined && !track.dead) {
        const nothing = { status: 0, usage: null, firstTokenMs: undefined };
        this.finish(record, candidate, { kind: 'stopped', by: 'cancelled', ...nothing });
      }
    }
    this.finish(record, candidate, outcome);
    return yield* this.decide(track, plan, record, outcome, frames);
  }

  private async *decide(
    track: Track,
    plan: AttemptPlan,
    record: AttemptRecord,
    outcome: AttemptOutcome,
    frames: AttemptFrames,
  ): AsyncGenerator<Frame, boolean, undefined> {
    const { breakers, routes } = this.deps;
    const endpoint = endpointOf(track.candidate);
    if (outcome.kind === 'ok') {
      breakers.succeeded(endpoint);
      if (record.viaResponses === true) {
        routes.remember(endpoint, true);
        this.marks.responsesFallback = true;
      }
      for (const frame of frames.rest()) yield frame;
      for (const frame of this.succeed(track, record, outcome)) yield frame;
      return true;
    }
    if (outcome.kind === 'stopped') {
      breakers.abandoned(endpoint);
      if (outcome.by === 'deadline') yield this.giveUp('deadline');
      return true;
    }
    const { failure } = outcome;
    // Any other answer shows that somebody is there.
    if (failure.class === 'retry') breakers.failed(endpoint, this.failuresToOpen(track.candidate, outcome));
    else breakers.succeeded(endpoint);
    if (this.run.signal.aborted) return true;
    if (outcome.status === 404) {
      if (this.mayTryResponses(track, plan, outcome.body)) {
        track.triedResponses = true;
        return false;
      }
      if (record.viaResponses === true) routes.remember(endpoint, false);
    }
    if (failure.class === 'model_output') {
      const { provider, model, dialect } = track.candidate;
      yield { ...this.giveUp('model_output'), modelOutput: { provider, model, dialect } };
      return true;
    }
    if (frames.committed && !this.run.restartAfterCommit) {
      yield this.giveUp('broken');
      return true;
    }
    if (frames.shown) {
      yield { type: 'attempt_reset', attempt: record.number, reason: record.reason ?? failure.class };
    }
    if (failure.reason === 'content_filter' && this.run.routeAroundContentFilter !== true) {
      yield this.giveUp('content_filter');
      return true;
    }
    await this.learn(track, plan.key, outcome);
    return false;
  }

  /** One of several pods is left alone sooner than a provider that is alone: others serve the same. */
  private failuresToOpen({ pod }: Candidate, { failure, status }: Failed): number | undefined {
    if (pod === undefined) return undefined;
    const nobodyThere = status === 0 && failure.reason === 'network';
    return nobodyThere ? 1 : POD_FAILURES;
  }

  private hasOtherPod({ candidate }: Track): boolean {
    if (candidate.pod === undefined) return false;
    return this.tracks.some(
      (other) =>
        !other.dead &&
        this.run.isServing?.(other.candidate) !== false &&
        other.candidate.pod !== undefined &&
        other.candidate.pod !== candidate.pod &&
        other.candidate.provider === candidate.provider &&
        other.candidate.model === candidate.model,
    );
  }

  private goesToResponses({ candidate, triedResponses }: Track): boolean {
    if (candidate.family !== 'openai-chat' || !candidate.responsesFallback) return false;
    return triedResponses || this.deps.routes.usesResponses(endpointOf(candidate)) === true;
  }

  /** A bare 404: the server may know the other route only. One that speaks of a model says that the route exists. */
  private mayTryResponses(track: Track, plan: AttemptPlan, body: string | undefined): boolean {
    const { candidate } = track;
    if (plan.family !== 'openai-chat' || !candidate.responsesFallback || track.triedResponses) return false;
    return this.deps.routes.usesResponses(endpointOf(candidate)) !== false && !speaksOfModel(body ?? '');
  }

  /** What the failure means for this candidate, its key and its provider. */
  private async learn(track: Track, key: ProviderKeyRef | undefined, outcome: Failed): Promise<void> {
    const { clock, keys, budgets } = this.deps;
    const { candidate } = track;
    const { failure } = outcome;
    const now = clock.now();
    switch (failure.class) {
      case 'retry':
        track.tries++;
        if (track.tries > candidate.retries || !budgets.take(candidate.provider)) {
          track.dead = true;
          return;
        }
        // Another pod that serves the same need not be waited for.
        if (outcome.overdue === 'first_token' || this.hasOtherPod(track)) track.silent = true;
        track.notBefore = now + (failure.retryAfterMs ?? backoffMs(track.tries - 1, candidate.backoffMs, clock.random));
        return;
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
      const { candidate } = track;
      if (candidate.provider !== provider) continue;
      const hasOtherKey = candidate.keys.some((key) => !this.refusedKeys.has(keyBoardId(candidate, key)));
      if (!aboutKey || others || !hasOtherKey) track.dead = true;
    }
  }

  /** The prompt does not fit: lower the reservation, or cut, or leave it to a larger window. */
  private async refit(track: Track, failure: FailureVerdict): Promise<void> {
    const refit = planRefit(track, failure);
    track.refits++;
    if (refit !== 'leave' && 'lowerTo' in refit) {
      track.maxTokens = refit.lowerTo;
      return;
    }
    const cut = refit === 'leave' ? undefined : await this.render(track, refit.cut);
    if (cut === undefined) leaveToLargerWindows(this.tracks, track, failure);
    else track.rendered = cut;
  }

  private *succeed(
    track: Track,
    record: AttemptRecord,
    { answer }: AttemptOutcome & { kind: 'ok' },
  ): Generator<Frame, void, undefined> {
    for (const [index, call] of answer.calls.entries()) yield { type: 'call', index, ...call };
    if (answer.usage !== null) {
      const { costUsd } = record;
      yield { type: 'usage', usage: answer.usage, ...(costUsd === undefined ? {} : { costUsd }) };
    }
    const marks: ResultMarks = { ...this.marks, ...answer.marks };
    if (track.rendered !== undefined && track.rendered.turnsCut > 0) marks.turnsCut = track.rendered.turnsCut;
    if (track.maxTokens !== undefined && track.maxTokens !== this.run.maxTokens) {
      marks.maxTokensLoweredTo = track.maxTokens;
    }
    const { provider, model, dialect, thinkPrefilled, textFallback } = track.candidate;
    // A server that gave the reasoning in a field of its own has split it already.
    if (thinkPrefilled === true && !splitsThink(track.candidate) && answer.reasoning === '')
      marks.thinkPrefilled = true;
    if (textFallback !== undefined && answer.calls.length === 0) marks.textFallback = textFallback;
    const result: ChatResult = {
      provider,
      model,
      dialect,
      text: answer.text,
      reasoning: answer.reasoning,
      calls: answer.calls,
      thinkingBlocks: answer.thinking_blocks,
      finishReason: answer.finish_reason,
      usage: answer.usage,
      marks,
      attempts: this.attempts,
    };
    const cost = this.totalCost();
    if (cost !== undefined) result.costUsd = cost;
    if (answer.embeddings !== undefined) result.embeddings = answer.embeddings;
    yield { type: 'end', result };
  }

  private newRecord({ candidate, key, family }: AttemptPlan): AttemptRecord {
    const { provider, model, dialect } = candidate;
    const record: AttemptRecord = {
      number: this.attempts.length + 1,
      provider,
      model,
      dialect,
      keyId: key?.id ?? '',
      outcome: 'cancelled',
      status: 0,
      startedAt: this.deps.clock.now(),
      durationMs: 0,
      usage: null,
    };
    if (family !== candidate.family) record.viaResponses = true;
    if (candidate.textFallback !== undefined || (candidate.thinkPrefilled === true && !splitsThink(candidate)))
      record.readWhole = true;
    return record;
  }

  private finish(record: AttemptRecord, candidate: Candidate, outcome: AttemptOutcome): void {
    record.durationMs = this.deps.clock.now() - record.startedAt;
    record.status = outcome.status;
    if (outcome.firstTokenMs !== undefined) record.firstTokenMs = outcome.firstTokenMs;
    record.usage = outcome.kind === 'ok' ? outcome.answer.usage : outcome.usage;
    if (record.usage !== null && candidate.price !== undefined) {
      record.costUsd = costOf(record.usage, candidate.price);
    }
    if (outcome.kind === 'ok') record.outcome = 'ok';
    else if (outcome.kind === 'stopped') record.outcome = outcome.by;
    else {
      const { failure, overdue } = outcome;
      record.outcome = failure.class;
      record.reason = failure.reason;
      if (outcome.empty === true) record.reason = 'empty';
      else if (overdue !== undefined && overdue !== 'deadline') record.reason = overdue;
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
    if (last === undefined) return this.refusals.length > 0 ? 'unsendable' : 'exhausted';
    return last.outcome === 'context_overflow' ? 'overflow' : 'exhausted';
  }

  private giveUp(because: GiveUp['because']): Frame & { type: 'error' } {
    const now = this.deps.clock.now();
    const retryAt = this.retryAt ?? (because === 'exhausted' ? this.firstKeyReadyAt(now) : undefined);
    const error = giveUpError({ because, retryAt, refusals: this.refusals }, this.attempts, now);
    return { type: 'error', error, attempts: this.attempts };
  }

  /** When the first throttled key of the chain may be used again. */
  private firstKeyReadyAt(now: number): number | undefined {
    let first: number | undefined;
    for (const { candidate } of this.tracks) {
      for (const key of candidate.keys.length === 0 ? [undefined] : candidate.keys) {
        const entry = this.deps.keys.active(keyBoardId(candidate, key), now);
        if (entry?.reason === 'throttled') first = Math.min(first ?? Infinity, entry.until);
      }
    }
    return first;
  }
}
