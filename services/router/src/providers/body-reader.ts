import type { Readable } from 'node:stream';

const HIGH_WATER = 32;

/** A response body, read piece by piece without the cost of an async iterator; slow readers make the socket wait. */
export class BodyReader {
  private readonly queue: Uint8Array[] = [];
  private readonly body: Readable;
  private waiting: { resolve: (bytes: Uint8Array | null) => void; reject: (error: unknown) => void } | undefined;
  private ended = false;
  private failure: unknown;

  constructor(body: Readable) {
    this.body = body;
    body.on('data', (bytes: Uint8Array) => {
      const { waiting } = this;
      if (waiting !== undefined) {
        this.waiting = undefined;
        waiting.resolve(bytes);
        return;
      }
      this.queue.push(bytes);
      if (this.queue.length >= HIGH_WATER) body.pause();
    });
    body.on('end', () => this.settle(undefined));
    body.on('error', (error) => this.settle(error));
    body.on('close', () => this.settle(this.ended ? undefined : new Error('the connection was closed')));
  }

  get isEnded(): boolean {
    return this.ended;
  }

  next(): Promise<Uint8Array | null> {
    const bytes = this.queue.shift();
    if (bytes !== undefined) {
      if (this.queue.length === 0 && this.body.isPaused()) this.body.resume();
      return Promise.resolve(bytes);
    }
    if (this.failure !== undefined) return Promise.reject(this.failure as Error);
    if (this.ended) return Promise.resolve(null);
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
    });
  }

  private settle(error: unknown): void {
    if (this.ended || this.failure !== undefined) return;
    if (error === undefined) this.ended = true;
    else this.failure = error;
    const { waiting } = this;
    this.waiting = undefined;
    if (waiting === undefined) return;
    if (error === undefined) waiting.resolve(null);
    else waiting.reject(error);
  }
}
