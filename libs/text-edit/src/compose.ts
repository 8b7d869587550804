import { diffArrays } from 'diff';
import type { Alignment, Group } from './alignment.js';
import { indentOf, isBlank } from './fold.js';
import { linesOf } from './lines.js';
import { mergeLine } from './merge-line.js';
import { learnIndent, type Reindenter } from './reindent.js';
import { similarity } from './similarity.js';
import type { Eol, TextView } from './text-view.js';
import type { Splice } from './types.js';

/** What an edit writes at an aligned place. */
export interface Composed {
  splice: Splice;
  reindented: boolean;
  contradictory: boolean;
}

interface Emitted {
  text: string;
  eol?: Eol;
}

/**
 * The text an edit writes at an aligned place, as a three-way merge by lines: what old and new have in common keeps the
 * file's lines, what new changes is re-indented to the file. Returns the reason as a string when that cannot be done
 * without removing something the model did not show, or without a place for what it adds.
 */
export function compose(view: TextView, alignment: Alignment, oldText: string, newText: string): Composed | string {
  const wholeDeletion = newText === '';
  const old = linesOf(oldText);
  const next = wholeDeletion ? [] : linesOf(newText);
  const { groups, first, last } = alignment;
  const fileOf: (Group | undefined)[] = new Array<Group | undefined>(old.length);
  for (const group of groups) for (let o = group.oldFrom; o < group.oldTo; o++) fileOf[o] = group;
  const unseen = unseenAfter(groups, first, last);

  const pairs = groups.map((group) => [old[group.oldFrom]!, view.lines[group.fileFrom]!] as const);
  const indent = learnIndent(pairs, [...old, ...next], view.lines.slice(Math.max(0, first - 200), last + 200));

  const parts = diffArrays(old.map(trimmedEnd), next.map(trimmedEnd));
  const stays = new Array<boolean>(old.length).fill(false);
  const newLineOf = new Array<number>(old.length).fill(-1);
  for (let p = 0, o = 0, n = 0; p < parts.length; p++) {
    const { added, removed, value } = parts[p]!;
    if (added) n += value.length;
    else if (removed) o += value.length;
    else for (let i = 0; i < value.length; i++, o++, n++) [stays[o], newLineOf[o]] = [true, n];
  }

  const out: Emitted[] = [];
  let pending: { lines: number[]; afterRemoved: boolean } | undefined;
  const push = (line: Emitted, common: boolean, added: boolean) => {
    if (pending) {
      const lastBlank = out.length > 0 && isBlank(out.at(-1)!.text);
      const wanted = added && isBlank(line.text) ? false : pending.afterRemoved ? common && !lastBlank : true;
      if (wanted) for (const f of pending.lines) out.push({ text: view.lines[f]!, eol: view.eolOf(f) });
      if (wanted || common || !pending.afterRemoved) pending = undefined;
    }
    out.push(line);
  };

  // Indentation of the last line with a place of its own, as sent and as in the file: an added line of the same depth
  // follows it, whatever other lines say.
  let near: { sent: string; file: string } | undefined;
  const learn = (sent: string, group: Group | undefined) => {
    if (group && isOneToOne(group) && !isBlank(sent))
      near = { sent: indentOf(sent), file: indentOf(view.lines[group.fileFrom]!) };
  };
  const added = (line: string): string =>
    near && near.sent === indentOf(line) && !isBlank(line)
      ? near.file + line.slice(near.sent.length)
      : reindentLine(line, indent);

  let o = 0;
  let n = 0;
  for (let p = 0; p < parts.length; p++) {
    const { added: isAdded, removed, value } = parts[p]!;
    if (!isAdded && !removed) {
      for (let i = 0; i < value.length; i++, o++, n++) {
        const group = fileOf[o];
        learn(next[n]!, group);
        if (!group) continue; // the model believes in a line that the file has not; the edit does not touch it
        if (groupStays(group, stays, newLineOf)) {
          if (o === group.oldFrom)
            for (let f = group.fileFrom; f < group.fileTo; f++) push(kept(view, f, next[n]!), true, false);
        } else push({ text: reindentLine(next[n]!, indent) }, true, false);
        if (o === group.oldTo - 1) {
          const reason = holdUnseen(group, false);
          if (reason) return reason;
        }
      }
      continue;
    }
    if (removed) {
      const addedPart = parts[p + 1]?.added ? parts[p + 1]!.value.length : 0;
      const partners = pairLines(old, o, value.length, next, n, addedPart);
      for (let i = 0; i < value.length; i++) {
        const group = fileOf[o + i];
        if (!group && !isBlank(old[o + i]!)) return 'the edit changes a line that is not at this place';
      }
      const hold: { group: Group }[] = [];
      for (let i = 0; i < value.length; i++) {
        const group = fileOf[o + i];
        if (group && o + i === group.oldTo - 1 && (unseen.get(group)?.length ?? 0) > 0) hold.push({ group });
      }
      for (let j = 0; j < addedPart; j++) {
        const line = next[n + j]!;
        const partner = partners.get(j);
        const group = partner === undefined ? undefined : fileOf[partner];
        const own = partner !== undefined && group && isOneToOne(group) && !isBlank(line);
        push(
          { text: own ? changedLine(line, old[partner]!, view.lines[group.fileFrom]!, indent) : added(line) },
          false,
          true,
        );
        if (own && indentOf(line) === indentOf(old[partner]!)) learn(line, group);
      }
      for (const { group } of hold) {
        const reason = holdUnseen(group, true);
        if (reason) return reason;
      }
      o += value.length;
      n += addedPart;
      if (addedPart) p++;
      continue;
    }
    for (let j = 0; j < value.length; j++, n++) push({ text: added(next[n]!) }, false, true);
  }

  function holdUnseen(group: Group, afterRemoved: boolean): string | undefined {
    const lines = unseen.get(group);
    if (!lines || lines.length === 0) return undefined;
    if (lines.every((f) => isBlank(view.lines[f]!))) {
      pending = { lines, afterRemoved };
      return undefined;
    }
    // Lines the model did not show stay only where both neighbours stay side by side; anywhere else they have no place.
    const at = group.oldTo - 1;
    if (afterRemoved || !stays[at] || !stays[at + 1] || newLineOf[at + 1] !== newLineOf[at]! + 1)
      return 'the place holds lines that old_string does not show';
    for (const f of lines) out.push({ text: view.lines[f]!, eol: view.eolOf(f) });
    return undefined;
  }

  const fill = view.commonEol(first, last + 1);
  const start = view.starts[first]!;
  const wholeLines = out.length === 0 && (wholeDeletion ? oldText.endsWith('\n') : true);
  const end = wholeLines ? view.starts[last + 1]! : view.endOf(last);
  let text = '';
  for (let i = 0; i < out.length; i++) text += out[i]!.text + (i < out.length - 1 ? out[i]!.eol || fill : '');
  return { splice: { start, end, text }, reindented: indent.changes, contradictory: indent.contradictory };
}

