/**
 * One job at a time, in turns: each party that waits has one job done before any has its next, however many it has
 * brought. The jobs of one party are done in the order in which they came.
 */
export class FairQueue {
  /** What waits, by party; the party whose turn is next comes first. */
  private readonly waiting = new Map<string, (() => Promise<void>)[]>();
  private busy = false;

  /** Does `job` when it is its party's turn; settles as it does. */
  run<T>(party: string, job: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const jobs = this.waiting.get(party) ?? [];
      jobs.push(() => job().then(resolve, reject));
      this.waiting.set(party, jobs);
      void this.work();
    });
  }

  private async work(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    for (;;) {
      const [next] = this.waiting;
      if (next === undefined) break;
      const [party, jobs] = next;
      await jobs.shift()!();
      // Only now to the end of the row: whoever came meanwhile is before it.
      this.waiting.delete(party);
      if (jobs.length > 0) this.waiting.set(party, jobs);
    }
    this.busy = false;
  }
}
