import type {
  ConversationStore,
  ConversationTools,
  RunRecord,
  RunUpdate,
  TerminalState,
  Written,
} from '@yardmaster/conversation';
import type { ConversationMessage, StartRun, TenantId } from '@yardmaster/contracts';
import { YardError } from '@yardmaster/contracts';
import type { RepairState } from '@yardmaster/tool-calls';
import type { Logger } from '@yardmaster/service-kit';
import type { RunEvents } from './run-events.js';

/** Why the work on a run was broken off from outside. */
export type StopReason = 'cancel' | 'lost' | 'shutdown' | 'deadline';

/** The loop's own notes in the run record: what a resumed run must know and nobody else needs. */
export interface LoopNotes {
  /** Rounds of repair so far. */
  repair?: RepairState;
  /** Signatures of the last rounds of calls, for the detection of loops. */
  rounds?: string[];
  /** Calls of the pending round that have their answer without being run. */
  answers?: Record<string, { output: string; reason: string }>;
  /** Feedback on calls that had no readable form, to follow the results of the pending round. */
  feedback?: string;
}

/** One conversation while this process owns it: its fence and sequence, its run's record, and the one way to write. */
export class RunSession {
  readonly tenant: TenantId;
  readonly conversation: string;
  readonly run: string;
  private readonly hard = new AbortController();
  private readonly soft = new AbortController();
  seq: number;
  record: RunRecord;
  notes: LoopNotes;
  /** What the conversation knew of its tools when it was taken, until something is written: then the store knows better. */
  knownTools: ConversationTools | undefined;
  private renewing: NodeJS.Timeout | undefined;

  constructor(
    private readonly store: ConversationStore,
    readonly log: Logger,
    readonly spec: StartRun,
    readonly fence: number,
    seq: number,
    record: RunRecord,
    readonly events: RunEvents,
    private readonly leaseMs: number,
    known: ConversationTools,
  ) {
    this.tenant = record.tenant;
    this.conversation = record.conversation;
    this.run = record.id;
    this.seq = seq;
    this.record = record;
    this.knownTools = known;
    this.notes = record.loopJson === undefined ? {} : (JSON.parse(record.loopJson) as LoopNotes);
  }

  get ref() {
    return { tenant: this.tenant, conversation: this.conversation, run: this.run };
  }

  /** Aborted when the run is cancelled, out of time, or somebody else's. */
  get signal(): AbortSignal {
    return this.hard.signal;
  }

  /** Aborted also when this process shuts down: a wait for tools can be taken up elsewhere, an answer being paid for not. */
  get waiting(): AbortSignal {
    return this.soft.signal;
  }

  get stopReason(): StopReason | undefined {
    if (this.hard.signal.aborted) return this.hard.signal.reason as StopReason;
    return this.soft.signal.aborted ? (this.soft.signal.reason as StopReason) : undefined;
  }

  /** Breaks off what is being waited for; the first reason stays. */
  interrupt(reason: StopReason): void {
    if (reason !== 'shutdown' && !this.hard.signal.aborted) this.hard.abort(reason);
    if (!this.soft.signal.aborted) this.soft.abort(reason);
  }

  /** Keeps the lease while the session lasts; losing it stops everything. */
  keepLease(): void {
    this.renewing = setInterval(() => {
      this.store.renew({ ...this.ref, fence: this.fence, leaseMs: this.leaseMs }).catch((error: unknown) => {
        if (YardError.is(error) && error.class === 'CONFLICT') {
          this.log.warn({ run: this.run }, 'this dispatcher lost the conversation to another one');
          this.interrupt('lost');
        }
      });
    }, this.leaseMs / 3);
    this.renewing.unref();
  }

  /** Writes items and record together; the only way in which this session changes anything. */
  async append(items: ConversationMessage[], update: RunUpdate): Promise<void> {
    this.knownTools = undefined;
    const loopJson = JSON.stringify(this.notes);
    this.seq = await this.store.append({
      ...this.ref,
      fence: this.fence,
      expectedSeq: this.seq,
      items,
      record: { ...update, loopJson, lastEvent: this.events.lastN },
    });
    this.record = { ...this.record, ...update, loopJson, attempts: 0 };
  }

  /** Writes the last items and the terminal state, and gives the conversation to the run that waits for it. */
  async finish(items: ConversationMessage[], update: RunUpdate & { state: TerminalState }): Promise<Written> {
    const written = await this.store.finish({
      ...this.ref,
      fence: this.fence,
      expectedSeq: this.seq,
      items,
      record: update,
    });
    clearInterval(this.renewing);
    this.seq = written.seq;
    this.record = { ...this.record, ...update, state: written.state };
    return written;
  }

  /** Writes items and record, and gives the lease back: nobody waits for a parked run. */
  async park(update: RunUpdate): Promise<void> {
    await this.store.append({
      ...this.ref,
      fence: this.fence,
      expectedSeq: this.seq,
      items: [],
      record: { ...update, loopJson: JSON.stringify(this.notes), lastEvent: this.events.lastN },
      release: true,
    });
    clearInterval(this.renewing);
  }

  /** Ends the ownership without ending the run; safe when it was lost already. */
  async release(handBack: boolean): Promise<void> {
    clearInterval(this.renewing);
    // Before the next owner reads them; when they cannot be stored, it says them itself.
    await this.events.flush().catch(() => undefined);
    await this.store.release({ ...this.ref, fence: this.fence, handBack }).catch((error: unknown) => {
      if (!YardError.is(error) || error.class !== 'CONFLICT')
        this.log.warn({ run: this.run, err: error }, 'the lease could not be given back; it will expire');
    });
  }

  /** Stops renewing without giving the lease back (the store is gone, or somebody else owns it). */
  abandon(): void {
    clearInterval(this.renewing);
    this.events.stop();
  }
}
