import { diffArrays } from 'diff';
import { fold } from './fold.js';
import { similarity, tokenize } from './similarity.js';

const INVISIBLE = /[\u200b-\u200d\u2060\ufeff\u00ad]/g;

/** Tokens `[from, to)` of the old line become `text`. */
interface Change {
  from: number;
  to: number;
  text: string;
}

/**
 * The file's line with the change from `oldLine` to `newLine`, as a three-way merge by tokens: what old and new have in
 * common keeps the file's form (its quotes, dashes, blanks, its value where the model remembered another one), and
 * where both changed the same tokens the new line wins. When old and file differ much, or their changes overlap only in
 * part, the new line is taken as it is. All without indentation.
 */
export function mergeLine(oldLine: string, newLine: string, fileLine: string): string {
  if (oldLine === fileLine || newLine === fileLine) return newLine;
  const file = fileLine.replace(INVISIBLE, '');
  const foldedOnly = fold(oldLine).replace(/\s+/g, ' ') === fold(file).replace(/\s+/g, ' ');
  if (!foldedOnly && similarity(oldLine, file) < 0.6) return newLine;
  const old = tokenize(oldLine);
  const form = [...old];
  const theirs = changes(
    old,
    tokenize(file),
    form,
    (a, b) => a === b || fold(a) === fold(b) || (a.trim() === '' && b.trim() === ''),
  );
  const ours = changes(old, tokenize(newLine), undefined, (a, b) => a === b);
  const applied = [...ours];
  for (const change of theirs) {
    const overlapping = ours.filter((own) => overlap(own, change));
    const sameSpot = ours.some((own) => own.from === own.to && change.from === change.to && own.from === change.from);
    if (sameSpot) return newLine;
    // Another operator right beside the change belongs to what the model rewrote.
    const words = (from: number, to: number) => old.slice(from, to).some((token) => /[\p{L}\p{N}]/u.test(token));
    const sign = change.text !== '' && !words(change.from, change.to) && !/[\p{L}\p{N}]/u.test(change.text);
    if (sign && ours.some((own) => !words(Math.min(own.to, change.to), Math.max(own.from, change.from))))
      return newLine;
    if (overlapping.length === 0) applied.push(change);
    else if (!overlapping.some((own) => own.from <= change.from && change.to <= own.to)) return newLine;
  }
  applied.sort((a, b) => a.from - b.from || a.to - b.to);
  let merged = '';
  let at = 0;
  for (const change of applied) {
    merged += form.slice(at, change.from).join('') + change.text;
    at = change.to;
  }
  return merged + form.slice(at).join('');
}

function overlap(a: Change, b: Change): boolean {
  if (a.from === a.to || b.from === b.to) return (b.from < a.from && a.to < b.to) || (a.from < b.from && b.to < a.to);
  return Math.max(a.from, b.from) < Math.min(a.to, b.to);
}

function changes(
  old: string[],
  other: string[],
  form: string[] | undefined,
  equal: (a: string, b: string) => boolean,
): Change[] {
  const found: Change[] = [];
  let at = 0;
  let open: Change | undefined;
  for (const part of diffArrays(old, other, { comparator: equal })) {
    if (part.added || part.removed) {
      if (!open) found.push((open = { from: at, to: at, text: '' }));
      if (part.added) open.text += part.value.join('');
      else open.to = at += part.value.length;
      continue;
    }
    open = undefined;
    // For common parts the diff hands back the other side, which is the form to keep.
    for (const token of part.value) {
      if (form) form[at] = token;
      at++;
    }
  }
  return found;
}
