import { setTimeout as sleep } from 'node:timers/promises';
import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import { type Msg, type NatsConnection, nanos, type Subscription } from '@nats-io/transport-node';
import { ERROR_CLASSES, HEADERS, type TenantId, tenantId, type Work, YardError } from '@yardmaster/contracts';
import { backoffMs } from './backoff.js';
import { type Delivery, parseDelivery } from './delivery.js';
import type { Log } from './log.js';
import { decode, isJson } from './payload.js';
import type { ReplyInbox } from './reply-inbox.js';
import { versionAtLeast } from './version.js';

/** What a handler of a work message knows and can do. */
export interface WorkContext {
  tenant: TenantId;
  subject: string;
  streamSequence: number;
  /** The consumer's own count of deliveries: grows with every delivery of any message, so it can fence. */
  deliverySequence: number;
  deliveryCount: number;
  trace: string | undefined;
  /** The body came in the JSON form: the sender may read nothing else. */
  json: boolean;
  /** Aborted when the ceiling is reached: the message will be delivered to somebody else. */
  signal: AbortSignal;
  /** Tells the server now that the message is being worked on; done by itself every quarter of the ack wait. */
  keepAlive(): void;
}

/** A message that will not be worked on, and why. */
export interface DeadLetter {
  stream: string;
  subject: string;
  /** `unknown` when the subject names none. */
  tenant: string;
  streamSequence: number;
  attempts: number;
  reason: YardError;
  data: Uint8Array;
  json: boolean;
  trace: string | undefined;
}

export interface WorkOptions {
  /** Messages worked on at once; exactly as many messages are asked for as there are free slots. */
  slots: number;
  /** The consumer's ack wait in milliseconds (30 000); the message is kept alive every quarter of it. */
  ackWaitMs?: number;
  /** No message is kept alive longer than this, in milliseconds (an hour). */
  ceilingMs?: number;
  /** A message that failed this often is given up (5). */
  maxAttempts?: number;
  /** Wait before another try: doubles from `base` to `cap`, in milliseconds (500, 60 000). */
  backoffMs?: { base: number; cap: number };
  /** Failed attempts of this message before the present one. Default: deliveries before this one. */
  attempts?: (context: WorkContext) => number | Promise<number>;
  /** Waits for the server's word that the acknowledgement has arrived: for acks that are a commitment; 4x slower. */
  confirmAck?: boolean;
  /**
   * Puts a message that is given up where it can be found; the message is removed only after that. Default: the dead
   * letters (`bus.bury`). Executors also report a failed result.
   */
  onDead?: (letter: DeadLetter) => Promise<void>;
}

/** Thrown by a handler to hand its message back at once (or after a delay); it does not count as a failure. */
export class HandBack extends Error {
  readonly delayMs: number;
  constructor(delayMs = 0) {
    super('handed back');
    this.name = 'HandBack';
    this.delayMs = delayMs;
  }
}

/**
 * Thrown by a handler whose message is somebody else's by now (it was delivered again while this process slept): it is
 * neither acknowledged nor handed back, since both would speak for the other one.
 */
export class Abandon extends Error {
  constructor() {
    super('abandoned');
    this.name = 'Abandon';
  }
}

export interface WorkerCounts {
  slots: number;
  running: number;
  /** Messages asked for and not delivered yet: free slots, once the queue answers. */
  wanted: number;
}

/** A pull request ends by itself after this long: the server forgets what it knows of a client that is gone. */
const PULL_EXPIRES_MS = 60_000;
/** The first pull after a (re)connect is short: a queue that is not there (yet) answers nothing at all. */
const PROBE_EXPIRES_MS = 1_000;
/** Every pull is answered at least when it expires: silence for so much longer means that it is lost. */
const SILENCE_MS = 1_000;
const WATCH_EVERY_MS = 500;
const PULL_AGAIN_MS = 250;
/** A pull that the server takes in after its inbox has gone waits there all the same: a stop gives the last one this long. */
const TAKEN_IN_MS = 50;

class Running {
  readonly message: Msg;
  readonly startedAt = performance.now();
  beating = true;
  #abort: AbortController | undefined;

  constructor(message: Msg) {
    this.message = message;
  }

