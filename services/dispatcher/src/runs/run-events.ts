import { type Bus } from '@yardmaster/bus';
import {
  messages,
  type RunEvent,
  type StoredEventType,
  STREAMS,
  subjects,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';

export const TERMINAL_EVENTS: ReadonlySet<string> = new Set([
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.incomplete',
]);

/**
 * What only says how far a run is waits so long for what follows it, in milliseconds: a stored message costs its writer,
 * the server's disk and every reader the same, whatever it holds. A dispatcher that is killed meanwhile leaves it unsaid
 * (a resumed run says again that it started); so it may be nothing that a reader waits for, as for the end of a call.
 */
const HOLD_MS = 10;
const HELD: ReadonlySet<StoredEventType> = new Set(['run.started', 'step.started', 'usage']);

/** Most bytes of one message; NATS takes 1 MiB unless told otherwise. */
const MOST_BYTES = 900_000;

type EventInit = Pick<RunEvent, 'n' | 'runId' | 'type' | 'atMs' | 'dataJson'>;

/**
 * The numbered events of one run. Each is published with the expected last sequence of its subject, so two dispatchers
 * cannot both number them; they leave one after the other, off the path of the loop, and `flush` waits for the last.
 */
export class RunEvents {
  private readonly queue: EventInit[] = [];
  private writing: Promise<void> | undefined;
  private failure: unknown;
  private hold: NodeJS.Timeout | undefined;
  /** Something waits that is not to be held. */
  private due = false;
  private readonly subject: string;
  /** Keys of what was already published before this delivery of the run; empty unless it was resumed. */
  private readonly published: Set<string>;
  private terminal: boolean;

  private constructor(
    private readonly bus: Bus,
    tenant: TenantId,
    private readonly run: string,
    private n: number,
    private sequence: number,
    published: Set<string>,
    terminal: boolean,
  ) {
    this.subject = subjects.event(tenant, run);
    this.published = published;
    this.terminal = terminal;
  }

  /** For a run that nobody has worked on yet: its subject is empty, and the first publish proves it. */
  static fresh(bus: Bus, tenant: TenantId, run: string): RunEvents {
    return new RunEvents(bus, tenant, run, 0, 0, new Set(), false);
  }

  /** For a run that is taken up again: reads what is there, so that nothing is said twice. */
  static async resumed(bus: Bus, tenant: TenantId, run: string): Promise<RunEvents> {
    const published = new Set<string>();
    let n = 0;
    let sequence = 0;
    let terminal = false;
    for await (const { message, sequence: at } of bus.readSubject(
      STREAMS.events.name,
      subjects.event(tenant, run),
      messages.events,
    )) {
      sequence = at;
      for (const event of message.events) {
        n = Number(event.n);
        published.add(keyOf(event.type, JSON.parse(event.dataJson) as EventData));
        terminal ||= TERMINAL_EVENTS.has(event.type);
      }
    }
    return new RunEvents(bus, tenant, run, n, sequence, published, terminal);
  }

  get lastN(): number {
    return this.n;
  }

  get hasTerminal(): boolean {
    return this.terminal;
  }

  /** Publishes the event unless it was published before; `data` must be plain JSON. Errors surface at `flush`. */
  emit(type: StoredEventType, data: EventData): void {
    if (this.terminal) return;
    const key = keyOf(type, data);
    if (this.published.has(key)) return;
    this.published.add(key);
    if (TERMINAL_EVENTS.has(type)) this.terminal = true;
    this.queue.push({
      n: BigInt(++this.n),
      runId: this.run,
      type,
      atMs: BigInt(Date.now()),
      dataJson: JSON.stringify(data),
    });
    if (HELD.has(type)) this.hold ??= setTimeout(() => this.leave(), HOLD_MS);
    else this.leave();
  }

  /** Those that are emitted in one go leave in one message; so do those that come while a message is being stored. */
  private leave(): void {
    clearTimeout(this.hold);
    this.hold = undefined;
    this.due = true;
    this.writing ??= Promise.resolve().then(() => this.write());
  }

  private async write(): Promise<void> {
    try {
      while (this.due && this.queue.length > 0 && this.failure === undefined) {
        const events = this.queue.splice(0, this.fitting());
        this.due = this.queue.length > 0;
        const expected = { expectedLastSubjectSequence: this.sequence };
        this.sequence = await this.bus.append(this.subject, messages.events, { events }, expected);
      }
    } catch (error) {
      this.failure = error;
    } finally {
      this.writing = undefined;
    }
  }

  /** How many of the waiting events fit into one message. */
  private fitting(): number {
    let bytes = 0;
    const tooMany = this.queue.findIndex((event) => (bytes += event.dataJson.length * 3 + 200) > MOST_BYTES);
    return tooMany < 0 ? this.queue.length : Math.max(1, tooMany);
  }

  /** Resolves when everything emitted is stored. Throws what stopped it: CONFLICT means that another dispatcher writes. */
  async flush(): Promise<void> {
    if (this.queue.length > 0 && this.failure === undefined) this.leave();
    while (this.writing !== undefined) await this.writing;
    if (this.failure !== undefined) {
      const cause = YardError.from(this.failure);
      throw new YardError(cause.class, cause.code, `Events of run ${this.run} could not be stored: ${cause.message}`, {
        cause: this.failure,
      });
    }
  }

  /** Says nothing more: what is still held is somebody else's to say. */
  stop(): void {
    clearTimeout(this.hold);
    this.hold = undefined;
    this.due = false;
    this.queue.length = 0;
  }
}

export interface EventData {
  step?: number;
  call?: string;
  [key: string]: unknown;
}

/** One event of a type per step and call: that is what makes a resumed run say nothing twice. */
function keyOf(type: string, data: EventData): string {
  return `${type} ${data.step ?? ''} ${data.call ?? ''}`;
}
