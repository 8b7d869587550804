import { Pool, type buildConnector, type Dispatcher } from 'undici';
import type { Transport, TransportRequest, TransportResponse } from '../failover/transport.js';
import { BodyReader } from './body-reader.js';

/** Response headers larger than this are refused. */
const MAX_HEADER_BYTES = 64 * 1024;
/** After an answer its connection may end in peace for so long and so much, to be used again. */
const DRAIN_MS = 500;

export interface UndiciTransportOptions {
  /**
   * Connects to an origin under one policy: the egress guard plugs in here, resolves the address once, checks it and pins
   * the connection to it. Without it any address is reachable.
   */
  connect?: (origin: string, timeoutMs: number) => buildConnector.connector;
  /** Connections to one origin; more requests than that wait for one. */
  connectionsPerOrigin?: number;
  /** Origins whose pools are kept; the least used one is closed beyond that. */
  maxOrigins?: number;
}

/** Requests over pooled connections, one pool per origin. Never follows a redirect, never retries. */
export class UndiciTransport implements Transport {
  private readonly pools = new Map<string, Pool>();
  private readonly options: UndiciTransportOptions;

  constructor(options: UndiciTransportOptions = {}) {
    this.options = options;
  }

  async send(request: TransportRequest): Promise<TransportResponse> {
    const url = new URL(request.url);
    const pool = this.poolOf(url.origin, request.connectTimeoutMs);
    const response = await pool.request({
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
    const pools = [...this.pools.values()];
    this.pools.clear();
    await Promise.all(pools.map((pool) => pool.destroy()));
  }

  private poolOf(origin: string, connectTimeoutMs: number): Pool {
    const known = this.pools.get(origin);
    if (known !== undefined) {
      // Last used is last in the map.
      this.pools.delete(origin);
      this.pools.set(origin, known);
      return known;
    }
    const options: Pool.Options = {
      connections: this.options.connectionsPerOrigin ?? 256,
      pipelining: 1,
      keepAliveTimeout: 30_000,
      keepAliveMaxTimeout: 300_000,
      maxHeaderSize: MAX_HEADER_BYTES,
      connect: this.options.connect?.(origin, connectTimeoutMs) ?? { timeout: connectTimeoutMs },
    };
    const pool = new Pool(origin, options);
    this.pools.set(origin, pool);
    if (this.pools.size > (this.options.maxOrigins ?? 256)) {
      const [oldest] = this.pools;
      if (oldest !== undefined) {
        this.pools.delete(oldest[0]);
        void oldest[1].close();
      }
    }
    return pool;
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
