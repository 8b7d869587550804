import { setImmediate as nextTurn } from 'node:timers/promises';

const SLICE_MS = 8;

/** Long work in slices, between which other calls get their turn. */
export class Pace {
  #turnAt = performance.now() + SLICE_MS;

  constructor(private readonly signal: AbortSignal) {}

  /** Is the slice used up, or the work not wanted any more? Then `turn` is to be waited for. */
  get isDue(): boolean {
    return this.signal.aborted || performance.now() > this.#turnAt;
  }

  /** Lets others work. Throws the signal's reason when it is aborted. */
  async turn(): Promise<void> {
    await nextTurn();
    this.signal.throwIfAborted();
    this.#turnAt = performance.now() + SLICE_MS;
  }
}
