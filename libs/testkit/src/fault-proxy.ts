import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** `up` is from the client to the server, `down` the other way. */
export type Direction = 'up' | 'down';

/** What the network does to what passes; every field may change while connections are open. */
export interface Faults {
  /** Added to every piece, in milliseconds, each way. */
  latencyMs: number;
  /** Up to so much more, at random; order is kept, as TCP does. */
  jitterMs: number;
  /** Each way, for each connection; 0 is no limit. */
  bytesPerSecond: number;
  /** The connection is reset once so many bytes have passed in this direction. */
  resetAfterBytes: number | undefined;
  resetDirection: Direction;
  /**
   * A half-open link: nothing passes in these directions and nobody is told. What was sent arrives when it is healed,
   * as with lost and repeated packets. New connections are accepted and stay silent.
   */
  stalled: readonly Direction[];
  /** New connections are reset at once. */
  refuse: boolean;
}

const HEALTHY: Faults = {
  latencyMs: 0,
  jitterMs: 0,
  bytesPerSecond: 0,
  resetAfterBytes: undefined,
  resetDirection: 'down',
  stalled: [],
  refuse: false,
};

/** What is held back for one direction before the sender feels it. */
const MAX_WAITING_BYTES = 1_048_576;

/** A TCP proxy on loopback that breaks connections in the ways that networks do. */
export class FaultProxy {
  #faults: Faults = { ...HEALTHY };
  #server: Server;
  #pairs = new Set<{ client: Socket; server: Socket }>();
  #healed = new Set<() => void>();
  /** Connections that were accepted so far. */
  accepted = 0;

  private constructor(
    server: Server,
    private readonly target: { host: string; port: number },
    private readonly random: () => number,
  ) {
    this.#server = server;
    server.on('connection', (client) => this.#join(client));
  }

  /** Listens on a free port and passes everything on to `port`. */
  static async start(port: number, { host = '127.0.0.1', random = Math.random } = {}): Promise<FaultProxy> {
    const server = createServer({ allowHalfOpen: true, noDelay: true });
    const proxy = new FaultProxy(server, { host, port }, random);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    server.unref();
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Changes some of the faults, for open connections too. */
  set(faults: Partial<Faults>): void {
    this.#faults = { ...this.#faults, ...faults };
    for (const wake of this.#healed) wake();
    this.#healed.clear();
  }

  /** No faults any more; what was held back goes on its way. */
  heal(): void {
    this.set(HEALTHY);
  }

  /** Resets every open connection, as a router that lost its table does. */
  reset(): void {
    for (const { client, server } of this.#pairs) {
      client.resetAndDestroy();
      server.resetAndDestroy();
    }
  }

  async stop(): Promise<void> {
    this.reset();
    this.heal();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #join(client: Socket): void {
    this.accepted++;
    if (this.#faults.refuse) {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ ...this.target, allowHalfOpen: true, noDelay: true });
    const pair = { client, server };
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      // One side that broke breaks the other, now or when the link is healed: nobody hears through a stalled link.
      const broken = client.destroyed ? server : client;
      const direction = client.destroyed ? 'up' : 'down';
      this.#passable(direction).then(
        () => broken.destroy(),
        () => {},
      );
    };
    for (const socket of [client, server]) socket.on('error', () => {}).once('close', end);
    this.#carry(client, server, 'up', pair);
    this.#carry(server, client, 'down', pair);
  }

  /** Passes one direction on, piece by piece and in order: a line of pieces, each with the time it is due. */
  #carry(from: Socket, to: Socket, direction: Direction, pair: { client: Socket; server: Socket }): void {
    const line: { piece: Buffer; due: number }[] = [];
    let waiting = 0;
    let last = 0;
    let ended = false;
    let wake = () => {};
    from.on('data', (piece: Buffer) => {
      const { latencyMs, jitterMs, bytesPerSecond } = this.#faults;
      const sending = bytesPerSecond > 0 ? (piece.length / bytesPerSecond) * 1000 : 0;
      const now = performance.now();
      last = Math.max(now + latencyMs + jitterMs * this.random() + sending, last + sending);
      line.push({ piece, due: last });
      waiting += piece.length;
      if (waiting > MAX_WAITING_BYTES) from.pause();
      wake();
    });
    from.once('end', () => {
      ended = true;
      wake();
    });
    const next = async () => {
      while (line.length === 0 && !ended && !from.destroyed) await new Promise<void>((resolve) => (wake = resolve));
      return line.shift();
    };
    from.once('close', () => wake());
    const run = async () => {
      let passed = 0;
      for (let one = await next(); one !== undefined; one = await next()) {
        const { piece, due } = one;
        const delay = due - performance.now();
        if (delay > 0) await sleep(delay, undefined, { ref: false });
        await this.#passable(direction);
        const { resetAfterBytes, resetDirection } = this.#faults;
        const limit = resetDirection === direction ? (resetAfterBytes ?? Infinity) : Infinity;
        const allowed = piece.subarray(0, Math.max(0, limit - passed));
        passed += piece.length;
        if (!to.write(allowed)) await new Promise((resolve) => to.once('drain', resolve).once('close', resolve));
        if (passed >= limit) {
          // What was let through should arrive before the reset, which overtakes what is still in a buffer.
          await sleep(20);
          pair.client.resetAndDestroy();
          pair.server.resetAndDestroy();
          return;
        }
        waiting -= piece.length;
        if (from.isPaused() && waiting < MAX_WAITING_BYTES / 2) from.resume();
      }
      await this.#passable(direction);
      to.end();
    };
    run().catch(() => to.destroy());
  }

  async #passable(direction: Direction): Promise<void> {
    while (this.#faults.stalled.includes(direction)) await new Promise<void>((resolve) => this.#healed.add(resolve));
  }
}
