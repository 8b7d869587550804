import { foldedKey, isBlank } from './fold.js';
import { occurrences } from './exact.js';
import type { TextView } from './text-view.js';
import type { Splice } from './types.js';

/**
 * Whether a splice would repeat what is there already: its text, which keeps all that it replaces, stands around the
 * place. A queue may deliver an edit twice, and an insertion must not be made twice.
 */
export function repeats(content: string, splice: Splice): boolean {
  const replaced = content.slice(splice.start, splice.end);
  if (replaced === splice.text) return true;
  if (replaced === '') return false;
  return occurrences(splice.text, replaced).some(
    (at) => content.startsWith(splice.text, splice.start - at) && splice.start >= at,
  );
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