  // Made on demand: few handlers look at it, and few messages reach their ceiling.
  get abort(): AbortController {
    return (this.#abort ??= new AbortController());
  }
}

/** Works on one queue. Made by `bus.work`. */
export class Worker<M extends DescMessage = DescMessage> {
  readonly #nc: NatsConnection;
  readonly #inbox: ReplyInbox;
  readonly #log: Log;
  readonly #work: Work<M>;
  readonly #handler: (message: MessageShape<M>, context: WorkContext) => Promise<void> | void;
  readonly #options: Required<Omit<WorkOptions, 'attempts'>> & Pick<WorkOptions, 'attempts'>;
  readonly #subjects: RegExp;
  readonly #running = new Set<Running>();
  readonly #handedBack = new Map<number, number>();
  #subscription: Subscription | undefined;
  #inboxSubject = '';
  /** Messages asked for and not delivered yet. */
  #wanted = 0;
  #probing = true;
  #filling = false;
  #heardAt = performance.now();
  #pulledAt = -Infinity;
  #heartbeat: NodeJS.Timeout | undefined;
  #again: NodeJS.Timeout | undefined;
  readonly #watchdog: NodeJS.Timeout;
  #complained = false;
  #stopping: Promise<void> | undefined;
  #idle: (() => void) | undefined;

