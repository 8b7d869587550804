import { Refusal } from './validate.js';

interface Waiting {
  run: () => void;
  refuse: (error: Error) => void;
}

interface Tenant {
  running: number;
  waiting: Waiting[];
}

/** Too many commands of this tenant already wait; `retryAfterMs` is when to try again. */
export class QueueFull extends Refusal {
  readonly retryAfterMs = 1000;
}

/**
 * Slots for commands, shared fairly: a free slot goes to the tenant whose turn it is (round robin), within a tenant first
 * come first served, and no tenant holds more than its share.
 */
export class FairQueue {
  readonly #slots: number;
  readonly #perTenant: number;
  readonly #mostWaiting: number;
  readonly #tenants = new Map<string, Tenant>();
  /** Tenants with somebody waiting, in turn. */
  #turns: string[] = [];
  running = 0;
  #closed = false;

  constructor(slots: number, perTenant: number, mostWaiting: number) {
    this.#slots = slots;
    this.#perTenant = perTenant;
    this.#mostWaiting = mostWaiting;
  }

  get waiting(): number {
    let sum = 0;
    for (const tenant of this.#tenants.values()) sum += tenant.waiting.length;
    return sum;
  }

  /** Resolves with a function that gives the slot back. @throws QueueFull; the signal's reason when given up before. */
  async take(tenant: string, signal?: AbortSignal): Promise<() => void> {
    if (this.#closed) throw new QueueFull('draining', 'The runner is shutting down.');
    let entry = this.#tenants.get(tenant);
    if (entry === undefined) this.#tenants.set(tenant, (entry = { running: 0, waiting: [] }));
    const mine = entry;
    if (mine.waiting.length >= this.#mostWaiting && !(this.running < this.#slots && mine.running < this.#perTenant))
      throw new QueueFull(
        'quota',
        `${mine.running} commands of this tenant run and ${mine.waiting.length} wait: wait for one to end.`,
      );
    await new Promise<void>((resolve, reject) => {
      const waiting: Waiting = { run: resolve, refuse: reject };
      mine.waiting.push(waiting);
      if (!this.#turns.includes(tenant)) this.#turns.push(tenant);
      signal?.addEventListener('abort', () => {
        const index = mine.waiting.indexOf(waiting);
        if (index === -1) return;
        mine.waiting.splice(index, 1);
        if (mine.running === 0 && mine.waiting.length === 0) this.#tenants.delete(tenant);
        reject(signal.reason instanceof Error ? signal.reason : new Error('given up'));
      });
      this.#serve();
    });
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.running--;
      mine.running--;
      if (mine.running === 0 && mine.waiting.length === 0) this.#tenants.delete(tenant);
      this.#serve();
    };
  }

  /** Refuses everybody who waits and whoever comes. */
  close(): void {
    this.#closed = true;
    for (const tenant of this.#tenants.values())
      for (const waiting of tenant.waiting.splice(0))
        waiting.refuse(new QueueFull('draining', 'The runner is shutting down.'));
    this.#turns = [];
  }

  #serve(): void {
    let passed = 0;
    while (this.running < this.#slots && passed < this.#turns.length) {
      const name = this.#turns.shift()!;
      const tenant = this.#tenants.get(name);
      if (tenant === undefined || tenant.waiting.length === 0) continue;
      if (tenant.running >= this.#perTenant) {
        this.#turns.push(name);
        passed++;
        continue;
      }
      const next = tenant.waiting.shift()!;
      if (tenant.waiting.length > 0) this.#turns.push(name);
      tenant.running++;
      this.running++;
      passed = 0;
      next.run();
    }
  }
}
