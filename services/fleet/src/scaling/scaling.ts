import type { Logger } from '@yardmaster/service-kit';
import { toolWork } from '@yardmaster/contracts';
import { statusOf } from '../kubernetes/connection.js';
import type { Timing } from '../kubernetes/timing.js';
import type { BusyPods } from './busy-pods.js';
import type { ExecutorTarget } from './executors-file.js';
import type { ScaleClient, ScaleReading } from './scale-client.js';
import { NO_MEMORY, scale, type ScalerMemory, type Verdict } from './scaler.js';

/** Where a queue stands. */
export type QueueReader = (stream: string, consumer: string) => Promise<{ known: number }>;

export interface ScalingOptions {
  targets: () => readonly ExecutorTarget[];
  client: ScaleClient;
  queue: QueueReader;
  /** Marks busy pods before others go; absent: any pod may go. */
  busy: BusyPods | undefined;
  pollMs: number;
  mayWrite: () => boolean;
  timing: Timing;
  log: Logger;
  onDecision?: (decision: DecisionReport) => void;
}

/** What was seen of one executor last, and what was made of it. */
export interface ExecutorReport {
  target: ExecutorTarget;
  current: number | undefined;
  need: number | undefined;
  verdict: Pick<Verdict, 'action' | 'desired' | 'reason'>;
  /** Milliseconds since the epoch. */
  at: number;
}

export interface DecisionReport {
  at: number;
  executor: string;
  action: 'up' | 'down' | 'hold';
  from: number | undefined;
  to: number | undefined;
  reason: string;
}

const DECISIONS_KEPT = 100;
/** After a 409 or 429 of the API server the next tries are so many looks later, at the most. */
const MAX_PAUSE_POLLS = 12;
/** Tries against a Deployment whose version moves while its number stays. */
const CONFLICT_TRIES = 5;

/** Looks at the queues, decides, changes the numbers of pods; for as long as it leads. */
export class Scaling {
  private memories = new Map<string, ScalerMemory>();
  private pauses = new Map<string, { status: number; polls: number; left: number }>();
  readonly reports = new Map<string, ExecutorReport>();
  /** Newest first: changes, and what kept numbers from changing when that began. */
  readonly decisions: DecisionReport[] = [];
  private readonly holding = new Map<string, string>();

