import {
  authHeaders,
  buildChatRequest,
  classifyFailure,
  endpointUrl,
  WireStream,
  type ChatRequestInput,
  type FailureVerdict,
  type ReadOptions,
  type WireAnswer,
  type WireEvent,
  type WireFamily,
} from '@yardmaster/llm-wire';
import type { Candidate, ProviderKeyRef, Rendered } from './candidate.js';
import type { Clock } from './clock.js';
import type { Transport, TransportResponse } from './transport.js';
import { Watchdog, type Overdue } from './watchdog.js';

/** An error body is read so far and no further. */
const ERROR_BODY_BYTES = 64 * 1024;
const ERROR_BODY_MS = 5_000;

export interface AttemptPlan {
  candidate: Candidate;
  family: WireFamily;
  key: ProviderKeyRef | undefined;
  rendered: Rendered;
  maxTokens: number | undefined;
  /** Milliseconds since the epoch. */
  deadlineAt: number;
  /** Replaces the candidate's limit, for probes. */
  firstTokenMs?: number;
  signal: AbortSignal;
}

export type AttemptOutcome =
  | { kind: 'ok'; answer: WireAnswer; status: number; firstTokenMs: number | undefined }
  | {
      kind: 'failed';
      failure: FailureVerdict;
      status: number;
      usage: WireAnswer['usage'];
      overdue?: Overdue;
      firstTokenMs: number | undefined;
      /** The whole answer was empty. */
      empty?: true;
      body?: string;
    }
  | {
      kind: 'stopped';
      by: 'cancelled' | 'deadline';
      status: number;
      usage: WireAnswer['usage'];
      firstTokenMs: number | undefined;
    };

/**
 * Sends one request and hands out what comes, batch by batch. Never throws but for UnsendableRequest, before anything is
 * sent. The connection is closed at once when the caller's signal is aborted or a limit is passed.
 */
export async function* runAttempt(
  plan: AttemptPlan,
  transport: Transport,
  clock: Clock,
): AsyncGenerator<WireEvent[], AttemptOutcome, undefined> {
  const { candidate } = plan;
  const request = buildChatRequest(requestInput(plan));
  const stop = new AbortController();
  let overdue: Overdue | undefined;
  const onCancel = (): void => stop.abort();
  plan.signal.addEventListener('abort', onCancel, { once: true });
  const timeouts = { ...candidate.timeouts, firstTokenMs: plan.firstTokenMs ?? firstTokenLimitMs(plan) };
  const dog = new Watchdog(clock, timeouts, plan.deadlineAt, (why) => {
    overdue = why;
    stop.abort();
  });
  const aborted = new Promise<never>((_, reject) => {
    stop.signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true });
  });
  aborted.catch(() => undefined);
  if (plan.signal.aborted) stop.abort();

  let response: TransportResponse | undefined;
  const stream = new WireStream(plan.family, readOptions(plan));
  let settled = false;
  const firstTokenMs = (): number | undefined =>
    dog.firstTokenAt === undefined ? undefined : dog.firstTokenAt - dog.startedAt;
  const base = (): { status: number; usage: WireAnswer['usage']; firstTokenMs: number | undefined } => ({
    status: response?.status ?? 0,
    usage: stream.usage,
    firstTokenMs: firstTokenMs(),
  });
  try {
    const sent = transport.send({
      provider: candidate.provider,
      url: endpointUrl(candidate.baseUrl, request.path),
      headers: { ...request.headers, ...candidate.headers, ...authHeaders(candidate.auth, plan.key?.reveal()) },
      body: request.body,
      connectTimeoutMs: candidate.timeouts.connectMs,
      signal: stop.signal,
    });
    // A transport that ignores its signal must not hold the request beyond its deadline.
    sent.then((late) => stop.signal.aborted && late.destroy()).catch(() => undefined);
    response = await Promise.race([sent, aborted]);
    if (response.status < 200 || response.status >= 300) {
      settled = true;
      const body = await readErrorBody(response, clock, aborted);
      return { kind: 'failed', ...base(), failure: failureOf(plan, response, body, clock), body };
    }
    for (;;) {
      const bytes = await response.next();
      if (stop.signal.aborted) break;
      if (bytes === null) break;
      dog.bytes();
      const events = stream.push(bytes);
      if (events.length > 0) {
        if (events.some(isProgress)) dog.progress();
        yield events;
      }
      if (stream.isDone) break;
      if (stream.hasFinishReason) dog.finishing();
    }
    // A limit that is passed after the finish reason cuts nothing but the tail.
    if (stop.signal.aborted && !(overdue === 'idle' && stream.hasFinishReason)) throw new Error('stopped');
    settled = true;
    response.release();
  } catch (error) {
    settled = true;
    stop.abort();
    response?.destroy();
    // With a finish reason the answer is whole; what broke was only its tail.
    if (!stream.hasFinishReason || plan.signal.aborted) return broken(plan, error, overdue, base());
  } finally {
    dog.stop();
    plan.signal.removeEventListener('abort', onCancel);
    // Also when the reader of this generator went away in the middle.
    if (!settled) {
      stop.abort();
      response?.destroy();
    }
  }
  const last = stream.end();
  if (last.length > 0) yield last;
  return conclude(stream.answer(), base());
}

