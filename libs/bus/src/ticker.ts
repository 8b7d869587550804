/** One interval for everything that must be looked at now and then; it runs only while there is something. */
export class Ticker {
  readonly #everyMs: number;
  readonly #looks = new Set<(now: number) => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Calls `look` at every tick until the function returned is called. */
  add(look: (now: number) => void): () => void {
    this.#looks.add(look);
    this.#timer ??= setInterval(() => {
      const now = performance.now();
      for (const each of this.#looks) each(now);
    }, this.#everyMs);
    return () => {
      if (!this.#looks.delete(look) || this.#looks.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }
}
