import { indentOf, isBlank } from './fold.js';

const TAB_COLUMNS = 4;

/** Carries indentation from the model's text over to the file's: known levels by what was matched, others by the unit. */
export interface Reindenter {
  /** The file's indentation for an indentation of the model. */
  map(indent: string): string;
  /** Whether any indentation changes at all. */
  changes: boolean;
  /** One indentation of the model stands for several of the file: nothing can be said for sure. */
  contradictory: boolean;
}

type Pair = readonly [string, string];

/** Learns from pairs (model's line, file's line) of matched lines; `model` are all lines of the request, for its unit. */
export function learnIndent(lines: readonly Pair[], model: readonly string[], file: readonly string[]): Reindenter {
  const usable = lines.filter(([a, b]) => !isBlank(a) && !isBlank(b)).map(([a, b]): Pair => [indentOf(a), indentOf(b)]);
  const units = unitOf(file) / unitOf(model);
  let pairs: readonly Pair[] = usable;
  let ratio = ratioOf(pairs, units);
  // A first line that alone lost its indentation (cut from the middle of a line) says nothing about the others.
  const rest = usable.slice(1);
  if (rest.length > 0 && usable[0]![0] === '') {
    const ofRest = ratioOf(rest, units);
    const cut = usable[0]![1] !== '' && rest.every(([from, to]) => from === to);
    if (cut || (ratio === undefined && ofRest !== undefined)) [pairs, ratio] = [rest, ofRest];
  }
  const known = new Map<string, string>();
  let contradictory = false;
  for (const [from, to] of pairs) {
    const before = known.get(from);
    if (before === undefined) known.set(from, to);
    else if (before !== to) contradictory = true;
  }
  const changes = [...known].some(([from, to]) => from !== to);
  if (!changes) return { map: (indent) => indent, changes: false, contradictory };
  const tabs =
    [...known.values()].some((indent) => indent.includes('\t')) ||
    (!usable.some(([, to]) => to !== '') && fileUsesTabs(file));
  const sorted = [...known].sort((a, b) => columns(a[0]) - columns(b[0]));
  const map = (indent: string): string => {
    const exact = known.get(indent);
    if (exact !== undefined) return exact;
    const width = columns(indent);
    const [from, to] = sorted.findLast(([one]) => columns(one) <= width) ?? sorted[0]!;
    const target = Math.max(0, Math.round(columns(to) + (width - columns(from)) * (ratio ?? 1)));
    return target >= columns(to) ? to + blanks(target - columns(to), tabs) : blanks(target, tabs);
  };
  return { map, changes, contradictory };
}

/** How many columns of the file one column of the model is; `undefined` when the pairs lie on no such line. */
function ratioOf(pairs: readonly Pair[], units: number): number | undefined {
  const points = pairs.map(([from, to]) => [columns(from), columns(to)] as const);
  const origin = points[0];
  if (!origin) return undefined;
  const natural = [0.25, 0.5, 1, 2, 4].includes(units) ? [units, 1, 2, 0.5, 4, 0.25] : [1, 2, 0.5, 4, 0.25];
  return natural.find((ratio) => points.every(([from, to]) => to - origin[1] === (from - origin[0]) * ratio));
}

function blanks(count: number, tabs: boolean): string {
  return tabs ? '\t'.repeat(Math.floor(count / TAB_COLUMNS)) + ' '.repeat(count % TAB_COLUMNS) : ' '.repeat(count);
}

function columns(indent: string): number {
  let count = 0;
  for (const char of indent) count += char === '\t' ? TAB_COLUMNS : 1;
  return count;
}

function fileUsesTabs(lines: readonly string[]): boolean {
  let tabs = 0;
  let spaces = 0;
  for (const line of lines) {
    if (line.startsWith('\t')) tabs++;
    else if (line.startsWith('  ')) spaces++;
  }
  return tabs > spaces;
}

/** The most common step from one line to a deeper one, in columns; 4 when nothing is indented. */
function unitOf(lines: readonly string[]): number {
  const steps = new Map<number, number>();
  let before = 0;
  for (const line of lines) {
    if (isBlank(line)) continue;
    const width = columns(indentOf(line));
    if (width > before) steps.set(width - before, (steps.get(width - before) ?? 0) + 1);
    before = width;
  }
  let unit = 4;
  let best = 0;
  for (const [step, count] of steps) if (count > best || (count === best && step < unit)) [unit, best] = [step, count];
  return unit;
}
