import { diffArrays } from 'diff';
import { fold } from './fold.js';
import { similarity, tokenize } from './similarity.js';

const INVISIBLE = /[\u200b-\u200d\u2060\ufeff\u00ad]/g;

/**
 * The file's line with the change from `oldLine` to `newLine`: what old and new have in common keeps the file's form
 * (its quotes, dashes, blanks, its value where the model remembered another one). When the change touches a part in
 * which old and file differ, or they differ much, the model's new line is taken as it is. All without indentation.
 */
export function mergeLine(oldLine: string, newLine: string, fileLine: string): string {
  if (oldLine === fileLine || newLine === fileLine) return newLine;
  const file = fileLine.replace(INVISIBLE, '');
  const foldedOnly = fold(oldLine).replace(/\s+/g, ' ') === fold(file).replace(/\s+/g, ' ');
  if (!foldedOnly && similarity(oldLine, file) < 0.6) return newLine;
  const old = tokenize(oldLine);
  const form: (string | undefined)[] = new Array<string | undefined>(old.length);
  const inserted = new Map<number, string>();
  const equal = (a: string, b: string) => a === b || fold(a) === fold(b) || (a.trim() === '' && b.trim() === '');
  const toFile = diffArrays(old, tokenize(file), { comparator: equal });
  let at = 0;
  for (const part of toFile) {
    if (part.added) inserted.set(at, (inserted.get(at) ?? '') + part.value.join(''));
    else if (part.removed) at += part.value.length;
    // For common parts the diff hands back the right-hand side, which is the file's form.
    else for (const token of part.value) form[at++] = token;
  }
  let merged = '';
  let position = 0;
  const parts = diffArrays(old, tokenize(newLine));
  for (let p = 0; p < parts.length; p++) {
    const part = parts[p]!;
    if (part.added) {
      if (inserted.has(position)) return newLine;
      merged += part.value.join('');
    } else if (part.removed) {
      for (let i = 0; i < part.value.length; i++, position++)
        if (form[position] === undefined || inserted.has(position)) return newLine;
      if (inserted.has(position)) return newLine;
    } else {
      const edges = [p > 0 ? position : -1, p < parts.length - 1 ? position + part.value.length : -1];
      for (let i = 0; i < part.value.length; i++, position++) {
        const own = form[position];
        if (own === undefined && (position === edges[0] || position + 1 === edges[1])) return newLine;
        if (inserted.has(position) && !edges.includes(position)) merged += inserted.get(position)!;
        merged += own ?? '';
      }
    }
  }
  if (parts.at(-1)?.added !== true && parts.at(-1)?.removed !== true) merged += inserted.get(position) ?? '';
  return merged;
}