/** A server reads the prompt before it writes: long prompts get the time that takes. */
function firstTokenLimitMs({ candidate, rendered }: AttemptPlan): number {
  const { prefillTokensPerSecond: rate, timeouts } = candidate;
  return timeouts.firstTokenMs + (rate === undefined ? 0 : ((rendered.promptTokens ?? 0) / rate) * 1000);
}

type Base = { status: number; usage: WireAnswer['usage']; firstTokenMs: number | undefined };

function conclude(answer: WireAnswer, base: Base): AttemptOutcome {
  if (answer.error !== undefined) return { kind: 'failed', ...base, usage: answer.usage, failure: answer.error };
  const empty = answer.text.trim() === '' && answer.calls.length === 0 && answer.embeddings === undefined;
  if (empty && answer.finish_reason !== 'content_filter' && answer.finish_reason !== 'length') {
    const failure: FailureVerdict = {
      class: 'retry',
      reason: 'server',
      status: base.status,
      text: 'the answer was empty',
    };
    return { kind: 'failed', ...base, usage: answer.usage, failure, empty: true };
  }
  return { kind: 'ok', answer, status: base.status, firstTokenMs: base.firstTokenMs };
}

function broken(plan: AttemptPlan, error: unknown, overdue: Overdue | undefined, base: Base): AttemptOutcome {
  if (plan.signal.aborted) return { kind: 'stopped', by: 'cancelled', ...base };
  if (overdue === 'deadline') return { kind: 'stopped', by: 'deadline', ...base };
  if (overdue !== undefined) {
    const failure: FailureVerdict = {
      class: 'retry',
      reason: 'timeout',
      status: base.status,
      text: `no answer in time (${overdue})`,
    };
    return { kind: 'failed', ...base, failure, overdue };
  }
  const failure = classifyFailure({ status: 0, error, now: 0, provider: plan.candidate.kind });
  return { kind: 'failed', ...base, failure: { ...failure, status: base.status } };
}

function requestInput(plan: AttemptPlan): ChatRequestInput {
  const input: ChatRequestInput = {
    ...plan.rendered.input,
    family: plan.family,
    model: plan.candidate.model,
    quirks: plan.candidate.quirks,
  };
  if (plan.maxTokens !== undefined) input.maxTokens = plan.maxTokens;
  return input;
}

function readOptions({ candidate, maxTokens }: AttemptPlan): ReadOptions {
  return {
    ...(maxTokens === undefined ? {} : { maxTokens }),
    provider: candidate.kind,
    reasoningFallback: candidate.reasoningFallback,
    inlineThink: splitsThink(candidate),
    thinkPrefilled: candidate.thinkPrefilled ?? false,
  };
}

/**
 * Is the thinking taken out of the text here? Where calls come as text, the call parser separates thinking from calls; a
 * search for tags would cut through both.
 */
export function splitsThink({ inlineThink, dialect }: Candidate): boolean {
  return inlineThink && dialect === 'native';
}

function isProgress(event: WireEvent): boolean {
  return event.type !== 'usage' && event.type !== 'thinking_block' && event.type !== 'error';
}

function failureOf(plan: AttemptPlan, response: TransportResponse, body: string, clock: Clock): FailureVerdict {
  if (response.status >= 300 && response.status < 400) {
    return { class: 'next_provider', reason: 'rejected', status: response.status, text: 'redirects are not followed' };
  }
  return classifyFailure({
    status: response.status,
    headers: response.headers,
    body,
    now: clock.now(),
    provider: plan.candidate.kind,
  });
}

async function readErrorBody(response: TransportResponse, clock: Clock, aborted: Promise<never>): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  let cancelTimer = (): void => undefined;
  const late = new Promise<null>((resolve) => {
    cancelTimer = clock.after(ERROR_BODY_MS, () => resolve(null));
  });
  try {
    while (size < ERROR_BODY_BYTES) {
      const bytes = await Promise.race([response.next(), late, aborted]);
      if (bytes === null) break;
      pieces.push(bytes);
      size += bytes.byteLength;
    }
    response.release();
  } catch {
    // The status is known; a body that breaks off changes nothing.
    response.destroy();
  } finally {
    cancelTimer();
  }
  return Buffer.concat(pieces).toString('utf8');
}
