import type { Clock } from './clock.js';

const REMEMBER_MS = 3_600_000;

/** Which endpoints answer on `/responses` because they do not know `/chat/completions`; forgotten after an hour. */
export class RouteMemory {
  private readonly known = new Map<string, { works: boolean; until: number }>();
  private readonly clock: Clock;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** True: use `/responses` at once. False: it is not there either. Undefined: nobody tried. */
  usesResponses(endpoint: string): boolean | undefined {
    const entry = this.known.get(endpoint);
    if (entry === undefined || entry.until <= this.clock.now()) return undefined;
    return entry.works;
  }

  remember(endpoint: string, works: boolean): void {
    this.known.set(endpoint, { works, until: this.clock.now() + REMEMBER_MS });
  }
}
