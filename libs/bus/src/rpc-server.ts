import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { Msg, NatsConnection, Subscription } from '@nats-io/transport-node';
import {
  HEADERS,
  inboxPrefix,
  type Rpc,
  SERVICES,
  subjects,
  type TenantId,
  tenantId,
  YardError,
} from '@yardmaster/contracts';
import type { Log } from './log.js';
import { decode, encode, Encoded, HeaderBlock, headerOf } from './payload.js';
import { publish } from './reply-inbox.js';
import { encodeError } from './wire-error.js';

/** What a handler of a question knows about it. */
export interface ServeContext {
  tenant: TenantId;
  /** Milliseconds that the caller waited for at most when the question arrived. */
  deadlineMs: number;
  /** W3C traceparent of the caller, if it sent one. */
  trace: string | undefined;
  /** Aborted when the caller's deadline has passed. */
  readonly signal: AbortSignal;
}

/** A set of handlers that can be ended: no new work, then a wait for what runs. */
export interface Served {
  stop(): Promise<void>;
}

const REPLIES_TO = [...SERVICES.map((service) => `${inboxPrefix(service)}.`), '_R_.'];

/**
 * May the bus answer to this subject? The server checks no permission on a reply subject, so a hostile login could
 * have an answer written anywhere: only inboxes of services and the server's own mapping of imports are answered.
 */
export const mayAnswer = (reply: string) => REPLIES_TO.some((prefix) => reply.startsWith(prefix));

/** Callers that send no deadline get this long, in milliseconds. */
export const DEFAULT_DEADLINE_MS = 30_000;

const ERROR_REPLY = HeaderBlock.of([[HEADERS.error, '1']]);

class Context implements ServeContext {
  readonly tenant: TenantId;
  readonly #message: Msg;
  readonly #arrived = performance.now();
  #signal: AbortSignal | undefined;

  constructor(message: Msg) {
    this.tenant = tenantOf(message.subject);
    this.#message = message;
  }

  // All of these on demand: most handlers answer in microseconds and never look at them.
  get deadlineMs(): number {
    return deadlineOf(this.#message);
  }

  get trace(): string | undefined {
    return headerOf(this.#message, HEADERS.trace) || undefined;
  }

  get signal(): AbortSignal {
    const left = this.#arrived + this.deadlineMs - performance.now();
    return (this.#signal ??= AbortSignal.timeout(Math.max(0, Math.ceil(left))));
  }
}

/** The tenant in `ym.rpc.<service>.<operation>.<tenant>`. */
export const tenantOf = (subject: string) => tenantId(subject.slice(subject.lastIndexOf('.') + 1));

export function deadlineOf(message: Msg): number {
  const value = Number(headerOf(message, HEADERS.deadline));
  return value > 0 && Number.isFinite(value) ? value : DEFAULT_DEADLINE_MS;
}

/** What a handler answers with. */
export type Answer<A extends DescMessage> = MessageInitShape<A> | Encoded<A>;

/** Answers an operation as one of its service's queue group. */
export function serve<Q extends DescMessage, A extends DescMessage>(
  nc: NatsConnection,
  log: Log,
  rpc: Rpc<Q, A>,
  handler: (request: MessageShape<Q>, context: ServeContext) => Answer<A> | Promise<Answer<A>>,
): Served {
  const name = `${rpc.service}.${rpc.operation}`;
  const refuse = (reply: string, error: unknown) => {
    if (!YardError.is(error) || error.class === 'INTERNAL')
      log.error({ operation: name, err: error }, 'a handler failed');
    try {
      publish(nc, reply, encodeError(error), { headers: ERROR_REPLY });
    } catch (cause) {
      log.warn({ operation: name, err: cause }, 'an error could not be sent');
    }
  };
  const send = (reply: string, result: Answer<A>) =>
    publish(nc, reply, result instanceof Encoded ? result.bytes : encode(rpc.response, result));
  // Not async: most questions are answered from memory, and promises were a good part of what that cost.
  const answer = (message: Msg): Promise<void> | undefined => {
    const { reply } = message;
    if (!reply) return undefined;
    if (!mayAnswer(reply)) {
      log.warn({ operation: name, reply }, 'a question with a foreign reply subject was not answered');
      return undefined;
    }
    try {
      const given = handler(decode(rpc.request, message), new Context(message));
      if (given instanceof Promise)
        return given.then((result) => send(reply, result)).catch((error: unknown) => refuse(reply, error));
      send(reply, given);
    } catch (error) {
      refuse(reply, error);
    }
    return undefined;
  };
  return subscribeServing(nc, log, subjects.rpc(rpc, '*'), rpc.service, answer);
}

/** Subscribes as a queue group; `stop` takes nothing new and waits for what runs. */
export function subscribeServing(
  nc: NatsConnection,
  log: Log,
  subject: string,
  queue: string,
  handle: (message: Msg) => Promise<void> | undefined,
): Served {
  const running = new Set<Promise<void>>();
  const subscription: Subscription = nc.subscribe(subject, {
    queue,
    callback: (error, message) => {
      if (error) {
        log.error({ subject, err: error }, 'the server refused a subscription');
        return;
      }
      const handled = handle(message);
      if (handled === undefined) return;
      const done = handled.finally(() => running.delete(done));
      running.add(done);
    },
  });
  return {
    async stop() {
      if (!subscription.isClosed() && !nc.isClosed()) await subscription.drain().catch(() => {});
      await Promise.all(running);
    },
  };
}
