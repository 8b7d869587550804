import type { WireEvent } from '@yardmaster/llm-wire';
import type { AttemptRecord, Frame } from './frame.js';

/** Turns the events of one attempt into frames, and knows what the reader has seen of it. */
export class AttemptFrames {
  /** Something of this attempt reached the reader. */
  shown = false;
  /** Text or a call did: from here on a failure is visible. */
  committed = false;
  private held: Frame[] = [];
  private readonly record: AttemptRecord;
  private readonly canRestart: boolean;

  /** `canRestart`: whether the reader understands `attempt_reset`. */
  constructor(record: AttemptRecord, canRestart: boolean) {
    this.record = record;
    this.canRestart = canRestart;
  }

  /** Frames of one batch; pieces of text that came together travel together. */
  of(events: readonly WireEvent[]): Frame[] {
    const out: Frame[] = [];
    for (const event of events) {
      if (event.type === 'text') {
        this.commit(out);
        append(out, { type: 'delta', text: event.text });
      } else if (event.type === 'call_start') {
        this.commit(out);
      } else if (event.type === 'reasoning') {
        this.reasoning(out, event.text);
      } else if (event.type === 'text_was_reasoning' && this.canRestart) {
        // Readers that cannot take text back keep what they saw.
        out.push({ type: 'attempt_reset', attempt: this.record.number, reason: 'text_was_reasoning' }, this.start());
        if (event.reasoning !== '') out.push({ type: 'reasoning', text: event.reasoning });
      }
    }
    return out;
  }

  /** What still has to be said before the end of an attempt that succeeded. */
  rest(): Frame[] {
    const out: Frame[] = [];
    this.commit(out);
    return out;
  }

  private reasoning(out: Frame[], text: string): void {
    // For readers that cannot start again it would end the invisible failover before there is any content.
    if (!this.committed && !this.canRestart) {
      this.held.push({ type: 'reasoning', text });
      return;
    }
    this.show(out);
    append(out, { type: 'reasoning', text });
  }

  private commit(out: Frame[]): void {
    if (this.committed) return;
    this.committed = true;
    this.show(out);
    out.push(...this.held);
    this.held = [];
  }

  private show(out: Frame[]): void {
    if (this.shown) return;
    this.shown = true;
    out.push(this.start());
  }

  private start(): Frame {
    const { number, provider, model, dialect, readWhole } = this.record;
    return { type: 'start', attempt: number, provider, model, dialect, ...(readWhole && { readWhole }) };
  }
}

function append(out: Frame[], frame: Frame & { type: 'delta' | 'reasoning' }): void {
  const last = out.at(-1);
  if (last?.type === frame.type && 'text' in last) out[out.length - 1] = { ...frame, text: last.text + frame.text };
  else out.push(frame);
}
