import { createInbox, type Msg, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node';
import { YardError } from '@yardmaster/contracts';

/** Whoever waits for messages on one reply subject. */
export interface Listener {
  /** What was asked: names the listener in errors, and finds it when the server refuses the publish. */
  subject: string;
  heard(message: Msg): void;
  failed(error: YardError): void;
}

/**
 * One subscription for all answers to this process. The client has one too, but its requests cost two timers' worth
 * of promises each and hear one message only; streamed answers need many on the same subject.
 */
export class ReplyInbox {
  readonly #nc: NatsConnection;
  readonly #prefix: string;
  readonly #base: string;
  readonly #listeners = new Map<string, Listener>();
  #last = 0;
  #closed = false;

  constructor(nc: NatsConnection, prefix: string) {
    this.#nc = nc;
    this.#prefix = prefix;
    this.#base = `${createInbox(prefix)}.`;
    const cut = this.#base.length;
    nc.subscribe(`${this.#base}*`, {
      callback: (error, message) => {
        if (error)
          this.failAll(new YardError('DENIED', 'YM-INBOX', `The server refuses this login's inbox: ${error.message}`));
        else this.#listeners.get(message.subject.slice(cut))?.heard(message);
      },
    });
  }

  /** A subject of this login's own for a subscription apart from this one. */
  separate(): string {
    return createInbox(this.#prefix);
  }

  /** A new reply subject for the listener; `close` ends it. */
  open(listener: Listener): { reply: string; close: () => void } {
    if (this.#closed) throw closedError();
    const token = (++this.#last).toString(36);
    this.#listeners.set(token, listener);
    return { reply: this.#base + token, close: () => this.#listeners.delete(token) };
  }

  /** One message out, the first one back. Rejects with TIMEOUT, UNAVAILABLE (nobody listens) or the signal's reason. */
  request(
    subject: string,
    payload: Uint8Array | string,
    timeoutMs: number,
    headers?: MsgHdrs,
    signal?: AbortSignal,
  ): Promise<Msg> {
    return new Promise((resolve, reject) => {
      if (this.#closed) return reject(closedError());
      if (signal?.aborted) return reject(signal.reason as Error);
      const token = (++this.#last).toString(36);
      const end = () => {
        this.#listeners.delete(token);
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = () => {
        end();
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        end();
        reject(new YardError('TIMEOUT', 'YM-TIMEOUT', `No answer on ${subject} within ${timeoutMs} ms.`));
      }, timeoutMs);
      this.#listeners.set(token, {
        subject,
        heard: (message) => {
          end();
          if (isNoResponders(message)) reject(noRespondersError(subject));
          else resolve(message);
        },
        failed: (error) => {
          end();
          reject(error);
        },
      });
      signal?.addEventListener('abort', onAbort, { once: true });
      try {
        publish(this.#nc, subject, payload, { reply: this.#base + token, ...(headers && { headers }) });
      } catch (error) {
        end();
        reject(error as Error);
      }
    });
  }

  /** The server refused a publish on this subject: whoever waits for its answer waits in vain. */
  refused(subject: string): void {
    for (const listener of [...this.#listeners.values()])
      if (listener.subject === subject)
        listener.failed(new YardError('DENIED', 'YM-NATS-DENIED', `This login may not publish on ${subject}.`));
  }

  /** Ends every wait; nothing can be asked afterwards. */
  shut(): void {
    this.#closed = true;
    this.failAll(closedError());
  }

  private failAll(error: YardError): void {
    for (const listener of [...this.#listeners.values()]) listener.failed(error);
    this.#listeners.clear();
  }
}

export const isNoResponders = (message: Msg) => message.data.length === 0 && message.headers?.code === 503;

export const noRespondersError = (subject: string) =>
  new YardError('UNAVAILABLE', 'YM-NO-RESPONDERS', `Nobody serves ${subject}.`);

const closedError = () => new YardError('UNAVAILABLE', 'YM-BUS-CLOSED', 'The connection to NATS is closed.');

/** Publishes; the client's own exceptions (closed, too large) as YardErrors. */
export function publish(
  nc: NatsConnection,
  subject: string,
  payload: Uint8Array | string,
  options?: { reply?: string; headers?: MsgHdrs },
): void {
  try {
    nc.publish(subject, payload, options);
  } catch (cause) {
    if (nc.isClosed() || nc.isDraining()) throw closedError();
    const limit = nc.info?.max_payload;
    throw new YardError(
      'INVALID',
      'YM-MESSAGE-TOO-LARGE',
      `A message of ${payload.length} bytes cannot be published on ${subject}: ${limit === undefined ? String(cause) : `the server takes ${limit}`}.`,
      { cause },
    );
  }
}
