import { compose } from './compose.js';
import { foldedKey } from './fold.js';
import { linesOf } from './lines.js';
import { isElision } from './placeholder.js';
import type { TextView } from './text-view.js';
import type { Splice } from './types.js';
import { wholeLinePlaces } from './whitespace.js';

/** Whether old text leaves lines out. */
export function elides(oldText: string): boolean {
  return linesOf(oldText).some(isElision);
}

/**
 * Applies an edit whose old and new text leave out the same lines: every shown piece must be in the file once and in
 * order, and is edited by itself, so that what was not shown stays. Returns the reason when it cannot be done.
 */
export function elidedSplices(
  view: TextView,
  oldText: string,
  newText: string,
): { splices: Splice[]; reindented: boolean } | string {
  const old = pieces(oldText);
  const next = pieces(newText);
  if (old.marks.join('\n') !== next.marks.join('\n'))
    return 'old_string leaves lines out and new_string does not leave out the same ones: they would be deleted unseen';
  const splices: Splice[] = [];
  let reindented = false;
  let from = -1;
  for (let i = 0; i < old.texts.length; i++) {
    const piece = old.texts[i]!;
    if (piece.trim() === '') {
      if (next.texts[i]!.trim() !== '') return 'new_string adds text beside an elision where old_string shows none';
      continue;
    }
    const places = wholeLinePlaces(view, view.folded(), piece, foldedKey);
    if (places.length !== 1)
      return places.length === 0
        ? `a part of old_string is not in the file: ${quoteStart(piece)}`
        : `a part of old_string stands in ${places.length} places: ${quoteStart(piece)}`;
    const place = places[0]!;
    if (place.first <= from) return 'the parts of old_string stand in another order in the file';
    from = place.last;
    if (piece === next.texts[i]) continue;
    if (next.texts[i]! === '') return 'new_string drops a whole part beside an elision';
    const composed = compose(view, place, piece, next.texts[i]!);
    if (typeof composed === 'string') return composed;
    splices.push(composed.splice);
    reindented ||= composed.reindented;
  }
  return splices.length > 0 ? { splices, reindented } : 'nothing beside the elision changes';
}

function pieces(text: string): { texts: string[]; marks: string[] } {
  const texts: string[] = [];
  const marks: string[] = [];
  let current: string[] = [];
  for (const line of linesOf(text)) {
    if (isElision(line)) {
      texts.push(current.join('\n'));
      marks.push(line.trim());
      current = [];
    } else current.push(line);
  }
  texts.push(current.join('\n'));
  return { texts, marks };
}

function quoteStart(text: string): string {
  const line = text.trim().split('\n')[0]!;
  return JSON.stringify(line.length > 60 ? `${line.slice(0, 60)}…` : line);
}
