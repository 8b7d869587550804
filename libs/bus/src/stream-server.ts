import { type DescMessage, fromBinary, type MessageInitShape, type MessageShape } from '@bufbuild/protobuf';
import type { Msg, NatsConnection, Subscription } from '@nats-io/transport-node';
import {
  HEADERS,
  StreamControlSchema,
  type StreamedRpc,
  type StreamFrame,
  subjects,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import { encodeDataFrame, encodeFrame } from './frame.js';
import type { Log } from './log.js';
import { decode, encode } from './payload.js';
import { publish } from './reply-inbox.js';
import { deadlineOf, mayAnswer, type Served, subscribeServing, tenantOf } from './rpc-server.js';
import { BEAT_MS, MISSED_BEATS } from './stream-reader.js';
import type { Ticker } from './ticker.js';
import { toWireError } from './wire-error.js';

/** What a handler of a streamed question knows and can do. */
export interface StreamContext<F extends DescMessage> {
  tenant: TenantId;
  deadlineMs: number;
  trace: string | undefined;
  /** Aborted when the reader cancels, has not renewed its interest for three beats, or the deadline has passed. */
  signal: AbortSignal;
  /** Sends one frame at once; coalescing is the producer's job. Does nothing once the signal is aborted. */
  send(frame: MessageInitShape<F>): void;
}

/** One streamed answer on its way. */
class OpenStream {
  readonly abort = new AbortController();
  readonly #nc: NatsConnection;
  readonly #reply: string;
  #next = 0;
  #sentAt = performance.now();
  #renewedAt = this.#sentAt;

  constructor(nc: NatsConnection, reply: string) {
    this.#nc = nc;
    this.#reply = reply;
  }

  data(bytes: Uint8Array): void {
    if (this.abort.signal.aborted) return;
    publish(this.#nc, this.#reply, encodeDataFrame(this.#next, bytes));
    this.#next++; // after the publish: a frame that was too large to leave must not look like a lost one
    this.#sentAt = performance.now();
  }

  frame(kind: StreamFrame['kind']): void {
    publish(this.#nc, this.#reply, encodeFrame(this.#next++, kind));
    this.#sentAt = performance.now();
  }

  renewed(): void {
    this.#renewedAt = performance.now();
  }

  look(now: number): void {
    if (this.abort.signal.aborted || this.#nc.isClosed()) return;
    if (now - this.#renewedAt > BEAT_MS * MISSED_BEATS)
      this.abort.abort(new YardError('UNAVAILABLE', 'YM-READER-GONE', 'The reader of this answer is gone.'));
    else if (now - this.#sentAt >= BEAT_MS) this.frame({ case: 'beat', value: true });
  }
}

/** The streamed answers of this process, and its one ear for all of their renewals and cancels. */
export class StreamServer {
  readonly #nc: NatsConnection;
  readonly #log: Log;
  readonly #ticker: Ticker;
  readonly #open = new Map<string, OpenStream>();
  #ear: Subscription | undefined;

  constructor(nc: NatsConnection, log: Log, ticker: Ticker) {
    this.#nc = nc;
    this.#log = log;
    this.#ticker = ticker;
  }

  serve<Q extends DescMessage, F extends DescMessage>(
    rpc: StreamedRpc<Q, F>,
    handler: (request: MessageShape<Q>, context: StreamContext<F>) => Promise<void>,
  ): Served {
    this.#ear ??= this.#nc.subscribe('ym.ctl.>', {
      callback: (error, message) => {
        if (error) this.#log.error({ err: error }, 'the server refused to let renewals and cancels be heard');
        else this.#hear(message);
      },
    });
    const name = `${rpc.service}.${rpc.operation}`;
    const answer = async (message: Msg) => {
      const { reply } = message;
      if (!reply) return;
      if (!mayAnswer(reply)) {
        this.#log.warn({ operation: name, reply }, 'a question with a foreign reply subject was not answered');
        return;
      }
      const stream = new OpenStream(this.#nc, reply);
      const { signal } = stream.abort;
      let control: string | undefined;
      let deadline: NodeJS.Timeout | undefined;
      const stopTicking = this.#ticker.add((now) => stream.look(now));
      try {
        const tenant = tenantOf(message.subject);
        const deadlineMs = deadlineOf(message);
        deadline = setTimeout(
          () => stream.abort.abort(new YardError('TIMEOUT', 'YM-TIMEOUT', 'The deadline of this request has passed.')),
          deadlineMs,
        );
        const requestId = message.headers?.get(HEADERS.request);
        if (!requestId)
          throw new YardError('INVALID', 'YM-REQUEST-ID', `A streamed question needs the header ${HEADERS.request}.`);
        control = subjects.control(tenant, requestId);
        if (this.#open.has(control)) {
          control = undefined; // the entry is the other one's
          throw new YardError('CONFLICT', 'YM-REQUEST-ID', `Request ${requestId} is being answered already.`);
        }
        this.#open.set(control, stream);
        await handler(decode(rpc.request, message), {
          tenant,
          deadlineMs,
          trace: message.headers?.get(HEADERS.trace) || undefined,
          signal,
          send: (frame) => stream.data(encode(rpc.frame, frame)),
        });
        if (!signal.aborted) stream.frame({ case: 'end', value: true });
        else stream.frame({ case: 'error', value: toWireError(signal.reason) });
      } catch (thrown) {
        const error: unknown = signal.aborted ? signal.reason : thrown;
        if (!YardError.is(error) || error.class === 'INTERNAL')
          this.#log.error({ operation: name, err: error }, 'a handler failed');
        try {
          stream.frame({ case: 'error', value: toWireError(error) });
        } catch (cause) {
          this.#log.warn({ operation: name, err: cause }, 'an error could not be sent');
        }
      } finally {
        clearTimeout(deadline);
        stopTicking();
        if (control !== undefined) this.#open.delete(control);
      }
    };
    return subscribeServing(this.#nc, this.#log, subjects.rpc(rpc, '*'), rpc.service, answer);
  }

  /** Every replica hears all of them; those of other replicas' requests end at the look-up. */
  #hear(message: Msg): void {
    const stream = this.#open.get(message.subject);
    if (stream === undefined) return;
    try {
      if (!fromBinary(StreamControlSchema, message.data).cancel) stream.renewed();
      else stream.abort.abort(new YardError('UNAVAILABLE', 'YM-CANCELLED', 'The reader cancelled this request.'));
    } catch {
      this.#log.warn({ subject: message.subject }, 'a control message cannot be read');
    }
  }
}
