/** One holder at a time for each key, first come first served, within this process. */
export class Locks {
  readonly #last = new Map<string, Promise<void>>();

  /** Runs `work` while it holds all keys. Keys are taken in one order, so that two holders never wait for each other. */
  async hold<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const [first, ...rest] = [...new Set(keys)].sort();
    if (first === undefined) return work();
    const before = this.#last.get(first);
    let release!: () => void;
    const mine = new Promise<void>((resolve) => (release = resolve));
    const last = (before ?? Promise.resolve()).then(() => mine);
    this.#last.set(first, last);
    await before;
    try {
      return await this.hold(rest, work);
    } finally {
      release();
      if (this.#last.get(first) === last) this.#last.delete(first);
    }
  }

  /** How many keys are held or waited for. */
  get size(): number {
    return this.#last.size;
  }
}
