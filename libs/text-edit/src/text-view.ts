import { collapseBlanks, fold } from './fold.js';
import { BUCKETS, countLetters } from './similarity.js';

/** Line end of one line. */
export type Eol = '' | '\n' | '\r\n';

const EOLS: readonly Eol[] = ['', '\n', '\r\n'];
const LF = 1;
const CRLF = 2;
/** Of the hashes: nobody can choose lines that all have the same. */
const SEED = Math.floor(Math.random() * 0x7fffffff);

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
  /** Line end of each line, by its place in `EOLS`. */
  private readonly eols: Uint8Array;
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
    const eols = new Uint8Array(count).fill(LF);
    let offset = this.bomLength;
    for (let i = 0; i < count; i++) {
      starts[i] = offset;
      const line = lines[i]!;
      offset += line.length + 1;
      if (this.hasCrlf && line.endsWith('\r') && offset <= content.length) {
        lines[i] = line.slice(0, -1);
        eols[i] = CRLF;
      }
    }
    if (count > 0 && offset > content.length) eols[count - 1] = 0;
    starts[count] = content.length;
    this.lines = lines;
    this.starts = starts;
    this.eols = eols;
    this.lf = this.hasCrlf ? body.replaceAll('\r\n', '\n') : body;
  }

  eolOf(line: number): Eol {
    return EOLS[this.eols[line]!]!;
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
        if (this.eols[i] === CRLF) crlf++;
        else if (this.eols[i] === LF) lf++;
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
      at += this.lines[i]!.length + (this.eols[i] === 0 ? 0 : 1);
    }
    starts[this.lines.length] = this.lf.length;
    return (this.lfStartsCache = starts);
  }
}

/** The non-blank lines of a text under one way of comparing, with an index from key to positions. */
export class LineSequence {
  /** Line number (zero-based) of each non-blank line. */
  readonly numbers: Uint32Array;
  readonly keys: readonly string[];
  readonly index: KeyIndex;
  private distinctCache: DistinctKeys | undefined;

  constructor(lines: readonly string[], keyOf: (line: string) => string) {
    const numbers = new Uint32Array(lines.length);
    const keys = new Array<string>(lines.length);
    let count = 0;
    for (let i = 0; i < lines.length; i++) {
      const key = keyOf(lines[i]!);
      if (key === '') continue;
      numbers[count] = i;
      keys[count++] = key;
    }
    keys.length = count;
    this.numbers = numbers.subarray(0, count);
    this.keys = keys;
    this.index = new KeyIndex(keys);
  }

  /** The different keys, shortest first, with what a quick comparison needs. */
  distinct(): DistinctKeys {
    return (this.distinctCache ??= new DistinctKeys(this.index));
  }
}

/**
 * Where each key stands among all keys. A hash table in typed arrays: a Map from text to a list costs several times the
 * memory of a line of code, and an edit is made of large files too.
 */
export class KeyIndex {
  private readonly keys: readonly string[];
  /** Number of a different key, plus one, by hash. */
  private readonly table: Uint32Array;
  /** First position of each different key. */
  private readonly firsts: Uint32Array;
  /** Positions by key, in order; those of key `i` begin at `starts[i]`. */
  private readonly positions: Uint32Array;
  private readonly starts: Uint32Array;
  /** How many different keys there are; they are numbered in the order of their first positions. */
  readonly size: number;

  constructor(keys: readonly string[]) {
    const count = keys.length;
    this.keys = keys;
    let capacity = 8;
    while (capacity < count * 2) capacity *= 2;
    this.table = new Uint32Array(capacity);
    const numberOf = new Uint32Array(count);
    const firsts = new Uint32Array(count);
    const counts = new Uint32Array(count + 1);
    let size = 0;
    for (let at = 0; at < count; at++) {
      const slot = this.slotOf(keys[at]!, firsts);
      if (this.table[slot] === 0) {
        firsts[size] = at;
        this.table[slot] = ++size;
      }
      const number = this.table[slot]! - 1;
      numberOf[at] = number;
      counts[number]!++;
    }
    this.size = size;
    this.firsts = firsts;
    // `counts` becomes the place behind each key's positions, then, as they are put in from the back, their start.
    for (let i = 1; i < size; i++) counts[i]! += counts[i - 1]!;
    counts[size] = count;
    this.positions = new Uint32Array(count);
    for (let at = count - 1; at >= 0; at--) this.positions[--counts[numberOf[at]!]!] = at;
    this.starts = counts;
  }

  /** Positions of a key, in order. */
  get(key: string): Uint32Array | undefined {
    const number = this.table[this.slotOf(key, this.firsts)]!;
    return number === 0 ? undefined : this.at(number - 1);
  }

  has(key: string): boolean {
    return this.table[this.slotOf(key, this.firsts)] !== 0;
  }

  /** The different key of a number. */
  key(number: number): string {
    return this.keys[this.firsts[number]!]!;
  }

  /** Positions of the different key of a number, in order. */
  at(number: number): Uint32Array {
    return this.positions.subarray(this.starts[number], this.starts[number + 1]);
  }

  /** Where the key is, or would be put, in the table. */
  private slotOf(key: string, firsts: Uint32Array): number {
    const mask = this.table.length - 1;
    let hash = SEED;
    for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
    hash ^= hash >>> 15;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const number = this.table[slot]!;
      if (number === 0 || this.keys[firsts[number - 1]!] === key) return slot;
    }
  }
}

/** The different keys of a sequence by length, with the counts of their letters in a few buckets. */
export class DistinctKeys {
  readonly count: number;
  private readonly index: KeyIndex;
  /** Numbers of the keys, shortest first. */
  private readonly order: Uint32Array;
  private readonly counts: Uint8Array;

  constructor(index: KeyIndex) {
    this.index = index;
    this.count = index.size;
    this.order = byLength(index);
    this.counts = new Uint8Array(this.count * BUCKETS);
    for (let i = 0; i < this.count; i++) countLetters(this.key(i), this.counts, i * BUCKETS);
  }

  key(place: number): string {
    return this.index.key(this.order[place]!);
  }

  /** Positions of a key in the sequence. */
  at(place: number): Uint32Array {
    return this.index.at(this.order[place]!);
  }

  /** Position of the first key with at least so many units. */
  from(length: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.key(middle).length < length) low = middle + 1;
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

/** Numbers of all keys, shortest first, equally long ones in their order. */
function byLength(index: KeyIndex): Uint32Array {
  let longest = 0;
  for (let i = 0; i < index.size; i++) longest = Math.max(longest, index.key(i).length);
  const starts = new Uint32Array(longest + 2);
  for (let i = 0; i < index.size; i++) starts[index.key(i).length + 1]!++;
  for (let i = 1; i < starts.length; i++) starts[i]! += starts[i - 1]!;
  const order = new Uint32Array(index.size);
  for (let i = 0; i < index.size; i++) order[starts[index.key(i).length]!++] = i;
  return order;
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
