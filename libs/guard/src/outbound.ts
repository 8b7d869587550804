import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher, fetch as undiciFetch } from 'undici';
import { parseAddress } from './address.js';
import { checkText, judge, refused, type Resolve, type Target } from './assert-url.js';
import type { Policy } from './policy.js';
import { followRedirects } from './redirect.js';

export interface OutboundOptions {
  resolve?: Resolve;
  /** Sockets to one origin; more requests wait. */
  connections?: number;
  connectTimeoutMs?: number;
  /** How long an unused socket is kept. */
  idleMs?: number;
  headersTimeoutMs?: number;
  bodyTimeoutMs?: number;
  /** Answers with larger headers are refused. */
  maxHeaderBytes?: number;
  /** A certificate authority to trust beside the system's, PEM. */
  ca?: string;
}

export type OutboundRequest = Omit<Dispatcher.RequestOptions, 'origin' | 'path' | 'method' | 'headers'> & {
  method?: Dispatcher.HttpMethod;
  headers?: Readonly<Record<string, string>>;
};

/**
 * The one way out: requests under one policy, through one connection pool that no other policy shares (a socket that
 * one tenant's list allowed would otherwise serve another tenant without any check). The text of an address is checked
 * for every request; its name is resolved once for each new socket, and the socket goes to an address that was checked.
 * Redirects are answers like others, unless they are asked to be followed.
 */
export class Outbound {
  readonly #agent: Agent;

  constructor(
    readonly policy: Policy,
    private readonly options: OutboundOptions = {},
  ) {
    this.#agent = new Agent({
      connect: this.#connector(),
      // One request at a time on a socket, and no HTTP/2, whose connections may be shared between origins.
      pipelining: 1,
      allowH2: false,
      connections: options.connections ?? 128,
      keepAliveTimeout: options.idleMs ?? 10_000,
      maxHeaderSize: options.maxHeaderBytes ?? 65_536,
      headersTimeout: options.headersTimeoutMs ?? 60_000,
      bodyTimeout: options.bodyTimeoutMs ?? 60_000,
    });
  }

  /** For libraries that take an undici dispatcher; it checks at every connection, but not the text of the address. */
  get dispatcher(): Dispatcher {
    return this.#agent;
  }

  /** Sends one request and answers with whatever comes, redirects included. Throws DENIED, UNAVAILABLE, undici's errors. */
  async request(raw: string, request: OutboundRequest = {}): Promise<Dispatcher.ResponseData> {
    return this.#send(checkText(raw, this.policy), request);
  }

  /** Sends a GET or HEAD and follows at most three redirects, each checked like a first address. */
  async requestFollowing(raw: string, request: OutboundRequest = {}): Promise<Dispatcher.ResponseData> {
    const { response } = await followRedirects(
      raw,
      { method: request.method ?? 'GET', ...(request.headers !== undefined && { headers: request.headers }) },
      this.policy,
      async ({ url, headers }) => {
        const response = await this.#send(url, { ...request, headers });
        const location = response.headers['location'];
        if (response.statusCode < 300 || response.statusCode >= 400 || typeof location !== 'string')
          return { response };
        await response.body.dump(); // the socket goes back to the pool
        return { response, location };
      },
    );
    return response;
  }

  /**
   * `fetch` for libraries that want one, with the same checks; a redirect is an error. Bodies are cut off with an error
   * at `maxBytes`; of an event stream each event may be so large. Throws DENIED, UNAVAILABLE, fetch's errors.
   */
  fetch(maxBytes: number): (input: string | URL, init?: RequestInit) => Promise<Response> {
    return async (input, init = {}) => {
      const url = checkText(String(input), this.policy);
      const answer = (await undiciFetch(url, {
        ...(init as unknown as Parameters<typeof undiciFetch>[1]),
        redirect: 'error',
        dispatcher: this.#agent,
      })) as unknown as Response;
      if (answer.body === null) return answer;
      const events = answer.headers.get('content-type')?.startsWith('text/event-stream') === true;
      const { status, statusText, headers } = answer;
      return new Response(answer.body.pipeThrough(limited(maxBytes, events)), { status, statusText, headers });
    };
  }

  /** Waits for what runs, then closes all sockets. */
  async close(): Promise<void> {
    await this.#agent.close();
  }

  /** Ends what runs and closes all sockets. */
  async destroy(): Promise<void> {
    await this.#agent.destroy();
  }

  async #send(url: URL, request: OutboundRequest): Promise<Dispatcher.ResponseData> {
    return this.#agent.request({
      ...request,
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: request.method ?? 'GET',
      headers: request.headers ?? {},
    });
  }

  #connector(): buildConnector.connector {
    // undici's connector takes a name; under this made-up one the look-up finds what was checked, all of it, so that
    // Node can try one address after the other, and nothing else.
    const checked = new Map<string, Target>();
    let last = 0;
    const pinned: LookupFunction = (key, options, callback) => {
      const found = (checked.get(key)?.addresses ?? []).map((address) => ({ address, family: isIP(address) }));
      if (found.length === 0) callback(new Error('not a checked address'), '', 0);
      else if (options.all) callback(null, found);
      else callback(null, found[0]!.address, found[0]!.family);
    };
    const connect = buildConnector({
      lookup: pinned,
      autoSelectFamily: true,
      timeout: this.options.connectTimeoutMs ?? 10_000,
      allowH2: false,
      ...(this.options.ca !== undefined && { ca: this.options.ca }),
    } as buildConnector.BuildOptions);
    return (options, callback) => {
      const open = async () => {
        const url = checkText(`${options.protocol}//${options.host ?? options.hostname}`, this.policy);
        const target = await judge(url, this.policy, this.options.resolve);
        const literal = parseAddress(url.hostname) !== undefined;
        const key = literal ? target.address : `${++last}.checked.invalid`;
        if (!literal) checked.set(key, target);
        const done: buildConnector.Callback = (...answer) => {
          checked.delete(key);
          const [error, socket] = answer;
          if (error === null && !isCheckedPeer(socket.remoteAddress, target)) {
            socket.destroy();
            callback(refused('private', url.hostname), null);
          } else callback(...answer);
        };
        connect({ ...options, hostname: key, ...(!literal && { servername: url.hostname.replace(/\.$/, '') }) }, done);
      };
      open().catch((error: Error) => callback(error, null));
    };
  }
}

