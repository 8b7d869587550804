import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { Msg, MsgHdrs, NatsConnection } from '@nats-io/transport-node';
import { nanos } from '@nats-io/transport-node';
import { subjectToken, YardError } from '@yardmaster/contracts';
import { parseDelivery } from './delivery.js';
import { decode, encode, encodeJson, HeaderBlock } from './payload.js';
import { publish, type ReplyInbox } from './reply-inbox.js';

/** How long a stored publish or a read of the store may take, in milliseconds. */
export const STORE_TIMEOUT_MS = 5_000;

const EXPECT_SEQUENCE = 'Nats-Expected-Last-Subject-Sequence';
const FIRST = HeaderBlock.of([[EXPECT_SEQUENCE, '0']]);
const FIRST_JSON = HeaderBlock.of([
  [EXPECT_SEQUENCE, '0'],
  ['Ym-Encoding', 'json'],
]);

/** Codes of the server's API errors that mean something to a caller. */
const WRONG_LAST_SEQUENCE = 10071;
const STORE_FAILED = 10077;

interface ApiError {
  code: number;
  err_code?: number;
  description?: string;
}
interface PubAck {
  error?: ApiError;
  stream: string;
  seq: number;
  duplicate?: boolean;
}
export interface StoredAck {
  sequence: number;
  /** The server knew the message id already and stored nothing. */
  duplicate: boolean;
}

export interface QueueState {
  /** Sequence of the first message, and how many there are. */
  first: number;
  messages: number;
  /** Messages that the consumer will deliver or waits for: what is above that is left over. */
  known: number;
  ackedUpTo: number;
  deliveredUpTo: number;
}

/** Messages that the server keeps: publishing them with an answer, and reading them back. */
export class Store {
  readonly #nc: NatsConnection;
  readonly #inbox: ReplyInbox;

  constructor(nc: NatsConnection, inbox: ReplyInbox) {
    this.#nc = nc;
    this.#inbox = inbox;
  }

  /** Publishes and waits until it is stored. Throws CONFLICT, EXHAUSTED (a cap), TIMEOUT or UNAVAILABLE. */
  async put(subject: string, payload: Uint8Array, headers?: MsgHdrs): Promise<StoredAck> {
    const answer = await this.#api(subject, payload, headers);
    let ack: PubAck;
    try {
      ack = JSON.parse(answer.string()) as PubAck;
    } catch (cause) {
      throw new YardError('UNAVAILABLE', 'YM-STORE', `The answer to a publish on ${subject} is not the store's.`, {
        cause,
      });
    }
    if (ack.error) throw storeError(subject, ack.error);
    return { sequence: ack.seq, duplicate: ack.duplicate === true };
  }

  /** First writer wins, by the server: `exists` when anything was stored on the subject before. */
  async once<M extends DescMessage>(
    subject: string,
    schema: M,
    message: MessageInitShape<M>,
    json = false,
  ): Promise<'stored' | 'exists'> {
    try {
      if (json) await this.put(subject, encodeJson(schema, message), FIRST_JSON);
      else await this.put(subject, encode(schema, message), FIRST);
      return 'stored';
    } catch (error) {
      if (YardError.is(error) && (error.code === 'YM-SEQUENCE' || error.code === 'YM-QUEUE-FULL')) return 'exists';
      throw error;
    }
  }

  /** Appends to a subject whose last message must have the given stream sequence (0: none). Throws CONFLICT. */
  async append<M extends DescMessage>(
    subject: string,
    schema: M,
    message: MessageInitShape<M>,
    expectedLastSubjectSequence: number,
  ): Promise<number> {
    const headers = HeaderBlock.of([[EXPECT_SEQUENCE, String(expectedLastSubjectSequence)]]);
    return (await this.put(subject, encode(schema, message), headers)).sequence;
  }

  /** The last message on a subject, or nothing. */
  async last<M extends DescMessage>(
    stream: string,
    subject: string,
    schema: M,
  ): Promise<{ message: MessageShape<M>; sequence: number } | undefined> {
    const found = await this.lastRaw(stream, subject);
    return found && { message: decode(schema, found.message), sequence: found.sequence };
  }

