import type { Clock } from './clock.js';
import type { AttemptTimeouts } from './candidate.js';

export type Overdue = 'first_token' | 'idle' | 'total' | 'deadline';

/** After a finish reason only usage can follow; servers that forget to close are not waited for. */
const AFTER_FINISH_MS = 1_000;
/** Heartbeats keep an answer alive, but not for ever without content. */
const HEARTBEATS_ONLY = 4;

/** Watches one attempt with a single timer: first token, silence, the attempt as a whole, the request's deadline. */
export class Watchdog {
  readonly startedAt: number;
  private readonly clock: Clock;
  private readonly timeouts: AttemptTimeouts;
  private readonly deadlineAt: number;
  private readonly onOverdue: (why: Overdue) => void;
  private cancelTimer: () => void = () => undefined;
  private lastBytes: number;
  private lastProgress: number;
  private firstAt: number | undefined;
  private finishAt: number | undefined;
  private dueAt = Infinity;
  private stopped = false;

  constructor(clock: Clock, timeouts: AttemptTimeouts, deadlineAt: number, onOverdue: (why: Overdue) => void) {
    this.clock = clock;
    this.timeouts = timeouts;
    this.deadlineAt = deadlineAt;
    this.onOverdue = onOverdue;
    this.startedAt = clock.now();
    this.lastBytes = this.startedAt;
    this.lastProgress = this.startedAt;
    this.arm();
  }

  get firstTokenAt(): number | undefined {
    return this.firstAt;
  }

  /** Bytes came, of whatever kind. */
  bytes(): void {
    this.lastBytes = this.clock.now();
  }

  /** Text, reasoning or a call came. */
  progress(): void {
    const now = this.clock.now();
    this.lastBytes = now;
    this.lastProgress = now;
    if (this.firstAt === undefined) {
      this.firstAt = now;
      // The idle limit may be due before the timer that was set for the first token.
      this.arm();
    }
  }

  /** The answer is whole; only its tail may follow. */
  finishing(): void {
    if (this.finishAt !== undefined) return;
    this.finishAt = this.clock.now();
    this.arm();
  }

  stop(): void {
    this.stopped = true;
    this.cancelTimer();
  }

  private next(): [number, Overdue] {
    const { firstTokenMs, idleMs, totalMs } = this.timeouts;
    let due: [number, Overdue] = [this.deadlineAt, 'deadline'];
    const consider = (at: number, why: Overdue): void => {
      if (at < due[0]) due = [at, why];
    };
    consider(this.startedAt + totalMs, 'total');
    if (this.finishAt !== undefined) consider(this.finishAt + AFTER_FINISH_MS, 'idle');
    else if (this.firstAt === undefined) consider(this.startedAt + firstTokenMs, 'first_token');
    else {
      consider(this.lastBytes + idleMs, 'idle');
      consider(this.lastProgress + idleMs * HEARTBEATS_ONLY, 'idle');
    }
    return due;
  }

  private arm(): void {
    if (this.stopped) return;
    const [at] = this.next();
    // A timer that comes too early looks again; only one that would come too late is set anew.
    if (at >= this.dueAt) return;
    this.cancelTimer();
    this.dueAt = at;
    this.cancelTimer = this.clock.after(at - this.clock.now(), () => {
      this.dueAt = Infinity;
      if (this.stopped) return;
      const [due, why] = this.next();
      if (due <= this.clock.now()) this.onOverdue(why);
      else this.arm();
    });
  }
}
