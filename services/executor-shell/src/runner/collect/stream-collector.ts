import { ControlStripper } from './control-sequences.js';

/** What is kept of one stream, as UTF-8: its beginning, its end, and how many bytes of the command lie between. */
export interface Kept {
  head: Buffer;
  tail: Buffer;
  lost: number;
}

/**
 * Keeps the beginning and the end of one output stream in bounded memory (three times `capBytes` at most).
 * The beginning is decoded as it comes and handed on for streaming; behind it only raw bytes circle in a ring, so that
 * endless output costs a copy a byte and nothing else.
 */
export class StreamCollector {
  readonly #cap: number;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #stripper = new ControlStripper();
  #head: Buffer[] = [];
  #headBytes = 0;
  #ring: Buffer | undefined;
  #ringAt = 0;
  #ringTotal = 0;
  /** Bytes that the command wrote. */
  total = 0;

  readonly #everything: { decoder: InstanceType<typeof TextDecoder>; stripper: ControlStripper } | undefined;

  /** With `everything` the text behind the beginning is decoded too, for a log that keeps the newest. */
  constructor(capBytes: number, everything = false) {
    this.#cap = Math.max(1, capBytes);
    if (everything)
      this.#everything = { decoder: new TextDecoder('utf-8', { ignoreBOM: true }), stripper: new ControlStripper() };
  }

  /** Takes a chunk (copied where kept) and answers the clean text to stream on; empty once the beginning is full. */
  push(chunk: Uint8Array): string {
    this.total += chunk.length;
    const kept = this.#keep(chunk);
    if (this.#everything === undefined) return kept;
    return this.#everything.stripper.write(this.#everything.decoder.decode(chunk, { stream: true }));
  }

  #keep(chunk: Uint8Array): string {
    if (this.#headBytes < this.#cap) {
      const text = this.#stripper.write(this.#decoder.decode(chunk, { stream: true }));
      this.#append(text);
      return text;
    }
    this.#ring ??= Buffer.allocUnsafe(this.#cap);
    const part = chunk.length > this.#cap ? chunk.subarray(chunk.length - this.#cap) : chunk;
    const first = Math.min(part.length, this.#cap - this.#ringAt);
    this.#ring.set(part.subarray(0, first), this.#ringAt);
    if (first < part.length) this.#ring.set(part.subarray(first), 0);
    this.#ringAt = (this.#ringAt + part.length) % this.#cap;
    this.#ringTotal += chunk.length;
    return '';
  }

  /** True when bytes had to be dropped. */
  get overflowed(): boolean {
    return this.#ringTotal > this.#cap;
  }

  /** What is kept so far; `final` also flushes an unfinished character or sequence. */
  snapshot(final: boolean): Kept {
    const raw = this.#ringBytes();
    let tail = '';
    if (!this.overflowed) {
      if (final) {
        tail = this.#stripper.write(this.#decoder.decode(raw)) + this.#stripper.end();
        if (raw.length === 0 && this.#head.length === 0 && tail === '')
          return { head: Buffer.alloc(0), tail: Buffer.alloc(0), lost: 0 };
      } else tail = clean(raw);
      return { head: Buffer.concat(this.#head), tail: Buffer.from(tail), lost: 0 };
    }
    // The ring begins anywhere: start at a line, else at a character.
    const newline = raw.subarray(0, 4096).indexOf(10);
    let start = newline === -1 ? 0 : newline + 1;
    while (start < raw.length && start < 4 && newline === -1 && (raw[start]! & 0xc0) === 0x80) start++;
    tail = clean(raw.subarray(start));
    return { head: Buffer.concat(this.#head), tail: Buffer.from(tail), lost: this.#ringTotal - raw.length + start };
  }

  #append(text: string): void {
    if (text === '') return;
    const bytes = Buffer.from(text);
    this.#head.push(bytes);
    this.#headBytes += bytes.length;
    // Many tiny writes must not become many tiny buffers.
    if (this.#head.length > 256) this.#head = [Buffer.concat(this.#head)];
  }

  #ringBytes(): Buffer {
    if (this.#ring === undefined) return Buffer.alloc(0);
    if (!this.overflowed) return this.#ring.subarray(0, this.#ringTotal);
    return Buffer.concat([this.#ring.subarray(this.#ringAt), this.#ring.subarray(0, this.#ringAt)]);
  }
}

function clean(bytes: Buffer): string {
  const stripper = new ControlStripper();
  return stripper.write(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)) + stripper.end();
}

/** Both streams as text of at most `capBytes` together; the smaller one gives its unused share to the other. */
export function fitStreams(
  stdout: Kept,
  stderr: Kept,
  capBytes: number,
): { stdout: string; stderr: string; truncated: boolean } {
  const half = Math.floor(capBytes / 2);
  const out = stdout.head.length + stdout.tail.length;
  const err = stderr.head.length + stderr.tail.length;
  const outBudget = err <= half ? capBytes - err : out <= half ? out : half;
  const errBudget = err <= half ? err : capBytes - Math.min(out, outBudget);
  const a = cut(stdout, outBudget);
  const b = cut(stderr, errBudget);
  return { stdout: a.text, stderr: b.text, truncated: a.truncated || b.truncated };
}

const MARK_BYTES = 64;

function cut(kept: Kept, budget: number): { text: string; truncated: boolean } {
  const all = Buffer.concat([kept.head, kept.tail]);
  if (kept.lost === 0 && all.length <= budget) return { text: all.toString(), truncated: false };
  const room = budget - MARK_BYTES;
  if (room < MARK_BYTES)
    return { text: all.subarray(0, characterStart(all, Math.max(0, budget))).toString(), truncated: true };
  // The end of a failed command says more than its middle, its beginning says what it was.
  const headEnd = characterStart(all, Math.min(Math.floor(room / 2), kept.lost > 0 ? kept.head.length : all.length));
  let tailStart = characterStart(
    all,
    Math.max(all.length - (room - headEnd), kept.lost > 0 ? Math.max(headEnd, 0) : headEnd),
  );
  while (tailStart < all.length && (all[tailStart]! & 0xc0) === 0x80) tailStart++;
  if (tailStart < all.length - (room - headEnd)) tailStart = all.length - (room - headEnd);
  const missing = kept.lost + tailStart - headEnd;
  const mark = `\n[... ${missing} bytes left out ...]\n`;
  return { text: all.subarray(0, headEnd).toString() + mark + all.subarray(tailStart).toString(), truncated: true };
}

/** The nearest start of a character at or before `at`. */
function characterStart(bytes: Buffer, at: number): number {
  let index = Math.min(at, bytes.length);
  while (index > 0 && index < bytes.length && (bytes[index]! & 0xc0) === 0x80) index--;
  return index;
}