  async lastRaw(stream: string, subject: string): Promise<{ message: Msg; sequence: number } | undefined> {
    const message = await this.#api(`$JS.API.DIRECT.GET.${subjectToken(stream)}.${subject}`, '');
    const code = message.headers?.code ?? 0;
    if (code === 404) return undefined;
    if (code !== 0)
      throw new YardError(
        'UNAVAILABLE',
        'YM-STORE',
        `${stream} cannot be read: ${code} ${message.headers?.description ?? ''}`,
      );
    return { message, sequence: Number(message.headers?.get('Nats-Sequence')) };
  }

  /** Deletes one message; true when it was there. */
  async delete(stream: string, sequence: number): Promise<boolean> {
    const body = JSON.stringify({ seq: sequence, no_erase: true });
    const answer = await this.#call<{ success?: boolean }>(`$JS.API.STREAM.MSG.DELETE.${subjectToken(stream)}`, body);
    if (answer.error === undefined) return answer.success === true;
    if (answer.error.code === 404 || answer.error.err_code === 10057 || answer.error.err_code === 10043) return false;
    throw storeError(stream, answer.error);
  }

  /** Names of the streams that take in a subject (wildcards allowed). */
  async names(subject: string): Promise<string[]> {
    const answer = await this.#call<{ streams?: string[] | null }>('$JS.API.STREAM.NAMES', JSON.stringify({ subject }));
    if (answer.error) throw storeError(subject, answer.error);
    return answer.streams ?? [];
  }

