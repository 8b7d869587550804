import { type DescMessage, fromBinary, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf';
import type { Msg, NatsConnection } from '@nats-io/transport-node';
import {
  HEADERS,
  StreamControlSchema,
  type StreamedRpc,
  type StreamFrame,
  subjects,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import { decodeFrame } from './frame.js';
import { encode, HeaderBlock } from './payload.js';
import { isNoResponders, noRespondersError, publish, type ReplyInbox } from './reply-inbox.js';
import type { Ticker } from './ticker.js';
import { decodeError, fromWireError } from './wire-error.js';

/** A server sends a beat when it has sent nothing for this long, and a reader renews its interest as often. */
export const BEAT_MS = 2_000;
/** Beats or renewals missed before the other side counts as gone. */
export const MISSED_BEATS = 3;

export interface StreamOptions {
  /** Unique per request; names it on `ym.ctl`. */
  requestId: string;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  trace?: string | undefined;
}

const RENEW = encode(StreamControlSchema, {});
const CANCEL = encode(StreamControlSchema, { cancel: true });

/**
 * The reader's half of a streamed answer. Nothing is asked before the first `next()`; a reader that returns, throws or
 * is aborted before the end cancels at once, so that nobody pays for an answer that nobody reads.
 */
export async function* readStream<Q extends DescMessage, F extends DescMessage>(
  nc: NatsConnection,
  inbox: ReplyInbox,
  ticker: Ticker,
  rpc: StreamedRpc<Q, F>,
  tenant: TenantId,
  message: MessageInitShape<Q>,
  options: StreamOptions,
): AsyncGenerator<MessageShape<F>, void, void> {
  const { signal } = options;
  signal?.throwIfAborted();
  const subject = subjects.rpc(rpc, tenant);
  const control = subjects.control(tenant, options.requestId);
  const queue: MessageShape<F>[] = [];
  let next = 0;
  let ended = false;
  let failure: { error: unknown } | undefined;
  let wake: (() => void) | undefined;
  let heardAt = performance.now();
  let renewedAt = heardAt;
  /** Is there somebody at the other end who works for us? */
  let served = false;

  const settle = (error?: { error: unknown }) => {
    if (ended || failure) return;
    if (error) failure = error;
    else ended = true;
    wake?.();
  };
  const fail = (error: unknown) => settle({ error });
  const take = ({ n, kind }: { n: number; kind: StreamFrame['kind'] }) => {
    if (n !== next) {
      const text = `${rpc.service}.${rpc.operation}: frame ${next} was expected and ${n} came.`;
      return fail(new YardError('UNAVAILABLE', 'YM-STREAM-GAP', text));
    }
    next++;
    switch (kind.case) {
      case 'data':
        queue.push(fromBinary(rpc.frame, kind.value));
        wake?.();
        return;
      case 'end':
        return settle();
      case 'error':
        served = false;
        return fail(fromWireError(kind.value));
      case 'beat':
      case undefined:
        return;
    }
  };
  const heard = (reply: Msg) => {
    if (ended || failure) return;
    heardAt = performance.now();
    if (isNoResponders(reply)) {
      served = false;
      return fail(noRespondersError(subject));
    }
    try {
      if (reply.headers?.has(HEADERS.error)) fail(decodeError(reply.data));
      else take(decodeFrame(reply.data));
    } catch (cause) {
      fail(
        new YardError('INTERNAL', 'YM-STREAM-FRAME', `${subject} answered with a frame that cannot be read.`, {
          cause,
        }),
      );
    }
  };

  const { reply, close } = inbox.open({ subject, heard, failed: fail });
  const stopTicking = ticker.add((now) => {
    if (now - heardAt > BEAT_MS * MISSED_BEATS)
      fail(new YardError('UNAVAILABLE', 'YM-STREAM-SILENT', `${subject} has sent nothing for ${MISSED_BEATS} beats.`));
    else if (now - renewedAt >= BEAT_MS) {
      renewedAt = now;
      if (!nc.isClosed()) nc.publish(control, RENEW);
    }
  });
  const timer = setTimeout(
    () => fail(new YardError('TIMEOUT', 'YM-TIMEOUT', `${subject} has not ended within ${options.timeoutMs} ms.`)),
    options.timeoutMs,
  );
  const cancel = () => {
    if (!served || ended || nc.isClosed()) return;
    served = false;
    nc.publish(control, CANCEL);
  };
  // An abort cancels without waiting for the reader to come back for its next frame.
  const onAbort = () => {
    fail(signal?.reason);
    cancel();
  };
  signal?.addEventListener('abort', onAbort, { once: true });

  try {
    publish(nc, subject, encode(rpc.request, message), { reply, headers: requestHeaders(options) });
    served = true;
    for (;;) {
      while (queue.length > 0 && !signal?.aborted) yield queue.shift()!;
      if (failure) throw (failure as { error: unknown }).error;
      if (ended) return;
      await new Promise<void>((resolve) => (wake = resolve));
      wake = undefined;
    }
  } finally {
    cancel();
    close();
    stopTicking();
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

function requestHeaders({ requestId, timeoutMs, trace }: StreamOptions) {
  const pairs: [string, string][] = [
    [HEADERS.request, requestId],
    [HEADERS.deadline, String(timeoutMs)],
  ];
  if (trace) pairs.push([HEADERS.trace, trace]);
  return HeaderBlock.of(pairs);
}
