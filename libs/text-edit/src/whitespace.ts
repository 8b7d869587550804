import { alignBlanks, type Alignment, type Group } from './alignment.js';
import { compose } from './compose.js';
import { foldedKey, isBlank, isGeneric, keyWithOffsets } from './fold.js';
import { linesOf } from './lines.js';
import { mergeLine } from './merge-line.js';
import type { LineSequence, TextView } from './text-view.js';
import type { Splice } from './types.js';

/** All places whose non-blank lines equal those of `oldText` under the sequence's way of comparing. */
export function wholeLinePlaces(
  view: TextView,
  sequence: LineSequence,
  oldText: string,
  keyOf: (line: string) => string,
): Alignment[] {
  const old = linesOf(oldText);
  const numbers: number[] = [];
  const keys: string[] = [];
  old.forEach((line, i) => {
    const key = keyOf(line);
    if (key !== '') {
      numbers.push(i);
      keys.push(key);
    }
  });
  if (keys.length === 0) return [];
  // Start from the rarest line: one `}` may stand in a thousand places, the block's own line in one.
  let rarest = 0;
  let fewest = Infinity;
  for (let i = 0; i < keys.length; i++) {
    const count = sequence.index.get(keys[i]!)?.length ?? 0;
    if (count === 0) return [];
    if (count < fewest) [rarest, fewest] = [i, count];
  }
  const places: Alignment[] = [];
  for (const at of sequence.index.get(keys[rarest]!)!) {
    const from = at - rarest;
    if (from < 0 || from + keys.length > sequence.keys.length) continue;
    if (!keys.every((key, i) => sequence.keys[from + i] === key)) continue;
    const groups: Group[] = keys.map((_, i) => {
      const file = sequence.numbers[from + i]!;
      return { oldFrom: numbers[i]!, oldTo: numbers[i]! + 1, fileFrom: file, fileTo: file + 1, similarity: 1 };
    });
    places.push(alignBlanks(groups, old, view.lines));
  }
  return places;
}

/** A place inside lines: offsets of the file, and its line (zero-based). */
export interface FragmentPlace {
  start: number;
  end: number;
  line: number;
}

const WORD = /[\p{L}\p{N}_]/u;

/** Places where `oldText` begins or ends inside a line and differs only by blanks and Unicode forms. */
export function fragmentPlaces(view: TextView, oldText: string): FragmentPlace[] {
  const keys = linesOf(oldText)
    .map(foldedKey)
    .filter((key) => key !== '');
  const sequence = view.folded();
  const places: FragmentPlace[] = [];
  const head = keys[0];
  if (head === undefined || keys.join('').length < 4 || keys.every(isGeneric)) return places;
  // Text that is indented begins a line; it is no part from the middle of one.
  const begins = /^[ \t]/.test(oldText);
  const tail = keys.at(-1)!;
  if (keys.slice(1, -1).some((key) => !sequence.index.has(key))) return places;
  for (let i = 0; i + keys.length <= sequence.keys.length; i++) {
    const line = sequence.keys[i]!;
    if (keys.length === 1) {
      for (let at = line.indexOf(head); at >= 0; at = line.indexOf(head, at + 1)) {
        if (begins && at > 0) break;
        if (!cutsWord(line, at) && !cutsWord(line, at + head.length))
          places.push(place(view, sequence, i, at, i, at + head.length));
      }
      continue;
    }
    if (!line.endsWith(head) || !sequence.keys[i + keys.length - 1]!.startsWith(tail)) continue;
    if (!keys.slice(1, -1).every((key, k) => sequence.keys[i + 1 + k] === key)) continue;
    const from = line.length - head.length;
    if (begins && from > 0) continue;
    // A brace at the end of one line or the start of another says nothing about them.
    if (from > 0 && isGeneric(head)) continue;
    if (tail.length < sequence.keys[i + keys.length - 1]!.length && isGeneric(tail)) continue;
    if (cutsWord(line, from) || cutsWord(sequence.keys[i + keys.length - 1]!, tail.length)) continue;
    places.push(place(view, sequence, i, from, i + keys.length - 1, tail.length));
  }
  return places;
}

function cutsWord(line: string, at: number): boolean {
  return at > 0 && at < line.length && WORD.test(line[at - 1]!) && WORD.test(line[at]!);
}

function place(
  view: TextView,
  sequence: LineSequence,
  from: number,
  fromAt: number,
  to: number,
  toAt: number,
): FragmentPlace {
  const first = sequence.numbers[from]!;
  const last = sequence.numbers[to]!;
  const start = keyWithOffsets(view.lines[first]!).offsets[fromAt]!;
  const tail = keyWithOffsets(view.lines[last]!);
  let end = toAt >= tail.key.length ? tail.offsets.at(-1)! : tail.offsets[toAt]!;
  // The offset of the next unit may lie behind blanks that are not part of the match.
  while (
    toAt < tail.key.length &&
    tail.key[toAt - 1] !== ' ' &&
    end > 0 &&
    isBlank(view.lines[last]!.slice(end - 1, end))
  )
    end--;
  return { start: view.starts[first]! + start, end: view.starts[last]! + end, line: first };
}

/** What the edit writes at a fragment; `undefined` when old and new differ in their outer blanks, which it does not show, or its lines do not fit. */
export function fragmentSplice(
  view: TextView,
  found: FragmentPlace,
  oldText: string,
  newText: string,
): Splice | undefined {
  const outer = (text: string) => [/^\s*/.exec(text)![0], /\s*$/.exec(text)![0]];
  const [oldHead, oldTail] = outer(oldText);
  const [newHead, newTail] = newText === '' ? [oldHead, oldTail] : outer(newText);
  if (oldHead !== newHead || oldTail !== newTail) return undefined;
  const fileText = view.content.slice(found.start, found.end);
  const old = oldText.trim();
  const next = newText.trim();
  if (old.includes('\n')) {
    // With what stands around it in its first and last line, the part is whole lines, and is written as such.
    const last = view.lineAt(found.end - 1);
    const head = view.content.slice(view.starts[found.line]!, found.start);
    const tail = view.content.slice(found.end, view.endOf(last));
    const whole = head + old + tail;
    const place = wholeLinePlaces(view, view.folded(), whole, foldedKey).find((one) => one.first === found.line);
    const composed = place && compose(view, place, whole, head + next + tail);
    return typeof composed === 'object' && !composed.contradictory ? composed.splice : undefined;
  }
  const fill = view.commonEol(found.line, found.line + 1);
  const text = next.includes('\n') ? next.replaceAll('\n', fill) : mergeLine(old, next, fileText);
  return { start: found.start, end: found.end, text };
}
