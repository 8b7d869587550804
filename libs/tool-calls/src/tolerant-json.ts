import { isDeepStrictEqual } from 'node:util';
import { MAX_DEPTH, isBlank } from './json-scan.js';

export type JsonReading =
  | { status: 'ok'; value: unknown; end: number; literals: Map<string, string>; repairs: string[] }
  | { status: 'cut'; at: number }
  /**
   * `seen` is the furthest place that was looked at. `end`: the value could be followed to its end although it cannot
   * be used (an invalid escape inside a string).
   */
  | { status: 'bad'; at: number; seen: number; message: string; end?: number };

/** How close to the end of the known text a failure may be and still turn out to be something else. */
const LOOK_AHEAD = 64;

/** Whether a failed reading could end otherwise if more text came. */
export function mayStillChange(reading: JsonReading & { status: 'bad' }, text: string): boolean {
  return reading.seen > text.length - LOOK_AHEAD;
}

const BAD_ESCAPE = 'invalid escape in a string';
const CLOSING_QUOTES: Record<string, string> = {
  '"': '"',
  "'": "'",
  '\u201c': '\u201d',
  '\u201d': '\u201d',
  '\u201e': '\u201d',
  '\u2018': '\u2019',
  '\u2019': '\u2019',
};
const ESCAPES: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\', '/': '/' };
const LITERALS: Record<string, unknown> = {
  true: true,
  false: false,
  null: null,
  True: true,
  False: false,
  None: null,
};
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORD = /[A-Za-z_$][\w$-]*/y;
const STRING_RUN: Record<string, RegExp> = {
  '"': /[^"\\]+/y,
  "'": /[^'\\]+/y,
  '\u201d': /[^\u201d\\]+/y,
  '\u2019': /[^\u2019\\]+/y,
};

/** Thrown and caught in this file only; no stack, since hostile answers fail by the thousand. */
class Stop {
  constructor(
    readonly status: 'cut' | 'bad',
    readonly at: number,
    readonly message: string,
  ) {}
}

/**
 * Reads one JSON value at `start`, forgiving only slips that have exactly one meaning: trailing commas, comments,
 * single or typographic quotes, bare keys, Python literals, raw control characters in strings, a key given twice with
 * the same value. `closes(at)` says
 * whether an explicit close tag stands there: one missing closing brace is forgiven before it. A value that the text
 * ends in is never completed.
 */
export function readTolerant(text: string, start: number, closes?: (at: number) => boolean): JsonReading {
  const reader = new TolerantReader(text, start, closes);
  try {
    const value = reader.value(0);
    if (reader.unusable) return { status: 'bad', ...reader.unusable, seen: reader.at, end: reader.at };
    const literals = reader.oddNumbers ? literalsOf(value, reader.numbers) : new Map<string, string>();
    if (typeof value === 'number' && reader.lastNumber !== undefined) literals.set('', reader.lastNumber);
    return { status: 'ok', value, end: reader.at, literals, repairs: [...reader.repairs] };
  } catch (stop) {
    if (!(stop instanceof Stop)) throw stop;
    if (stop.status === 'cut') return { status: 'cut', at: stop.at };
    const { at, message } = stop;
    if (reader.unusable) return { status: 'bad', ...reader.unusable, seen: at };
    return { status: 'bad', at, seen: at, message };
  }
}

class TolerantReader {
  at: number;
  /** The first thing that makes the value unusable although it can be followed to its end. */
  unusable: { at: number; message: string } | undefined;
  oddNumbers = false;
  readonly repairs = new Set<string>();
  /** Source texts of numbers, by the object or list that holds them. */
  readonly numbers = new Map<object, Map<string, string>>();
  /** The source text of the number read last, if JavaScript writes it differently. */
  lastNumber: string | undefined;

  constructor(
    private readonly text: string,
    start: number,
    private readonly closes: ((at: number) => boolean) | undefined,
  ) {
    this.at = start;
  }

  value(depth: number): unknown {
    this.blank();
    this.lastNumber = undefined;
    const char = this.text[this.at];
    if (char === undefined) throw this.cut();
    if (char === '{') return this.object(depth);
    if (char === '[') return this.list(depth);
    if (char in CLOSING_QUOTES) return this.string(char);
    if (char === '-' || (char >= '0' && char <= '9')) return this.number();
    return this.literal();
  }

  private object(depth: number): Record<string, unknown> {
    if (depth >= MAX_DEPTH) throw this.bad(`nested more than ${MAX_DEPTH} levels deep`);
    this.at++;
    const object: Record<string, unknown> = {};
    for (;;) {
      this.blank();
      const char = this.text[this.at];
      if (char === undefined) throw this.cut();
      if (char === '}') {
        this.at++;
        return object;
      }
      const keyAt = this.at;
      const key = this.key(char);
      this.blank();
      if (this.at >= this.text.length) throw this.cut();
      if (this.text[this.at] !== ':') throw this.bad("expected ':' after a key");
      this.at++;
      const value = this.value(depth + 1);
      if (!isForbidden(key, value)) {
        if (Object.hasOwn(object, key) && !this.isSame(object, key, value)) {
          this.unusable ??= { at: keyAt, message: 'a key is given twice, with different values' };
        }
        this.keepNumber(object, key);
        object[key] = value;
      }
      this.blank();
      const next = this.text[this.at];
      if (next === undefined) throw this.cut();
      if (next === ',') {
        this.at++;
        this.blank();
        if (this.text[this.at] === '}') this.repairs.add('trailing_comma');
      } else if (next !== '}') {
        if (depth === 0 && next === '<' && this.closes?.(this.at)) {
          this.repairs.add('missing_brace');
          return object;
        }
        throw this.bad("expected ',' or '}'");
      }
    }
  }

  private list(depth: number): unknown[] {
    if (depth >= MAX_DEPTH) throw this.bad(`nested more than ${MAX_DEPTH} levels deep`);
    this.at++;
    const list: unknown[] = [];
    for (;;) {
      this.blank();
      const char = this.text[this.at];
      if (char === undefined) throw this.cut();
      if (char === ']') {
        this.at++;
        return list;
      }
      const value = this.value(depth + 1);
      this.keepNumber(list, String(list.length));
      list.push(value);
      this.blank();
      const next = this.text[this.at];
      if (next === undefined) throw this.cut();
      if (next === ',') {
        this.at++;
        this.blank();
        if (this.text[this.at] === ']') this.repairs.add('trailing_comma');
      } else if (next !== ']') throw this.bad("expected ',' or ']'");
    }
  }

  private key(char: string): string {
    if (char in CLOSING_QUOTES) return this.string(char);
    WORD.lastIndex = this.at;
    const word = WORD.exec(this.text)?.[0];
    if (word === undefined) throw this.bad('expected a key');
    this.at += word.length;
    this.repairs.add('bare_key');
    return word;
  }

  private string(open: string): string {
    const close = CLOSING_QUOTES[open]!;
    if (open !== '"') this.repairs.add(open === "'" ? 'single_quotes' : 'typographic_quotes');
    const run = STRING_RUN[close]!;
    let result = '';
    this.at++;
    for (;;) {
      run.lastIndex = this.at;
      const plain = run.exec(this.text)?.[0];
      if (plain !== undefined) {
        result += plain;
        this.at += plain.length;
      }
      const char = this.text[this.at];
      if (char === undefined) throw this.cut();
      if (char === close) {
        this.at++;
        return result;
      }
      result += this.escape(open);
    }
  }

  private escape(open: string): string {
    const char = this.text[this.at + 1];
    if (char === undefined) throw this.cut();
    const plain = ESCAPES[char] ?? (open === "'" && char === "'" ? "'" : undefined);
    if (plain !== undefined) {
      this.at += 2;
      return plain;
    }
    if (char === 'u') {
      const hex = this.text.slice(this.at + 2, this.at + 6);
      if (/^[0-9a-fA-F]{4}$/.test(hex)) {
        this.at += 6;
        return String.fromCharCode(Number.parseInt(hex, 16));
      }
      if (this.at + 6 > this.text.length && /^[0-9a-fA-F]*$/.test(hex)) throw this.cut();
    }
    // Reading goes on to find where the value ends; nothing of it is used.
    this.unusable ??= { at: this.at, message: BAD_ESCAPE };
    this.at += 2;
    return '';
  }

  private number(): number {
    NUMBER.lastIndex = this.at;
    const literal = NUMBER.exec(this.text)?.[0];
    if (literal === undefined) {
      if (this.at + 1 >= this.text.length) throw this.cut();
      throw this.bad('not a number');
    }
    const after = this.text[this.at + literal.length];
    if (after === undefined) throw this.cut();
    if (/[\w.$+-]/.test(after)) throw this.bad('not a JSON number');
    this.at += literal.length;
    const value = Number(literal);
    if (!Number.isFinite(value)) {
      this.at -= literal.length;
      throw this.bad('a number out of range');
    }
    this.lastNumber = String(value) === literal ? undefined : literal;
    return value;
  }

  private literal(): unknown {
    WORD.lastIndex = this.at;
    const word = WORD.exec(this.text)?.[0];
    if (word === undefined) throw this.bad('expected a value');
    if (this.at + word.length >= this.text.length) throw this.cut();
    if (!Object.hasOwn(LITERALS, word)) throw this.bad('not a JSON value');
    if (/^[TFN]/.test(word)) this.repairs.add('python_literal');
    this.at += word.length;
    return LITERALS[word];
  }

  /** Whether a repeated key says the same again; numbers that JavaScript cannot keep only in the same digits. */
  private isSame(object: Record<string, unknown>, key: string, value: unknown): boolean {
    if (typeof value === 'object' && value !== null && this.oddNumbers) return false;
    return isDeepStrictEqual(object[key], value) && this.numbers.get(object)?.get(key) === this.lastNumber;
  }

  private keepNumber(holder: object, key: string): void {
    if (this.lastNumber === undefined) {
      // A repeated key takes the place of an earlier one, its literal too.
      this.numbers.get(holder)?.delete(key);
      return;
    }
    this.oddNumbers = true;
    let known = this.numbers.get(holder);
    if (!known) this.numbers.set(holder, (known = new Map<string, string>()));
    known.set(key, this.lastNumber);
    this.lastNumber = undefined;
  }

  private blank(): void {
    for (;;) {
      while (this.at < this.text.length && isBlank(this.text.charCodeAt(this.at))) this.at++;
      if (this.text.charCodeAt(this.at) !== 0x2f) return;
      const kind = this.text[this.at + 1];
      if (kind === undefined) throw this.cut();
      if (kind !== '/' && kind !== '*') return;
      const end = kind === '/' ? this.text.indexOf('\n', this.at + 2) : this.text.indexOf('*/', this.at + 2);
      if (end < 0) throw this.cut();
      this.at = kind === '/' ? end + 1 : end + 2;
      this.repairs.add('comment');
    }
  }

  private cut(): Stop {
    return new Stop('cut', this.text.length, 'ends before the value is complete');
  }

  private bad(message: string): Stop {
    return new Stop('bad', this.at, message);
  }
}

/** Keys that could reach a prototype; they are dropped, whatever they hold. */
export function isForbidden(key: string, value: unknown): boolean {
  if (key === '__proto__') return true;
  return key === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype');
}

function literalsOf(root: unknown, numbers: Map<object, Map<string, string>>): Map<string, string> {
  const literals = new Map<string, string>();
  const visit = (at: unknown, pointer: string): void => {
    if (typeof at !== 'object' || at === null) return;
    for (const [key, literal] of numbers.get(at) ?? []) literals.set(`${pointer}/${escapePointer(key)}`, literal);
    for (const [key, child] of Object.entries(at)) visit(child, `${pointer}/${escapePointer(key)}`);
  };
  visit(root, '');
  return literals;
}

function escapePointer(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}
