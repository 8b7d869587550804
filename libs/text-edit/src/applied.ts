import { collapseBlanks, foldedKey, isBlank } from './fold.js';
import { occurrences } from './exact.js';
import type { TextView } from './text-view.js';
import type { Splice } from './types.js';

/**
 * Whether a splice would repeat what is there already: its text, which keeps all that it replaces, stands around the
 * place, blank lines and indentation aside. A queue may deliver an edit twice, and an insertion must not be made twice.
 */
export function repeats(view: TextView, splice: Splice): boolean {
  const { content } = view;
  const replaced = content.slice(splice.start, splice.end);
  if (replaced === splice.text) return true;
  if (replaced === '') return false;
  if (
    occurrences(splice.text, replaced).some(
      (at) => splice.start >= at && content.startsWith(splice.text, splice.start - at),
    )
  )
    return true;
  return view.lines.length > 0 && standsAround(view, splice);
}

function standsAround(view: TextView, splice: Splice): boolean {
  const first = view.lineAt(splice.start);
  const last = view.lineAt(Math.max(splice.start, splice.end - 1));
  // What the lines will be, with the parts of the first and last line that stay.
  const head = view.content.slice(view.starts[first]!, splice.start);
  const tail = view.content.slice(splice.end, Math.max(splice.end, view.endOf(last)));
  const next = keysOf((head + splice.text + tail).split(/\r?\n/));
  const own = keysOf(view.lines.slice(first, last + 1));
  if (own.length === 0 || next.length <= own.length) return false;
  for (let at = 0; at + own.length <= next.length; at++) {
    if (!own.every((key, i) => next[at + i] === key)) continue;
    const before = next.slice(0, at).reverse();
    const after = next.slice(at + own.length);
    // The outermost lines may go on: the first delivery may have matched a part of a line.
    const above = agree(neighbours(view, first - 1, -1, before.length), before, (there, key) => there.endsWith(key));
    if (above && agree(neighbours(view, last + 1, 1, after.length), after, (there, key) => there.startsWith(key)))
      return true;
  }
  return false;
}

function keysOf(lines: readonly string[]): string[] {
  return lines.map(collapseBlanks).filter((key) => key !== '');
}

function agree(
  there: readonly string[],
  keys: readonly string[],
  edge: (there: string, key: string) => boolean,
): boolean {
  return (
    there.length === keys.length &&
    there.every((line, i) => (i < keys.length - 1 ? line === keys[i] : edge(line, keys[i]!)))
  );
}

/** The next non-blank lines in one direction, nearest first. */
function neighbours(view: TextView, from: number, step: 1 | -1, count: number): string[] {
  const found: string[] = [];
  for (let line = from; found.length < count && line >= 0 && line < view.lines.length; line += step) {
    const key = collapseBlanks(view.lines[line]!);
    if (key !== '') found.push(key);
  }
  return found;
}

/** Whether new text is old text with lines put in, and already stands in the file: the edit was made before. */
export function insertionIsThere(view: TextView, oldText: string, newText: string): number[] {
  const old = oldText
    .split('\n')
    .map(foldedKey)
    .filter((key) => key !== '');
  const next = newText
    .split('\n')
    .map(foldedKey)
    .filter((key) => key !== '');
  if (next.length <= old.length) return [];
  let at = 0;
  for (const key of next) if (key === old[at]) at++;
  return at === old.length ? placesOf(view, newText) : [];
}

/** One-based lines at which a text stands as it is, trailing newlines aside. */
export function placesOf(view: TextView, text: string): number[] {
  const body = text.replace(/\n+$/, '');
  if (isBlank(body)) return [];
  return occurrences(view.lf, body).map((at) => view.lineOfLf(at) + 1);
}