/** Passes bytes on up to a limit; in an event stream the count begins anew behind every blank line. */
function limited(maxBytes: number, events: boolean): TransformStream<Uint8Array, Uint8Array> {
  let count = 0;
  return new TransformStream({
    transform(chunk, controller) {
      const at = events ? lastBlankLine(chunk) : -1;
      count = at < 0 ? count + chunk.length : chunk.length - at;
      if (count > maxBytes) controller.error(new Error(`the answer is larger than ${maxBytes} bytes`));
      else controller.enqueue(chunk);
    },
  });
}

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

function lastBlankLine(chunk: Uint8Array): number {
  for (let at = chunk.length - 1; at > 0; at--) {
    if (chunk[at] !== LINE_FEED) continue;
    if (chunk[at - 1] === LINE_FEED || (chunk[at - 1] === CARRIAGE_RETURN && chunk[at - 2] === LINE_FEED)) return at;
  }
  return -1;
}

/** The kernel's word on where the socket ended, against what was checked. */
function isCheckedPeer(peer: string | undefined, target: Target): boolean {
  const at = peer === undefined ? undefined : parseAddress(peer);
  return at !== undefined && target.addresses.some((address) => parseAddress(address)?.value === at.value);
}

/** One `Outbound` per policy: the key must name the tenant, the version of its list, and the credential. */
export class OutboundPools {
  readonly #pools = new Map<string, Outbound>();

  constructor(
    private readonly options: OutboundOptions = {},
    private readonly limit = 256,
  ) {}

  /** The pool of this key, made with `policy` when there is none; the one unused for longest makes room. */
  for(key: string, policy: () => Policy): Outbound {
    const pool = this.#pools.get(key) ?? new Outbound(policy(), this.options);
    this.#pools.delete(key);
    this.#pools.set(key, pool);
    if (this.#pools.size > this.limit) {
      const [oldest] = this.#pools.keys();
      this.drop(oldest!);
    }
    return pool;
  }

  /** Closes the pool of a list or credential that is no longer valid, once what runs there has ended. */
  drop(key: string): void {
    const pool = this.#pools.get(key);
    this.#pools.delete(key);
    pool?.close().catch(() => {});
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.all(pools.map((pool) => pool.close()));
  }
}