  /** How far a queue's one consumer has come, and how much of the queue it does not know of. */
  async queue(stream: string, consumer: string): Promise<QueueState> {
    const name = subjectToken(stream);
    const state = await this.#call<{ state: { messages: number; first_seq: number } }>(
      `$JS.API.STREAM.INFO.${name}`,
      '',
    );
    if (state.error) throw storeError(stream, state.error);
    const known = await this.#call<{
      num_pending: number;
      num_ack_pending: number;
      ack_floor: { stream_seq: number };
      delivered: { stream_seq: number };
    }>(`$JS.API.CONSUMER.INFO.${name}.${subjectToken(consumer)}`, '');
    if (known.error) throw storeError(stream, known.error);
    return {
      first: state.state.first_seq,
      messages: state.state.messages,
      known: known.num_pending + known.num_ack_pending,
      ackedUpTo: known.ack_floor.stream_seq,
      deliveredUpTo: known.delivered.stream_seq,
    };
  }

  /** The first message of a stream from a sequence on, as bytes. */
  async next(
    stream: string,
    from: number,
  ): Promise<{ sequence: number; subject: string; data: Uint8Array } | undefined> {
    const body = JSON.stringify({ seq: from, next_by_subj: '>' });
    const answer = await this.#call<{ message?: { seq: number; subject: string; data?: string } }>(
      `$JS.API.STREAM.MSG.GET.${subjectToken(stream)}`,
      body,
    );
    if (answer.error?.code === 404) return undefined;
    if (answer.error) throw storeError(stream, answer.error);
    const { seq, subject, data = '' } = answer.message!;
    return { sequence: seq, subject, data: Buffer.from(data, 'base64') };
  }

  /**
   * What a subject (wildcards allowed) holds at the time of the call, in order. A short-lived consumer without acks:
   * one read after the other by subject would cost a round trip per message.
   */
  async *read<M extends DescMessage>(
    stream: string,
    subject: string,
    schema: M,
    fromSequence = 1,
  ): AsyncGenerator<{ message: MessageShape<M>; sequence: number; subject: string }, void, void> {
    const api = `$JS.API.CONSUMER`;
    const name = subjectToken(stream);
    const created = await this.#call<{ name: string; num_pending: number }>(
      `${api}.CREATE.${name}`,
      JSON.stringify({
        stream_name: name,
        config: {
          ack_policy: 'none',
          deliver_policy: 'by_start_sequence',
          opt_start_seq: Math.max(1, fromSequence),
          filter_subject: subject,
          inactive_threshold: nanos(30_000),
          mem_storage: true,
          num_replicas: 1,
          replay_policy: 'instant',
        },
      }),
    );
    if (created.error) throw storeError(stream, created.error);
    const found: Msg[] = [];
    let wake: (() => void) | undefined;
    let failure: YardError | undefined;
    // Deliveries bear their own subject, not the inbox's: so they need a subscription of their own.
    const reply = this.#inbox.separate();
    const subscription = this.#nc.subscribe(reply, {
      callback: (error, message) => {
        if (error) failure = new YardError('DENIED', 'YM-INBOX', error.message, { cause: error });
        else found.push(message);
        wake?.();
      },
    });
    try {
      let pending = created.num_pending;
      let consumed = 0;
      while (pending > 0) {
        const batch = Math.min(pending, 256);
        publish(this.#nc, `${api}.MSG.NEXT.${name}.${created.name}`, JSON.stringify({ batch, no_wait: true }), {
          reply,
        });
        for (let left = batch; left > 0; left--) {
          if (found.length === 0 && failure === undefined) {
            const timer = setTimeout(() => {
              failure = new YardError('TIMEOUT', 'YM-TIMEOUT', `${stream} stopped answering in the middle of a read.`);
              wake?.();
            }, STORE_TIMEOUT_MS);
            await new Promise<void>((resolve) => (wake = resolve));
            wake = undefined;
            clearTimeout(timer);
          }
          const message = found.shift();
          if (message === undefined)
            throw failure ?? new YardError('UNAVAILABLE', 'YM-STORE', `${stream} cannot be read.`);
          if (message.headers?.code) return; // what was counted has been deleted meanwhile: that was all
          const delivery = parseDelivery(message.reply ?? '');
          if (delivery?.deliverySequence !== ++consumed)
            throw new YardError('UNAVAILABLE', 'YM-STREAM-GAP', `A read of ${stream} lost messages.`);
          pending = delivery.pending;
          yield { message: decode(schema, message), sequence: delivery.streamSequence, subject: message.subject };
        }
      }
    } finally {
      subscription.unsubscribe();
      // Nobody waits for this: the server removes an idle consumer by itself.
      if (!this.#nc.isClosed()) publish(this.#nc, `${api}.DELETE.${name}.${created.name}`, '', { reply });
    }
  }

  async #call<T>(subject: string, body: string): Promise<T & { error?: ApiError }> {
    return JSON.parse((await this.#api(subject, body)).string()) as T & { error?: ApiError };
  }

  async #api(subject: string, payload: Uint8Array | string, headers?: MsgHdrs): Promise<Msg> {
    try {
      return await this.#inbox.request(subject, payload, STORE_TIMEOUT_MS, headers);
    } catch (error) {
      if (YardError.is(error) && error.code === 'YM-NO-RESPONDERS')
        throw new YardError('UNAVAILABLE', 'YM-NO-STREAM', `No stream answers for ${subject}: is the set-up done?`, {
          cause: error,
        });
      throw error;
    }
  }
}

function storeError(what: string, { code, err_code: errCode, description = '' }: ApiError): YardError {
  if (errCode === WRONG_LAST_SEQUENCE)
    return new YardError('CONFLICT', 'YM-SEQUENCE', `Something else was stored on ${what} first (${description}).`);
  if (errCode === STORE_FAILED && description.includes('per subject'))
    return new YardError('EXHAUSTED', 'YM-QUEUE-FULL', `${what} holds as many messages as it may.`, {
      retryAfterMs: 1_000,
    });
  const text = `The store refuses ${what}: ${description} (${errCode ?? code}).`;
  if (code === 404) return new YardError('NOT_FOUND', 'YM-STORE', text);
  return new YardError(code === 503 ? 'UNAVAILABLE' : 'INTERNAL', 'YM-STORE', text);
}
