import { collapseBlanks, fold } from './fold.js';
import { BUCKETS, countLetters } from './similarity.js';

/** Line end of one line. */
export type Eol = '' | '\n' | '\r\n';

/**
 * A text as lines, with the place of every line in the original: edits are spliced into the original by offset, never
 * re-joined from lines, so what stands outside an edit cannot change. Offsets are UTF-16 units and count a leading BOM.
 */
export class TextView {
  readonly content: string;
  /** Line contents without line ends. */
  readonly lines: string[];
  /** Offset of the first unit of each line; one more entry for the end of the text. */
  readonly starts: Int32Array;
  readonly eols: Eol[];
  /** The text with LF line ends, without BOM. */
  readonly lf: string;
  readonly bomLength: number;
  private readonly hasCrlf: boolean;
  private lfStartsCache: Int32Array | undefined;
  private rawCache: LineSequence | undefined;
  private foldedCache: LineSequence | undefined;

  constructor(content: string) {
    this.content = content;
    this.bomLength = content.charCodeAt(0) === 0xfeff ? 1 : 0;
    const body = this.bomLength ? content.slice(1) : content;
    this.hasCrlf = body.includes('\r\n');
    const lines = body.split('\n');
    if (lines.at(-1) === '') lines.pop();
    const count = lines.length;
    const starts = new Int32Array(count + 1);
    const eols = new Array<Eol>(count).fill('\n');
    let offset = this.bomLength;
    for (let i = 0; i < count; i++) {
      starts[i] = offset;
      const line = lines[i]!;
      offset += line.length + 1;
      if (this.hasCrlf && line.endsWith('\r') && offset <= content.length) {
        lines[i] = line.slice(0, -1);
        eols[i] = '\r\n';
      }
    }
    if (count > 0 && offset > content.length) eols[count - 1] = '';
    starts[count] = content.length;
    this.lines = lines;
    this.starts = starts;
    this.eols = eols;
    this.lf = this.hasCrlf ? body.replaceAll('\r\n', '\n') : body;
  }

  /** Offset just behind the last unit of a line, its line end excluded. */
  endOf(line: number): number {
    return this.starts[line]! + this.lines[line]!.length;
  }

  /** Offset in the original for an offset in `lf`. */
  rawOffset(lfOffset: number): number {
    if (!this.hasCrlf) return lfOffset + this.bomLength;
    if (lfOffset >= this.lf.length) return this.content.length;
    const line = this.lineOfLf(lfOffset);
    return this.starts[line]! + (lfOffset - this.lfStarts()[line]!);
  }

  /** Zero-based line that holds an offset of the original. */
  lineAt(offset: number): number {
    return lastNotAbove(this.starts, this.lines.length, offset);
  }

  /** Zero-based line that holds an offset of `lf`. */
  lineOfLf(lfOffset: number): number {
    return this.hasCrlf
      ? lastNotAbove(this.lfStarts(), this.lines.length, lfOffset)
      : this.lineAt(lfOffset + this.bomLength);
  }

  /** The line end that most lines of a range have; of the whole text when the range has none. */
  commonEol(from: number, to: number): Eol {
    const count = (a: number, b: number) => {
      let crlf = 0;
      let lf = 0;
      for (let i = a; i < b; i++) {
        if (this.eols[i] === '\r\n') crlf++;
        else if (this.eols[i] === '\n') lf++;
      }
      return crlf - lf || (lf > 0 ? 0 : undefined);
    };
    if (!this.hasCrlf) return '\n';
    const near = count(from, to);
    const lead = near === undefined || near === 0 ? count(0, this.lines.length) : near;
    return lead !== undefined && lead > 0 ? '\r\n' : '\n';
  }

  /** The lines that are not blank, compared by their text without indentation and with runs of blanks as one. */
  raw(): LineSequence {
    return (this.rawCache ??= new LineSequence(this.lines, collapseBlanks));
  }

  /** As `raw`, with Unicode forms, quotes and dashes folded as well. */
  folded(): LineSequence {
    if (this.foldedCache) return this.foldedCache;
    const plain = !/[^\x00-\x7f]/.test(this.content);
    return (this.foldedCache = plain ? this.raw() : new LineSequence(this.lines, (line) => collapseBlanks(fold(line))));
  }

  private lfStarts(): Int32Array {
    if (this.lfStartsCache) return this.lfStartsCache;
    const starts = new Int32Array(this.lines.length + 1);
    for (let i = 0, at = 0; i < this.lines.length; i++) {
      starts[i] = at;
      at += this.lines[i]!.length + (this.eols[i] === '' ? 0 : 1);
    }
    starts[this.lines.length] = this.lf.length;
    return (this.lfStartsCache = starts);
  }
}

/** The non-blank lines of a text under one way of comparing, with an index from key to positions. */
export class LineSequence {
  /** Line number (zero-based) of each non-blank line. */
  readonly numbers: number[] = [];
  readonly keys: string[] = [];
  readonly index = new Map<string, number[]>();
  private distinctCache: DistinctKeys | undefined;

  constructor(lines: readonly string[], keyOf: (line: string) => string) {
    for (let i = 0; i < lines.length; i++) {
      const key = keyOf(lines[i]!);
      if (key === '') continue;
      const at = this.keys.length;
      this.numbers.push(i);
      this.keys.push(key);
      const known = this.index.get(key);
      if (known) known.push(at);
      else this.index.set(key, [at]);
    }
  }

  /** The different keys, shortest first, with what a quick comparison needs. */
  distinct(): DistinctKeys {
    return (this.distinctCache ??= new DistinctKeys(this.index));
  }
}

/** The different keys of a sequence by length, with the counts of their letters in a few buckets. */
export class DistinctKeys {
  readonly keys: string[];
  readonly at: number[][];
  private readonly counts: Uint8Array;

  constructor(index: ReadonlyMap<string, number[]>) {
    this.keys = [...index.keys()].sort((a, b) => a.length - b.length);
    this.at = this.keys.map((key) => index.get(key)!);
    this.counts = new Uint8Array(this.keys.length * BUCKETS);
    this.keys.forEach((key, i) => countLetters(key, this.counts, i * BUCKETS));
  }

  /** Position of the first key with at least so many units. */
  from(length: number): number {
    let low = 0;
    let high = this.keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.keys[middle]!.length < length) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Whether a key can be within a Levenshtein distance of the text with these letter counts. */
  canBeWithin(letters: Uint8Array, key: number, distance: number): boolean {
    const { counts } = this;
    let more = 0;
    let less = 0;
    for (let i = 0, at = key * BUCKETS; i < BUCKETS; i++, at++) {
      const difference = letters[i]! - counts[at]!;
      if (difference > 0) {
        if ((more += difference) > distance) return false;
      } else if ((less -= difference) > distance) return false;
    }
    return true;
  }
}

function lastNotAbove(starts: Int32Array, count: number, offset: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle]! <= offset) low = middle;
    else high = middle - 1;
  }
  return Math.min(low, Math.max(0, count - 1));
}
