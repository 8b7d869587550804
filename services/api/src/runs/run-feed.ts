import { fromBinary } from '@bufbuild/protobuf';
import type { Bus } from '@yardmaster/bus';
import {
  type LiveEventType,
  messages,
  type RunEvent,
  type RunEvents,
  STREAMS,
  subjects,
  type TenantId,
  ToolOutputSchema,
} from '@yardmaster/contracts';
import type { Logger } from '@yardmaster/service-kit';

/** An event as callers see it; without `id` it is not stored and cannot be asked for again. */
export interface FeedEvent {
  id?: number;
  type: string;
  run_id: string;
  at: string;
  data: Record<string, unknown>;
}

export const TERMINAL_EVENTS: ReadonlySet<string> = new Set([
  'run.completed',
  'run.failed',
  'run.cancelled',
  'run.incomplete',
]);

/** Whoever reads a feed: told that stored events have come, and of each delta. */
export interface FeedReader {
  stored(): void;
  delta(event: FeedEvent): void;
}

/** Stored events that are kept in memory for readers; older ones are read from the stream again. */
const KEPT_BYTES = 2 * 1_048_576;
/** Text of the message being written that is kept for readers who come late. */
const KEPT_TEXT = 1_048_576;
/** A missed live message (a reconnect) is noticed by looking this often. */
const LOOK_MS = 5_000;

/**
 * The events of one run, for all of its readers in this process: one pair of subscriptions and one reading of the
 * stream, however many are connected. What is heard only wakes; what the stream holds counts, because a worker that
 * lost its conversation can still speak but not store.
 */
export class RunFeed {
  private readonly readers = new Set<FeedReader>();
  private readonly unsubscribe: (() => void)[];
  private readonly timer: NodeJS.Timeout;
  private kept: { event: FeedEvent; bytes: number }[] = [];
  private keptBytes = 0;
  private sequence = 0;
  private reading: Promise<void> | undefined;
  private again = false;
  private subscribed: Promise<void> | undefined;
  private text = '';
  private textFrom = 0;
  private step: unknown;
  last = 0;
  terminal: FeedEvent | undefined;

  constructor(
    private readonly bus: Bus,
    private readonly logger: Logger,
    readonly tenant: TenantId,
    readonly run: string,
  ) {
    // Subscribed before the first reading: what comes in between is read twice and counted once.
    this.unsubscribe = [
      bus.hearRaw(subjects.event(tenant, run), () => this.wake()),
      bus.hearRaw(subjects.delta(tenant, run), (message) => this.hearDelta(message.data)),
    ];
    this.timer = setInterval(() => this.wake(), LOOK_MS);
    this.timer.unref();
  }

  /** Resolves when everything that is stored now has been read. */
  async ready(): Promise<void> {
    await (this.subscribed ??= this.bus.flush());
    await this.catchUp();
  }

  close(): void {
    clearInterval(this.timer);
    for (const unsubscribe of this.unsubscribe) unsubscribe();
  }

  get idle(): boolean {
    return this.readers.size === 0;
  }

  add(reader: FeedReader): () => void {
    this.readers.add(reader);
    return () => this.readers.delete(reader);
  }

  /** Up to `limit` stored events after number `after`, in order; from memory when they are there. */
  async read(after: number, limit: number): Promise<FeedEvent[]> {
    const first = this.kept[0]?.event.id;
    if (first !== undefined && after >= first - 1)
      return this.kept.slice(after - first + 1, after - first + 1 + limit).map(({ event }) => event);
    const found: FeedEvent[] = [];
    for await (const { message } of this.stored())
      for (const event of message.events)
        if (Number(event.n) > after && found.push(toFeedEvent(event)) === limit) return found;
    return found;
  }

  /** Events kept in memory after number `after`; undefined when some are not. */
  next(after: number): FeedEvent | undefined {
    const first = this.kept[0]?.event.id;
    return first === undefined || after < first - 1 ? undefined : this.kept[after - first + 1]?.event;
  }

  /** What has been written of the message that is not completed yet, for a reader who comes in the middle of it. */
  partial(): FeedEvent | undefined {
    if (this.text === '') return undefined;
    const data = { step: this.step, offset: this.textFrom, text: this.text };
    return live('message.partial', this.run, data);
  }