  constructor(private readonly options: ScalingOptions) {}

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { timing, pollMs } = this.options;
    // What another leader wanted in the meantime is not known: the calm begins anew.
    this.memories = new Map();
    this.reports.clear();
    while (!signal.aborted) {
      const targets = this.options.targets();
      await Promise.all(targets.map((target) => this.look(target, signal)));
      const names = new Set(targets.map(({ name }) => name));
      for (const name of this.reports.keys()) if (!names.has(name)) this.reports.delete(name);
      await timing.sleep(pollMs, signal);
    }
  }

  private async look(target: ExecutorTarget, signal: AbortSignal): Promise<void> {
    const problems: string[] = [];
    const [reading, need] = await Promise.all([
      this.options.client
        .read(target.deployment)
        .catch((error: unknown) => void problems.push((error as Error).message)),
      this.need(target, problems),
    ]);
    if (signal.aborted) return;
    const memory = this.memories.get(target.name) ?? NO_MEMORY;
    const verdict = scale(target, memory, {
      now: this.options.timing.now(),
      ...(reading === undefined ? {} : { current: reading.pods }),
      ...(need === undefined ? {} : { need }),
      ...(problems.length === 0 ? {} : { problem: problems.join('; ') }),
    });
    const done = await this.carryOut(target, verdict, reading);
    // What could not be carried out did not happen; that it was wanted stays known.
    this.memories.set(
      target.name,
      done === undefined ? verdict.memory : { ...verdict.memory, changes: memory.changes },
    );
    const shown = done === undefined ? verdict : { ...verdict, action: 'hold' as const, reason: done };
    this.reports.set(target.name, {
      target,
      current: reading?.pods,
      need,
      verdict: { action: shown.action, desired: shown.desired, reason: shown.reason },
      at: Date.now(),
    });
    this.note(target, shown, reading?.pods);
  }

  /** Calls of all its queues together; undefined, with the reason, when one cannot be read. */
  private async need(target: ExecutorTarget, problems: string[]): Promise<number | undefined> {
    let need = 0;
    for (const kind of target.kinds) {
      const { stream, consumer } = toolWork(kind);
      try {
        need += (await this.options.queue(stream, consumer)).known;
      } catch (error) {
        problems.push(`the queue of kind "${kind}" (${stream}) cannot be read: ${(error as Error).message}`);
        return undefined;
      }
    }
    return need;
  }

  /** Undefined when the number is as decided now, else why it is not. */
  private async carryOut(
    target: ExecutorTarget,
    verdict: Verdict,
    reading: ScaleReading | void,
  ): Promise<string | undefined> {
    const { mayWrite, log } = this.options;
    const { desired } = verdict;
    if (!reading || desired === undefined || desired === reading.pods) return undefined;
    const pause = this.pauses.get(target.name);
    if (pause !== undefined && pause.left > 0) {
      pause.left--;
      return pause.status === 409
        ? 'somebody else changes the Deployment: tried again soon'
        : 'the API server asked for patience';
    }
    try {
      if (desired < reading.pods) await this.markBusy(target, reading);
      // Asked last: marking takes its time.
      if (!mayWrite()) return 'another replica leads now';
      await this.write(target, desired, reading);
      this.pauses.delete(target.name);
      log.info({ executor: target.name, from: reading.pods, to: desired, reason: verdict.reason }, 'scaled');
      return undefined;
    } catch (error) {
      const status = statusOf(error);
      if (status === 409 || status === 429) {
        const polls = Math.min(MAX_PAUSE_POLLS, (pause?.polls ?? 0.5) * 2);
        this.pauses.set(target.name, { status, polls, left: Math.floor(polls * this.options.timing.random()) });
      }
      log.warn({ executor: target.name, from: reading.pods, to: desired, status, err: error }, 'scaling failed');
      return `the number could not be changed: ${(error as Error).message}`;
    }
  }

  /** Every pod that becomes ready changes the Deployment's version too: what was decided holds while its number is the same. */
  private async write(target: ExecutorTarget, desired: number, reading: ScaleReading): Promise<void> {
    const { client, mayWrite } = this.options;
    for (let attempt = 1, read = reading; ; attempt++) {
      try {
        return await client.write(target.deployment, desired, read);
      } catch (error) {
        if (statusOf(error) !== 409 || attempt === CONFLICT_TRIES) throw error;
        read = await client.read(target.deployment);
        if (read.pods !== reading.pods || !mayWrite()) throw error;
      }
    }
  }

  /** The pods with the fewest calls go first. Without it any goes, and finishes its calls before it ends. */
  private async markBusy(target: ExecutorTarget, { selector }: ScaleReading): Promise<void> {
    const { busy, client, log } = this.options;
    if (busy === undefined || selector === '') return;
    try {
      const pods = await client.pods(selector);
      await Promise.all(
        pods.map(async (pod) => {
          const running = await busy.running(pod, target.metricsPorts);
          if (running === undefined || pod.cost === String(running)) return;
          await client.setCost(pod.name, running);
        }),
      );
    } catch (error) {
      log.warn({ executor: target.name, err: error }, 'busy pods could not be marked; any pod may go');
    }
  }

  private note(
    target: ExecutorTarget,
    { action, desired, reason }: Pick<Verdict, 'action' | 'desired' | 'reason'>,
    from: number | undefined,
  ): void {
    const before = this.holding.get(target.name);
    if (action === 'hold') {
      // Once, when it begins; what lasts is in the executor's own entry.
      this.holding.set(target.name, reason);
      if (before === reason) return;
      this.options.log.warn({ executor: target.name, reason }, 'the number of pods is held');
    } else {
      this.holding.delete(target.name);
      if (before !== undefined) this.options.log.info({ executor: target.name }, 'the number of pods is decided again');
    }
    if (action === 'keep') return;
    const decision = { at: Date.now(), executor: target.name, action, from, to: desired, reason };
    this.decisions.unshift(decision);
    this.decisions.splice(DECISIONS_KEPT);
    this.options.onDecision?.(decision);
  }
}