function trimmedEnd(line: string): string {
  return line.trimEnd();
}

function unseenAfter(groups: readonly Group[], first: number, last: number): Map<Group, number[]> {
  const taken = new Set<number>();
  const byEnd = new Map<number, Group>();
  for (const group of groups) {
    for (let f = group.fileFrom; f < group.fileTo; f++) taken.add(f);
    byEnd.set(group.fileTo, group);
  }
  const unseen = new Map<Group, number[]>();
  let owner: Group | undefined;
  for (let f = first; f <= last; f++) {
    owner = byEnd.get(f) ?? owner;
    if (taken.has(f) || !owner) continue;
    const lines = unseen.get(owner);
    if (lines) lines.push(f);
    else unseen.set(owner, [f]);
  }
  return unseen;
}

function isOneToOne(group: Group): boolean {
  return group.oldTo - group.oldFrom === 1 && group.fileTo - group.fileFrom === 1;
}

function groupStays(group: Group, stays: readonly boolean[], newLineOf: readonly number[]): boolean {
  for (let o = group.oldFrom; o < group.oldTo; o++) {
    if (!stays[o]) return false;
    if (o > group.oldFrom && newLineOf[o] !== newLineOf[o - 1]! + 1) return false;
  }
  return true;
}

function kept(view: TextView, line: number, asSent: string): Emitted {
  const text = view.lines[line]!;
  // Blanks at the end of a line stay only if the model sent some too: they are what editors strip and models drop.
  const trimmed = text.trimEnd();
  const keep = trimmed === '' || trimmed === text || /\s$/.test(asSent);
  return { text: keep ? text : trimmed, eol: view.eolOf(line) };
}

function reindentLine(line: string, indent: Reindenter): string {
  if (isBlank(line)) return '';
  const own = indentOf(line);
  return indent.map(own) + line.slice(own.length);
}

function changedLine(line: string, oldLine: string, fileLine: string, indent: Reindenter): string {
  const own = indentOf(line);
  const target = own === indentOf(oldLine) ? indentOf(fileLine) : indent.map(own);
  const tail = /\s*$/.exec(line)![0];
  return target + mergeLine(oldLine.trim(), line.trim(), fileLine.trim()) + tail;
}

/** For each added line of a hunk the removed line it replaces: in order, by position or by likeness. */
function pairLines(
  old: readonly string[],
  from: number,
  count: number,
  next: readonly string[],
  at: number,
  added: number,
): Map<number, number> {
  const pairs = new Map<number, number>();
  if (count === added) {
    for (let i = 0; i < count; i++) pairs.set(i, from + i);
    return pairs;
  }
  let lowest = 0;
  for (let i = 0; i < count; i++) {
    let best = -1;
    let bestScore = 0.1;
    for (let j = lowest; j < added; j++) {
      const score = similarity(old[from + i]!.trim(), next[at + j]!.trim());
      if (score > bestScore) [best, bestScore] = [j, score];
    }
    if (best >= 0) {
      pairs.set(best, from + i);
      lowest = best + 1;
    }
  }
  return pairs;
}
