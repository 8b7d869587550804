import { isBlank } from './fold.js';

/** The request with something undone that never belonged to the file: a listing's numbers, a fence, escapes, entities. */
export interface Unwrapped {
  name: string;
  oldText: string;
  newText: string;
  /** One-based line that a listing's numbers name. */
  line?: number;
}

// The forms in which tools print numbered lines: `  12→`, `12: `, `12 | `, `12<tab>`, `L12: `.
const NUMBERED = [
  /^[ \t]*L?(\d+)→/,
  /^[ \t]*L?(\d+)[ \t]*\|(?: |$)/,
  /^[ \t]*L?(\d+):(?: |$)/,
  /^[ \t]*L?(\d+)\t/,
  /^[ \t]*L?(\d+):/,
  /^[ \t]*L?(\d+)[ \t]*\|/,
];

/** Every reading of the request without an envelope, each to be tried only when the raw form is not in the file. */
export function unwrapped(oldText: string, newText: string): Unwrapped[] {
  const results: Unwrapped[] = [];
  const add = (value: Unwrapped | undefined) => {
    if (!value || value.oldText.trim() === '') return;
    if (!results.some((known) => known.oldText === value.oldText && known.newText === value.newText))
      results.push(value);
  };
  const fenceless = withoutFence(oldText, newText);
  add(withoutNumbers(oldText, newText));
  add(fenceless);
  if (fenceless) {
    const both = withoutNumbers(fenceless.oldText, fenceless.newText);
    if (both) add({ ...both, name: `${fenceless.name}, ${both.name}` });
  }
  // Text with real line ends has its quotes escaped at most: a backslash-n in it belongs to a string of the code.
  const quotes = withoutEscapes(oldText, newText, /\\(["'`\\$/])/g);
  const all = withoutEscapes(oldText, newText, /\\([ntr"'`\\$/])/g);
  for (const form of oldText.includes('\n') || newText.includes('\n') ? [quotes, all] : [all, quotes]) add(form);
  add(withoutEntities(oldText, newText));
  return results;
}

function withoutNumbers(oldText: string, newText: string): Unwrapped | undefined {
  const lines = oldText.split('\n');
  for (const form of NUMBERED) {
    const stripped = strip(lines, form);
    if (!stripped) continue;
    const { numbers } = stripped;
    // A listing counts up; ordinary text that begins with numbers rarely does for all of its lines.
    if (numbers.some((number, i) => i > 0 && number <= numbers[i - 1]!)) continue;
    // New text may be numbered in another form; a form that the file's own text has is no listing.
    const forms = [form, ...NUMBERED.filter((other) => !strip(stripped.text.split('\n'), other))];
    const next = forms.map((other) => strip(newText.split('\n'), other)).find((text) => text !== undefined);
    return {
      name: 'listing prefixes',
      oldText: stripped.text,
      newText: next ? next.text : partlyStripped(newText, form),
      line: numbers[0]!,
    };
  }
  return undefined;
}

function strip(lines: readonly string[], form: RegExp): { text: string; numbers: number[] } | undefined {
  const numbers: number[] = [];
  const out: string[] = [];
  for (const line of lines) {
    const match = form.exec(line);
    if (match) {
      numbers.push(Number(match[1]));
      out.push(line.slice(match[0].length));
    } else if (isBlank(line)) out.push('');
    else return undefined;
  }
  return numbers.length > 0 ? { text: out.join('\n'), numbers } : undefined;
}

/** In new text some lines may be numbered and added ones not: all of the numbered ones are undone when most are. */
function partlyStripped(text: string, form: RegExp): string {
  const lines = text.split('\n');
  const filled = lines.filter((line) => !isBlank(line));
  const numbered = filled.filter((line) => form.test(line)).length;
  return numbered * 2 > filled.length ? lines.map((line) => line.replace(form, '')).join('\n') : text;
}

function withoutFence(oldText: string, newText: string): Unwrapped | undefined {
  const inner = fenced(oldText);
  if (inner === undefined) return undefined;
  return { name: 'fence', oldText: inner, newText: fenced(newText) ?? newText };
}

function fenced(text: string): string | undefined {
  const match = /^\s*(`{3,}|~{3,})[^\n`]*\n([\s\S]*?)\n?[ \t]*\1[ \t]*\n?$/.exec(text);
  return match ? match[2]! : undefined;
}

const ESCAPES: Record<string, string> = {
  n: '\n',
  t: '\t',
  r: '\r',
  '"': '"',
  "'": "'",
  '`': '`',
  '\\': '\\',
  $: '$',
  '/': '/',
};

function withoutEscapes(oldText: string, newText: string, escapes: RegExp): Unwrapped | undefined {
  const undo = (text: string) => text.replace(escapes, (_, char: string) => ESCAPES[char]!).replaceAll('\r\n', '\n');
  const old = undo(oldText);
  return old === oldText ? undefined : { name: 'escapes', oldText: old, newText: undo(newText) };
}

const ENTITIES: Record<string, string> = {
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  '#39': "'",
  '#34': '"',
  nbsp: '\u00a0',
};

function withoutEntities(oldText: string, newText: string): Unwrapped | undefined {
  const undo = (text: string) =>
    text.replace(/&(lt|gt|quot|apos|nbsp|#39|#34);/g, (_, name: string) => ENTITIES[name]!).replaceAll('&amp;', '&');
  const old = undo(oldText);
  return old === oldText ? undefined : { name: 'entities', oldText: old, newText: undo(newText) };
}
