import { Agent, type Dispatcher } from 'undici';
import type { Transport, TransportRequest, TransportResponse } from '../failover/transport.js';
import { BodyReader } from './body-reader.js';

/** Response headers larger than this are refused. */
const MAX_HEADER_BYTES = 64 * 1024;
/** After an answer its connection may end in peace for so long and so much, to be used again. */
const DRAIN_MS = 500;

export interface UndiciTransportOptions {
  /**
   * The connections of one provider, for instance those of the egress guard under the provider's policy. Whoever made
   * them closes them. Without it any address is reachable, over connections of our own.
   */
  dispatcherFor?: (provider: string, url: URL, connectTimeoutMs: number) => Dispatcher;
  /** Connections to one origin; more requests than that wait for one. */
  connectionsPerOrigin?: number;
}

/** Requests over pooled connections, a pool of its own for every provider. Never follows a redirect, never retries. */
export class UndiciTransport implements Transport {
  private readonly agents = new Map<string, Agent>();
  private readonly options: UndiciTransportOptions;

  constructor(options: UndiciTransportOptions = {}) {
    this.options = options;
  }

  async send(request: TransportRequest): Promise<TransportResponse> {
    const url = new URL(request.url);
    const { dispatcherFor } = this.options;
    const dispatcher =
      dispatcherFor === undefined
        ? this.agentOf(request.provider, request.connectTimeoutMs)
        : dispatcherFor(request.provider, url, request.connectTimeoutMs);
    const response = await dispatcher.request({
      origin: url.origin,
      method: 'POST',
      path: url.pathname + url.search,
      headers: request.headers,
      body: request.body,
      signal: request.signal,
      // The engine's own limits hold; those of the client would come in between.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    return new UndiciResponse(response);
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    const agents = [...this.agents.values()];
    this.agents.clear();
    await Promise.all(agents.map((agent) => agent.destroy()));
  }

  private agentOf(provider: string, connectTimeoutMs: number): Agent {
    // A changed time limit takes effect with a new agent; the old one serves out what it has.
    const key = `${provider} ${connectTimeoutMs}`;
    let agent = this.agents.get(key);
    if (agent === undefined) {
      agent = new Agent({
        connections: this.options.connectionsPerOrigin ?? 256,
        pipelining: 1,
        allowH2: false,
        keepAliveTimeout: 30_000,
        keepAliveMaxTimeout: 300_000,
        maxHeaderSize: MAX_HEADER_BYTES,
        connect: { timeout: connectTimeoutMs },
      });
      this.agents.set(key, agent);
    }
    return agent;
  }
}

class UndiciResponse implements TransportResponse {
  readonly status: number;
  readonly headers: TransportResponse['headers'];
  private readonly body: Dispatcher.ResponseData['body'];
  private readonly reader: BodyReader;

  constructor(response: Dispatcher.ResponseData) {
    this.status = response.statusCode;
    this.headers = response.headers as TransportResponse['headers'];
    this.body = response.body;
    this.reader = new BodyReader(response.body);
  }

  next(): Promise<Uint8Array | null> {
    return this.reader.next();
  }

  release(): void {
    if (this.reader.isEnded) return;
    const timer = setTimeout(() => this.destroy(), DRAIN_MS);
    timer.unref();
    const drain = async (): Promise<void> => {
      try {
        while ((await this.reader.next()) !== null);
      } catch {
        // Closed in between: nothing to keep.
      } finally {
        clearTimeout(timer);
      }
    };
    void drain();
  }

  destroy(): void {
    this.body.destroy();
  }
}