  constructor(
    nc: NatsConnection,
    inbox: ReplyInbox,
    log: Log,
    work: Work<M>,
    handler: (message: MessageShape<M>, context: WorkContext) => Promise<void> | void,
    options: WorkOptions & { onDead: (letter: DeadLetter) => Promise<void> },
  ) {
    if (!Number.isInteger(options.slots) || options.slots < 1)
      throw new YardError('INVALID', 'YM-SLOTS', `slots must be a whole number of at least 1, not ${options.slots}.`);
    this.#nc = nc;
    this.#inbox = inbox;
    this.#log = log;
    this.#work = work;
    this.#handler = handler;
    this.#options = {
      ackWaitMs: 30_000,
      ceilingMs: 3_600_000,
      maxAttempts: 5,
      backoffMs: { base: 500, cap: 60_000 },
      confirmAck: false,
      ...options,
    };
    this.#subjects = new RegExp(`^(?:${work.subjects.map(subjectPattern).join('|')})$`);
    this.#listen();
    this.#watchdog = setInterval(() => {
      const expires = this.#probing ? PROBE_EXPIRES_MS : PULL_EXPIRES_MS;
      if (this.#wanted === 0 || performance.now() - this.#heardAt < expires + SILENCE_MS) return;
      this.#complain('a queue is silent; its pulls are repeated until it answers');
      this.#listen();
    }, WATCH_EVERY_MS);
    this.#watchdog.unref();
  }

  get counts(): WorkerCounts {
    return { slots: this.#options.slots, running: this.#running.size, wanted: this.#wanted };
  }

  /** After a reconnect the server may know the former pulls or not: they are given up and made again. */
  reconnected(): void {
    // What runs here must not pass for dead at the server any longer than it has to.
    this.#beat();
    this.#listen();
  }

  /** Stops pulling, hands back what was not begun, and waits for what runs and its acknowledgements. */
  stop(): Promise<void> {
    return (this.#stopping ??= this.#stop());
  }

  async #stop(): Promise<void> {
    clearInterval(this.#watchdog);
    clearTimeout(this.#again);
    // nats-server 2.15 gives a message to such a pull when it came through an import; only the ack wait brings it back.
    const young = this.#pulledAt + TAKEN_IN_MS - performance.now();
    if (this.#wanted > 0 && young > 0) await sleep(young);
    // Draining lets in what is on the way (handed back in #heard); the server then drops pulls that nobody hears.
    if (!this.#nc.isClosed()) await this.#subscription?.drain().catch(() => {});
    if (this.#running.size > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
    clearInterval(this.#heartbeat);
    if (!this.#nc.isClosed() && !this.#nc.isDraining()) await this.#nc.flush().catch(() => {});
  }

  /** A new inbox, and a pull for the free slots. The old inbox's pulls die with its subscription. */
  #listen(): void {
    if (this.#stopping || this.#nc.isClosed() || this.#nc.isDraining()) return;
    clearTimeout(this.#again);
    this.#again = undefined;
    // Drained, not dropped: what is on its way to the old inbox would otherwise be missed until its ack wait is over.
    this.#subscription?.drain().catch(() => {});
    this.#wanted = 0;
    this.#probing = true;
    this.#heardAt = performance.now();
    const inbox = this.#inbox.separate();
    this.#inboxSubject = inbox;
    this.#subscription = this.#nc.subscribe(inbox, {
      callback: (error, message) => {
        if (error) this.#log.error({ stream: this.#work.stream, err: error }, 'the server refused a worker its inbox');
        else this.#heard(message, inbox);
      },
    });
    this.#pull();
  }

  /** Asks for as many messages as there are free slots. */
  #pull(): void {
    if (this.#stopping || this.#again || this.#nc.isClosed() || this.#nc.isDraining()) return;
    const batch = this.#options.slots - this.#running.size - this.#wanted;
    if (batch <= 0) return;
    this.#wanted += batch;
    this.#heardAt = this.#pulledAt = performance.now(); // silence begins to count now
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${this.#work.stream}.${this.#work.consumer}`;
    const expires = nanos(this.#probing ? PROBE_EXPIRES_MS : PULL_EXPIRES_MS);
    this.#nc.publish(subject, `{"batch":${batch},"expires":${expires}}`, { reply: this.#inboxSubject });
  }

  /** Slots that become free in one turn of the event loop are asked for together: a pull costs the server more than a message. */
  #fill(): void {
    if (this.#filling) return;
    this.#filling = true;
    process.nextTick(() => {
      this.#filling = false;
      this.#pull();
    });
  }

  #heard(message: Msg, inbox: string): void {
    // A delivery's reply is its ack subject; what has none is the server's word about a pull.
    const delivery = message.reply ? parseDelivery(message.reply) : undefined;
    const current = inbox === this.#inboxSubject;
    if (current) {
      this.#heardAt = performance.now();
      this.#probing = false;
    }
    if (delivery === undefined) {
      if (current) this.#pullEnded(message);
      return;
    }
    if (this.#wanted > 0) this.#wanted--;
    this.#complained = false;
    if (this.#stopping || this.#running.size >= this.#options.slots) {
      this.#handedBack.set(delivery.streamSequence, (this.#handedBack.get(delivery.streamSequence) ?? 0) + 1);
      // With a delay, or the next of this worker's own pulls would get it again.
      this.#nak(message, this.#stopping ? 2 * TAKEN_IN_MS : 0);
      return;
    }
    const running = new Running(message);
    this.#running.add(running);
    // Through an import an empty answer ends the server's forwarding: what else this pull would bring is lost.
    if (message.data.length === 0) this.#listen();
    this.#heartbeat ??= setInterval(() => this.#beat(), this.#options.ackWaitMs / 4);
    void this.#run(message, delivery, running).finally(() => {
      this.#running.delete(running);
      if (this.#running.size === 0) {
        clearInterval(this.#heartbeat);
        this.#heartbeat = undefined;
        this.#idle?.();
      }
      this.#fill();
    });
  }

  #pullEnded(message: Msg): void {
    const code = message.headers?.code ?? 0;
    const left = message.headers?.get('Nats-Pending-Messages');
    // 408: the pull expired; the header says how much of it came to nothing.
    if (code === 408 && left) {
      this.#wanted = Math.max(0, this.#wanted - Number(left));
      return this.#fill();
    }
    // Anything else (no such queue yet, a server going down, a new leader) passes with time too, but a pull that is
    // refused at once must not be repeated at once.
    this.#complain('a pull was refused; it is repeated until the queue answers', {
      code,
      description: message.headers?.description ?? '',
    });
    this.#again ??= setTimeout(() => this.#listen(), PULL_AGAIN_MS * (1 + Math.random()));
  }

  /** Says it once, until a message comes. */
  #complain(what: string, more: object = {}): void {
    if (this.#complained) return;
    this.#complained = true;
    this.#log.warn({ stream: this.#work.stream, ...more }, what);
  }

  #beat(): void {
    const now = performance.now();
    for (const running of this.#running) {
      if (!running.beating) continue;
      if (now - running.startedAt > this.#options.ceilingMs) {
        running.beating = false;
        const text = `Worked on for longer than ${this.#options.ceilingMs} ms.`;
        this.#log.error(
          { stream: this.#work.stream, subject: running.message.subject },
          'a message reached its ceiling',
        );
        running.abort.abort(new YardError('TIMEOUT', 'YM-WORK-CEILING', text));
      } else this.#answer(running.message, '+WPI');
    }
  }

  async #run(message: Msg, delivery: Delivery, running: Running): Promise<void> {
    const { streamSequence, deliverySequence, deliveryCount } = delivery;
    const json = isJson(message);
    const trace = message.headers?.get(HEADERS.trace) || undefined;
    const tenantToken = message.subject.split('.')[3] ?? '';
    const bury = (reason: YardError, attempts: number, tenant: string) =>
      this.#bury(message, { ...delivery, tenant, attempts, reason, json, trace });
    let context: WorkContext;
    let body: MessageShape<M>;
    try {
      if (!this.#subjects.test(message.subject))
        throw new YardError('INVALID', 'YM-UNKNOWN-WORK', `Nobody here works on ${message.subject}.`);
      context = {
        tenant: tenantId(tenantToken),
        subject: message.subject,
        streamSequence,
        deliverySequence,
        deliveryCount,
        trace,
        json,
        get signal() {
          return running.abort.signal;
        },
        keepAlive: () => this.#answer(message, '+WPI'),
      };
      body = decode(this.#work.message, message);
    } catch (error) {
      return bury(YardError.from(error), deliveryCount, isTenant(tenantToken) ? tenantToken : 'unknown');
    }
    try {
      await this.#handler(body, context);
    } catch (thrown) {
      // Past the ceiling the message is on its way to somebody else: its fate is decided there.
      if (!running.beating || thrown instanceof Abandon) return;
      if (thrown instanceof HandBack) {
        this.#handedBack.set(streamSequence, (this.#handedBack.get(streamSequence) ?? 0) + 1);
        return this.#nak(message, thrown.delayMs);
      }
      const error = YardError.from(thrown);
      if (ERROR_CLASSES[error.class].work === 'dead-letter') return bury(error, deliveryCount, context.tenant);
      let failed: number;
      try {
        failed = 1 + (await (this.#options.attempts?.(context) ?? this.#attemptsBefore(delivery)));
      } catch (cause) {
        this.#log.error({ stream: this.#work.stream, streamSequence, err: cause }, 'attempts cannot be counted');
        failed = 1;
      }
      if (failed >= this.#options.maxAttempts) return bury(error, failed, context.tenant);
      const { base, cap } = this.#options.backoffMs;
      const delayMs = Math.max(error.retryAfterMs ?? 0, base / 2 + backoffMs(failed - 1, base, cap));
      this.#log.warn(
        {
          stream: this.#work.stream,
          streamSequence,
          subject: message.subject,
          failed,
          delayMs: Math.round(delayMs),
          err: thrown,
        },
        'a message failed and is tried again',
      );
      return this.#nak(message, delayMs);
    }
    this.#handedBack.delete(streamSequence);
    if (!this.#options.confirmAck) return this.#answer(message, '+ACK');
    await this.#inbox.request(message.reply!, '+ACK', 5_000).catch((error: unknown) => {
      this.#log.warn({ stream: this.#work.stream, streamSequence, err: error }, 'an acknowledgement was not confirmed');
    });
  }

  #attemptsBefore({ deliveryCount, streamSequence }: Delivery): number {
    return deliveryCount - 1 - (this.#handedBack.get(streamSequence) ?? 0);
  }

  async #bury(
    message: Msg,
    about: Delivery & { tenant: string; attempts: number; reason: YardError; json: boolean; trace: string | undefined },
  ): Promise<void> {
    const { streamSequence, tenant, attempts, reason, json, trace } = about;
    const { stream } = this.#work;
    this.#handedBack.delete(streamSequence);
    this.#log.error(
      {
        stream,
        streamSequence,
        subject: message.subject,
        attempts,
        code: reason.code,
        reason: reason.message,
        err: reason.cause,
      },
      'a message is given up',
    );
    try {
      await this.#options.onDead({
        stream,
        subject: message.subject,
        tenant,
        streamSequence,
        attempts,
        reason,
        data: message.data,
        json,
        trace,
      });
    } catch (error) {
      // Nothing disappears: what cannot be kept elsewhere stays in the queue.
      this.#log.error({ stream, streamSequence, err: error }, 'a message given up cannot be kept elsewhere; it stays');
      return this.#nak(message, this.#options.backoffMs.cap);
    }
    // Servers before 2.10.4 ignore a TERM with a reason, silently: the message would come back.
    const reasoned = versionAtLeast(this.#nc.info?.version, [2, 10, 4]);
    this.#answer(message, reasoned ? `+TERM ${reason.code}` : '+TERM');
  }

  #nak(message: Msg, delayMs: number): void {
    this.#answer(message, delayMs > 0 ? `-NAK ${JSON.stringify({ delay: nanos(Math.ceil(delayMs)) })}` : '-NAK');
  }

  #answer(message: Msg, word: string): void {
    if (!this.#nc.isClosed()) this.#nc.publish(message.reply!, word);
  }
}

const subjectPattern = (filter: string) =>
  filter
    .split('.')
    .map((token) => (token === '*' ? '[^.]+' : token.replace(/[^A-Za-z0-9_-]/g, '\\$&')))
    .join('\\.');

function isTenant(text: string): boolean {
  try {
    tenantId(text);
    return true;
  } catch {
    return false;
  }
}
