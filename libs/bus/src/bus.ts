import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import {
  AuthorizationError,
  connect,
  InvalidArgumentError,
  type Msg,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node';
import {
  type BucketName,
  HEADERS,
  inboxPrefix,
  type Rpc,
  type StreamedRpc,
  subjects,
  type TenantId,
  type Work,
  YardError,
} from '@yardmaster/contracts';
import { coalesceWrites } from './coalesce-writes.js';
import { KeyValues } from './key-values.js';
import { KvSweeper, SWEEP, type SweepOptions } from './kv-sweep.js';
import { type KvSnapshot, KvWatch } from './kv-watch.js';
import { type Log, stderrLog } from './log.js';
import { decode, encode, encodeJson, HeaderBlock } from './payload.js';
import { publish, ReplyInbox } from './reply-inbox.js';
import { type Answer, serve, type ServeContext, type Served } from './rpc-server.js';
import { type QueueState, Store, type StoredAck } from './stored.js';
import { readStream, type StreamOptions } from './stream-reader.js';
import { type StreamContext, StreamServer } from './stream-server.js';
import { Ticker } from './ticker.js';
import { OLDEST_SERVER, versionAtLeast } from './version.js';
import { type DeadLetter, Worker, type WorkContext, type WorkOptions } from './work.js';
import { decodeError } from './wire-error.js';

export interface BusOptions {
  /** `nats://host:port`, several separated by commas; may carry `user:password@`. */
  url: string;
  /** The login; names the connection and its inbox too. */
  user: string;
  pass?: string | undefined;
  log?: Log | undefined;
}

export interface RequestOptions {
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** W3C traceparent, passed on. */
  trace?: string | undefined;
}

export type BusStatus = 'connected' | 'disconnected' | 'closed';

/** One connection to NATS, and everything that Yardmaster does over it. */
export class Bus {
  readonly nc: NatsConnection;
  readonly log: Log;
  /** When the connection last came back (`performance.now()`): before that nobody's beats could arrive. */
  reconnectedAt: number | undefined;
  readonly #inbox: ReplyInbox;
  readonly #store: Store;
  readonly #ticker = new Ticker(500);
  readonly #streams: StreamServer;
  readonly #workers = new Set<Worker>();
  readonly #watches = new Set<Pick<KvWatch<unknown>, 'stop' | 'reconnected'>>();
  readonly #served: Served[] = [];
  #status: BusStatus = 'connected';
  #closing: Promise<void> | undefined;

  private constructor(nc: NatsConnection, user: string, log: Log) {
    this.nc = nc;
    this.log = log;
    this.#inbox = new ReplyInbox(nc, inboxPrefix(user));
    this.#store = new Store(nc, this.#inbox);
    this.#streams = new StreamServer(nc, log, this.#ticker);
    void this.#watchStatus();
  }

  /** Connects, and waits for a server that is not there yet. Throws DENIED (wrong login) or INVALID (server too old). */
  static async connect({ url, user, pass, log = stderrLog }: BusOptions): Promise<Bus> {
    const { servers, login } = parseUrls(url);
    const password = pass ?? login?.pass;
    const nc = await connectWhenThere(log, {
      servers,
      user: login?.user ?? user,
      ...(password !== undefined && { pass: password }),
      name: user,
      inboxPrefix: inboxPrefix(user),
      // Stack traces made for every request would cost a third of this process's CPU.
      noAsyncTraces: true,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_MS,
      reconnectJitter: RECONNECT_MS / 2,
      // A password that is changed on the server first must not end a process that gets the new one later.
      ignoreAuthErrorAbort: true,
    });
    const version = nc.info?.version;
    if (!versionAtLeast(version, OLDEST_SERVER)) {
      await nc.close();
      throw new YardError(
        'INVALID',
        'YM-NATS-TOO-OLD',
        `nats-server ${version} is too old: ${OLDEST_SERVER.join('.')} is the oldest that works.`,
      );
    }
    coalesceWrites(nc);
    return new Bus(nc, user, log);
  }

  isClosed(): boolean {
    return this.nc.isClosed();
  }

  /** For readiness: is there a server at the other end now? */
  status(): BusStatus {
    return this.nc.isClosed() ? 'closed' : this.#status;
  }

  /** Resolves when the server has taken in everything said so far: subscriptions too, so that others find them. */
  async flush(): Promise<void> {
    await this.nc.flush();
  }

  /** Is the connected server at least this version? */
  serverAtLeast(major: number, minor: number, patch = 0): boolean {
    return versionAtLeast(this.nc.info?.version, [major, minor, patch]);
  }

  /** Asks and waits for the answer. Throws what the service threw, UNAVAILABLE (nobody serves it) or TIMEOUT. */
  async request<Q extends DescMessage, A extends DescMessage>(
    rpc: Rpc<Q, A>,
    tenant: TenantId,
    message: MessageInitShape<Q>,
    { timeoutMs, signal, trace }: RequestOptions,
  ): Promise<MessageShape<A>> {
    const headers = deadlineHeader(timeoutMs, trace);
    const subject = subjects.rpc(rpc, tenant);
    const answer = await this.#inbox.request(subject, encode(rpc.request, message), timeoutMs, headers, signal);
    if (answer.headers?.has(HEADERS.error)) throw decodeError(answer.data);
    return decode(rpc.response, answer);
  }

  /** Answers an operation, as one of all processes that do; `stop` takes nothing new and waits for what runs. */
  serve<Q extends DescMessage, A extends DescMessage>(
    rpc: Rpc<Q, A>,
    handler: (request: MessageShape<Q>, context: ServeContext) => Promise<Answer<A>> | Answer<A>,
  ): Served {
    return this.#keep(serve(this.nc, this.log, rpc, handler));
  }

  /** Asks for a streamed answer; leaving the loop early cancels it at the server. Errors as `request`, and gaps. */
  stream<Q extends DescMessage, F extends DescMessage>(
    rpc: StreamedRpc<Q, F>,
    tenant: TenantId,
    message: MessageInitShape<Q>,
    options: StreamOptions,
  ): AsyncGenerator<MessageShape<F>, void, void> {
    return readStream(this.nc, this.#inbox, this.#ticker, rpc, tenant, message, options);
  }

  /** Answers a streamed operation. */
  serveStream<Q extends DescMessage, F extends DescMessage>(
    rpc: StreamedRpc<Q, F>,
    handler: (request: MessageShape<Q>, context: StreamContext<F>) => Promise<void>,
  ): Served {
    return this.#keep(this.#streams.serve(rpc, handler));
  }

  /** Works on a queue. A handler that returns acknowledges; what it throws decides what becomes of the message. */
  work<M extends DescMessage>(
    work: Work<M>,
    handler: (message: MessageShape<M>, context: WorkContext) => Promise<void> | void,
    options: WorkOptions,
  ): Worker<M> {
    const worker = new Worker(this.nc, this.#inbox, this.log, work, handler, {
      onDead: (letter) => this.bury(letter),
      ...options,
    });
    this.#workers.add(worker as unknown as Worker);
    return worker;
  }

  /** Puts a message into a work queue. Throws EXHAUSTED `YM-QUEUE-FULL` when the tenant's share is used up. */
  enqueue<M extends DescMessage>(
    subject: string,
    schema: M,
    message: MessageInitShape<M>,
    { msgId, trace, json = false }: { msgId?: string | undefined; trace?: string | undefined; json?: boolean } = {},
  ): Promise<StoredAck> {
    const pairs: [string, string][] = [];
    if (msgId !== undefined) pairs.push(['Nats-Msg-Id', msgId]);
    if (trace !== undefined) pairs.push([HEADERS.trace, trace]);
    // For receivers that speak no protobuf.
    if (json) pairs.push([HEADERS.encoding, 'json']);
    const body = json ? encodeJson(schema, message) : encode(schema, message);
    return this.#store.put(subject, body, pairs.length > 0 ? HeaderBlock.of(pairs) : undefined);
  }

  /** First writer wins, enforced by the server; works through imported subjects too. `json`: in the JSON form. */
  publishOnce<M extends DescMessage>(
    subject: string,
    schema: M,
    message: MessageInitShape<M>,
    { json = false }: { json?: boolean } = {},
  ): Promise<'stored' | 'exists'> {
    return this.#store.once(subject, schema, message, json);
  }

  /** Appends to a subject whose last message has the given stream sequence (0: none). Answers the new one, or CONFLICT. */
  append<M extends DescMessage>(
    subject: string,
    schema: M,
    message: MessageInitShape<M>,
    { expectedLastSubjectSequence }: { expectedLastSubjectSequence: number },
  ): Promise<number> {
    return this.#store.append(subject, schema, message, expectedLastSubjectSequence);
  }

  /** The last message on a subject, or nothing. */
  getStored<M extends DescMessage>(
    stream: string,
    subject: string,
    schema: M,
  ): Promise<{ message: MessageShape<M>; sequence: number } | undefined> {
    return this.#store.last(stream, subject, schema);
  }

  /** What a subject (wildcards allowed) holds at the time of the call, in order. */
  readSubject<M extends DescMessage>(
    stream: string,
    subject: string,
    schema: M,
    { fromSequence }: { fromSequence?: number | undefined } = {},
  ): AsyncGenerator<{ message: MessageShape<M>; sequence: number; subject: string }, void, void> {
    return this.#store.read(stream, subject, schema, fromSequence);
  }

  /** Names of the streams that take in a subject (wildcards allowed). */
  streamsOf(subject: string): Promise<string[]> {
    return this.#store.names(subject);
  }

  /** How far the workers of a queue have come. */
  queueState(stream: string, consumer: string): Promise<QueueState> {
    return this.#store.queue(stream, consumer);
  }

  /** The first message of a stream from a sequence on, as bytes. */
  nextMessage(
    stream: string,
    from: number,
  ): Promise<{ sequence: number; subject: string; data: Uint8Array } | undefined> {
    return this.#store.next(stream, from);
  }

  /** Deletes one stored message; true when it was there. */
  deleteMessage(stream: string, sequence: number): Promise<boolean> {
    return this.#store.delete(stream, sequence);
  }

  /** Tells whoever listens now; nobody may. `named`: the message type, on subjects that carry more than one. */
  publish<M extends DescMessage>(
    subject: string,
    schema: M,
    message: MessageInitShape<M>,
    { trace, named }: { trace?: string | undefined; named?: string | undefined } = {},
  ): void {
    const pairs: [string, string][] = [];
    if (trace !== undefined) pairs.push([HEADERS.trace, trace]);
    if (named !== undefined) pairs.push([HEADERS.message, named]);
    const options = pairs.length > 0 ? { headers: HeaderBlock.of(pairs) } : undefined;
    publish(this.nc, subject, encode(schema, message), options);
  }

  /** Hears what is said on a subject (wildcards allowed). Answers a function that ends it. */
  hear<M extends DescMessage>(
    subject: string,
    schema: M,
    handler: (
      message: MessageShape<M>,
      context: { subject: string; trace: string | undefined },
    ) => void | Promise<void>,
  ): () => void {
    return this.hearRaw(subject, (raw) =>
      handler(decode(schema, raw), { subject: raw.subject, trace: raw.headers?.get(HEADERS.trace) || undefined }),
    );
  }

  /** As `hear`, without decoding: for wake-ups, whose body is read from the store. */
  hearRaw(subject: string, handler: (message: Msg) => void | Promise<void>): () => void {
    const failed = (error: unknown, heard: string) =>
      this.log.error({ subject: heard, err: error }, 'a listener failed');
    const subscription = this.nc.subscribe(subject, {
      callback: (error, message) => {
        if (error) return void this.log.error({ subject, err: error }, 'the server refused a subscription');
        try {
          const done = handler(message);
          if (done) done.catch((cause: unknown) => failed(cause, message.subject));
        } catch (cause) {
          failed(cause, message.subject);
        }
      },
    });
    return () => subscription.unsubscribe();
  }

  /**
   * Follows a bucket; resolves when everything in it has been read. What `decode` throws on is left out, with a log line.
   * `sweep`, for the service that deletes keys of the bucket: remove from time to time what deleted keys leave in it.
   */
  async watch<T>(
    bucket: BucketName,
    decodeValue: (value: Uint8Array, key: string) => T,
    { sweep }: { sweep?: boolean | SweepOptions } = {},
  ): Promise<KvSnapshot<T>> {
    const sweeper = sweep ? new KvSweeper(this.#store, this.log, bucket, sweep === true ? SWEEP : sweep) : undefined;
    if (sweeper !== undefined) this.#keep(sweeper);
    const watch = new KvWatch(this.nc, this.log, bucket, decodeValue, sweeper);
    this.#watches.add(watch);
    return watch.start();
  }

  /** Reads and writes the keys of a bucket. */
  kv(bucket: BucketName): KeyValues {
    return new KeyValues(this.#store, bucket);
  }

  /** No new work, a wait for what runs, then the connection. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    for (const watch of this.#watches) watch.stop();
    await Promise.all([...this.#workers, ...this.#served].map((each) => each.stop()));
    if (!this.nc.isClosed()) await this.nc.drain().catch(() => this.nc.close());
    this.#inbox.shut();
  }

  #keep(served: Served): Served {
    this.#served.push(served);
    return served;
  }

  /** Puts a message that is given up into the dead letters, once, however often it is called. */
  async bury(letter: DeadLetter): Promise<void> {
    const pairs: [string, string][] = [
      [HEADERS.deadReason, `${letter.reason.class} ${letter.reason.code}: ${letter.reason.message}`],
      [HEADERS.deadSubject, letter.subject],
      [HEADERS.deadSequence, String(letter.streamSequence)],
      [HEADERS.deadAttempts, String(letter.attempts)],
      // A worker that died between the copy and its TERM gets the message again: one copy is enough.
      ['Nats-Msg-Id', `${letter.stream}:${letter.streamSequence}`],
    ];
    if (letter.trace !== undefined) pairs.push([HEADERS.trace, letter.trace]);
    if (letter.json) pairs.push([HEADERS.encoding, 'json']);
    await this.#store.put(subjects.deadLetter(letter.stream, letter.tenant), letter.data, HeaderBlock.of(pairs));
  }

  async #watchStatus(): Promise<void> {
    for await (const status of this.nc.status()) {
      switch (status.type) {
        case 'disconnect':
          this.#status = 'disconnected';
          this.log.warn({ server: status.server }, 'disconnected from NATS');
          break;
        case 'reconnect':
          this.#status = 'connected';
          this.reconnectedAt = performance.now();
          this.log.info({ server: status.server }, 'connected to NATS again');
          for (const worker of this.#workers) worker.reconnected();
          for (const watch of this.#watches) watch.reconnected();
          break;
        case 'error': {
          const refusal = status.error as Error & { operation?: string; subject?: string };
          if (refusal.operation === 'publish' && refusal.subject) this.#inbox.refused(refusal.subject);
          this.log.error({ err: status.error }, 'NATS reports an error');
          break;
        }
        default:
          break;
      }
    }
    this.#status = 'closed';
    this.#inbox.shut();
  }
}

const RECONNECT_MS = 500;

/** The client's own waiting for a first server would wait for a refused login as well, for ever. */
async function connectWhenThere(log: Log, options: NodeConnectionOptions): Promise<NatsConnection> {
  for (let tries = 0; ; tries++) {
    try {
      return await connect(options);
    } catch (cause) {
      const servers = String(options.servers);
      if (cause instanceof AuthorizationError)
        throw new YardError('DENIED', 'YM-NATS-LOGIN', `NATS at ${servers} refuses the login ${options.user}.`, {
          cause,
        });
      if (cause instanceof InvalidArgumentError)
        throw new YardError('INVALID', 'YM-NATS-URL', `NATS at ${servers} cannot be connected to: ${cause.message}`, {
          cause,
        });
      if (tries === 0) log.warn({ servers, err: cause }, 'NATS cannot be reached; it is tried until it can');
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

const plainDeadlines = new Map<number, ReturnType<typeof HeaderBlock.of>>();

/** Time-outs are a few constants of the program: their header is written once. */
function deadlineHeader(timeoutMs: number, trace: string | undefined) {
  const deadline: [string, string] = [HEADERS.deadline, String(timeoutMs)];
  if (trace !== undefined) return HeaderBlock.of([deadline, [HEADERS.trace, trace]]);
  let block = plainDeadlines.get(timeoutMs);
  if (block === undefined) {
    block = HeaderBlock.of([deadline]);
    if (plainDeadlines.size < 100) plainDeadlines.set(timeoutMs, block);
  }
  return block;
}

function parseUrls(url: string): { servers: string[]; login: { user: string; pass: string } | undefined } {
  let login: { user: string; pass: string } | undefined;
  const servers = url.split(',').map((text) => {
    const full = text.trim().includes('://') ? text.trim() : `nats://${text.trim()}`;
    if (!URL.canParse(full))
      throw new YardError('INVALID', 'YM-NATS-URL', 'The NATS address cannot be read: nats://host:port is expected.');
    const { protocol, hostname, port, username, password } = new URL(full);
    if (username) login ??= { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
    return `${protocol === 'tls:' ? 'tls://' : ''}${hostname}:${port || 4222}`;
  });
  return { servers, login };
}
