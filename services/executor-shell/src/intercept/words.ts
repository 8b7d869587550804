import { type Assign, type Change, type Piece, type Tree, type Words } from './syntax.js';

/** Stands for text that is known only when the command runs. */
export const UNKNOWN = '\uE000';

/** Longest text that is followed; `x=$x$x` must not grow without an end. */
const MOST_TEXT = 256 * 1024;

/** Where a substituted text came from. */
export type Taint = 'download' | 'decode';

/** Variables and positional parameters of one shell. */
export interface Variables {
  values: Map<string, string | string[]>;
  positional: string[] | null;
  /** Variables whose text was downloaded or decoded. */
  taints: Map<string, Set<Taint>>;
}

export interface Resolved {
  text: string;
  quoted: boolean;
  taints: Set<Taint>;
  /** What a process substitution would print, where that is known. */
  content?: string;
}

/** What a substitution prints, as far as it can be told without running it. */
export type Substitute = (script: Tree) => { text: string | null; taints: Iterable<Taint> };

/** Turns words into the fields that the shell would make of them. */
export class WordResolver {
  readonly #variables: Variables;
  readonly #substitute: Substitute;

  constructor(variables: Variables, substitute: Substitute) {
    this.#variables = variables;
    this.#substitute = substitute;
  }

  fields(words: readonly (Words | Assign)[]): Resolved[] {
    const out: Resolved[] = [];
    for (const word of words) {
      if (!Array.isArray(word))
        out.push({ text: `${word.name}=${this.#assigned(word)}`, quoted: true, taints: new Set() });
      else for (const pieces of word) out.push(...this.split(pieces));
    }
    return out;
  }

  /** One word, unsplit. */
  text(pieces: readonly Piece[]): Resolved {
    const fields = this.split(
      pieces.map((piece) => ('quoted' in piece && piece.kind !== 'text' ? { ...piece, quoted: true } : piece)),
    );
    const taints = new Set(fields.flatMap((field) => [...field.taints]));
    return { text: fields.map((field) => field.text).join(' '), quoted: fields.some((field) => field.quoted), taints };
  }

  /** The fields of one word. */
  split(pieces: readonly Piece[]): Resolved[] {
    const done: Resolved[] = [];
    let now: Resolved | null = null;
    const add = (text: string, quoted: boolean, taints: Iterable<Taint> = []): void => {
      now ??= { text: '', quoted: false, taints: new Set() };
      if (now.text.length < MOST_TEXT) now.text += text;
      now.quoted ||= quoted;
      for (const taint of taints) now.taints.add(taint);
    };
    const end = (): void => {
      if (now !== null) done.push(now);
      now = null;
    };
    const addSplit = (text: string, taints: Iterable<Taint>): void => {
      const list = [...taints];
      const chunks = text.split(this.#separators());
      for (const [index, chunk] of chunks.entries()) {
        if (index % 2 === 1) end();
        else if (chunk !== '') add(chunk, false, list);
      }
    };
    for (const piece of pieces) {
      switch (piece.kind) {
        case 'text':
          add(piece.value, piece.quoted);
          break;
        case 'glob':
          add(piece.value, false);
          break;
        case 'unknown':
          add(UNKNOWN, false);
          break;
        case 'process': {
          const { text, taints } = this.#substitute(piece.script);
          add(UNKNOWN, false, taints);
          if (text !== null) now!.content = text;
          break;
        }
        case 'substitution': {
          const { text, taints } = this.#substitute(piece.script);
          const value = text === null ? UNKNOWN : text.replace(/\n+$/, '');
          if (piece.quoted) add(value, true, taints);
          else addSplit(value, taints);
          break;
        }
        case 'variable': {
          const value = this.#changed(this.#value(piece.name), piece.change);
          const taints = this.#variables.taints.get(piece.name.replace(/\[.*/, '')) ?? [];
          if (Array.isArray(value)) {
            value.forEach((item, index) => {
              if (index > 0) end();
              if (piece.quoted) add(item, true, taints);
              else addSplit(item, taints);
            });
          } else if (piece.quoted) add(value, true, taints);
          else addSplit(value, taints);
          break;
        }
      }
    }
    end();
    return done;
  }

  /** Blanks, and what IFS was set to. */
  #separators(): RegExp {
    const ifs = this.#variables.values.get('IFS');
    const extra = typeof ifs === 'string' && !ifs.includes(UNKNOWN) ? ifs.replace(/[\\\]^-]/g, '\\$&') : '';
    return new RegExp(`([ \\t\\n${extra}]+)`);
  }

  #assigned(assign: Assign): string {
    const value = assign.value;
    if (value.length > 0 && Array.isArray(value[0]))
      return (value as Piece[][]).map((item) => this.text(item).text).join(' ');
    return this.text(value as Piece[]).text;
  }

  #value(name: string): string | string[] {
    const { values, positional } = this.#variables;
    if (name === '@' || name === '*') return positional ?? UNKNOWN;
    if (/^\d+$/.test(name))
      return name === '0' ? '$0' : positional === null ? UNKNOWN : (positional[Number(name) - 1] ?? '');
    const array = /^(\w+)\[(@|\d+)\]$/.exec(name);
    if (array !== null) {
      const value = values.get(array[1]!);
      if (array[2] === '@') return value ?? UNKNOWN;
      return Array.isArray(value) ? (value[Number(array[2])] ?? '') : UNKNOWN;
    }
    const value = values.get(name);
    if (Array.isArray(value)) return value[0] ?? '';
    return value ?? UNKNOWN;
  }

  #changed(value: string | string[], change: Change | null): string | string[] {
    if (change === null || Array.isArray(value)) return value;
    const known = !value.includes(UNKNOWN);
    switch (change.kind) {
      case 'default': {
        const operand = this.text(change.operand).text;
        if (change.operator.endsWith('+')) return known && value !== '' ? operand : UNKNOWN;
        // Unset as far as we can see: the default is what would be taken.
        if (value === UNKNOWN || value === '') return change.operator.endsWith('?') ? UNKNOWN : operand;
        return value;
      }
      case 'slice': {
        const offset = Number(change.offset.trim());
        const length = change.length === null ? null : Number(change.length.trim());
        if (!known || !Number.isInteger(offset) || (length !== null && !Number.isInteger(length))) return UNKNOWN;
        const start = offset < 0 ? value.length + offset : offset;
        const end = length === null ? value.length : length < 0 ? value.length + length : start + length;
        return value.slice(start, end);
      }
      case 'case': {
        if (!known) return UNKNOWN;
        const turn = (text: string): string => (change.upper ? text.toUpperCase() : text.toLowerCase());
        return change.all ? turn(value) : turn(value.slice(0, 1)) + value.slice(1);
      }
      case 'replace': {
        const pattern = this.text(change.pattern).text;
        const replacement = this.text(change.replacement).text;
        if (!known || pattern === '' || /[*?[]/.test(pattern) || pattern.includes(UNKNOWN)) return UNKNOWN;
        return change.all ? value.split(pattern).join(replacement) : value.replace(pattern, () => replacement);
      }
      case 'other':
        return UNKNOWN;
    }
  }
}