  private stored(fromSequence?: number) {
    return this.bus.readSubject(STREAMS.events.name, subjects.event(this.tenant, this.run), messages.events, {
      fromSequence,
    });
  }

  private wake(): void {
    if (this.terminal !== undefined) return;
    this.catchUp().catch((error: unknown) =>
      this.logger.warn({ run: this.run, err: error }, 'events of a run cannot be read; trying again'),
    );
  }

  /** Reads what is new. One reading at a time; what comes meanwhile causes another one. */
  private catchUp(): Promise<void> {
    if (this.reading !== undefined) {
      this.again = true;
      return this.reading;
    }
    this.reading = (async () => {
      try {
        do {
          this.again = false;
          await this.readNew();
        } while (this.again && this.terminal === undefined);
      } finally {
        this.reading = undefined;
      }
    })();
    return this.reading;
  }

  private async readNew(): Promise<void> {
    const before = this.last;
    // The last message alone costs a tenth of a reading, and mostly it is the only new one.
    const newest = await this.bus.getStored(
      STREAMS.events.name,
      subjects.event(this.tenant, this.run),
      messages.events,
    );
    if (newest === undefined || Number(newest.message.events.at(-1)?.n ?? 0) <= this.last) return;
    if (Number(newest.message.events[0]!.n) <= this.last + 1) this.keepAll(newest.message, newest.sequence);
    else for await (const { message, sequence } of this.stored(this.sequence + 1)) this.keepAll(message, sequence);
    if (this.last > before) for (const reader of this.readers) reader.stored();
  }

  private keepAll({ events }: RunEvents, sequence: number): void {
    for (const event of events) if (Number(event.n) > this.last) this.keep(event);
    this.sequence = sequence;
  }

  private keep(message: RunEvent): void {
    const event = toFeedEvent(message);
    const bytes = message.dataJson.length + 100;
    this.last = Number(message.n);
    this.kept.push({ event, bytes });
    this.keptBytes += bytes;
    while (this.keptBytes > KEPT_BYTES && this.kept.length > 1) this.keptBytes -= this.kept.shift()!.bytes;
    // The text of a later step may have been heard before this was read.
    if (event.type === 'message.completed' && event.data['step'] === this.step) this.text = '';
    if (TERMINAL_EVENTS.has(event.type)) this.terminal = event;
  }

  private hearDelta(bytes: Uint8Array): void {
    const event = decodeDelta(this.run, bytes);
    if (event === undefined) return;
    if (event.type === 'message.delta') this.collect(event.data);
    for (const reader of this.readers) reader.delta(event);
  }

  private collect({ step, offset, text, reset }: Record<string, unknown>): void {
    if (step !== this.step || reset === true) {
      this.step = step;
      this.text = '';
      this.textFrom = typeof offset === 'number' ? offset : 0;
    }
    if (typeof text !== 'string') return;
    if (this.text === '') this.textFrom = typeof offset === 'number' ? offset : 0;
    if (this.text.length < KEPT_TEXT) this.text += text;
  }
}

function toFeedEvent(message: RunEvent): FeedEvent {
  return {
    ...(message.n > 0n && { id: Number(message.n) }),
    type: message.type,
    run_id: message.runId,
    at: new Date(Number(message.atMs)).toISOString(),
    data: message.dataJson === '' ? {} : (JSON.parse(message.dataJson) as Record<string, unknown>),
  };
}

const live = (type: LiveEventType, run: string, data: FeedEvent['data']): FeedEvent => ({
  type,
  run_id: run,
  at: new Date().toISOString(),
  data,
});

/** Field 1 of `ToolOutput` is text, of `RunEvent` a number: the first byte tells which of the two it is. */
const TOOL_OUTPUT_TAG = 0x0a;

function decodeDelta(run: string, bytes: Uint8Array): FeedEvent | undefined {
  try {
    if (bytes[0] !== TOOL_OUTPUT_TAG) return toFeedEvent(fromBinary(messages.event, bytes));
    const { callId, stream, text, offset } = fromBinary(ToolOutputSchema, bytes);
    const data = { call: callId, stream, text, offset: Number(offset) };
    return live('tool.output', run, data);
  } catch {
    return undefined; // a delta that cannot be read is a delta that was lost
  }
}
