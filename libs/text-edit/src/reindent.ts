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

/** Learns from pairs (model's line, file's line) of matched lines; `model` are all lines of the request, for its unit. */
export function learnIndent(
  pairs: readonly (readonly [string, string])[],
  model: readonly string[],
  file: readonly string[],
): Reindenter {
  const known = new Map<string, string>();
  let contradictory = false;
  const usable = pairs
    .filter(([a, b]) => !isBlank(a) && !isBlank(b))
    .map(([a, b]) => [indentOf(a), indentOf(b)] as const);
  // A first line that alone lost its indentation (cut from the middle of a line) says nothing about the others.
  const rest = usable.slice(1);
  const firstDeviates =
    rest.length > 0 && usable[0]![0] !== usable[0]![1] && usable[0]![0] === '' && rest.every(([a, b]) => a === b);
  for (const [from, to] of firstDeviates ? rest : usable) {
    const before = known.get(from);
    if (before === undefined) known.set(from, to);
    else if (before !== to) contradictory = true;
  }
  const changes = [...known].some(([from, to]) => from !== to);
  if (!changes || known.size === 0) return { map: (indent) => indent, changes: false, contradictory };

  const tabs =
    [...known.values()].some((indent) => indent.includes('\t')) ||
    (!usable.some(([, to]) => to !== '') && fileUsesTabs(file));
  const sorted = [...known].sort((a, b) => columns(a[0]) - columns(b[0]));
  let modelUnit = unitOf(model);
  let fileUnit = tabs ? TAB_COLUMNS : unitOf(file);
  for (let i = 1; i < sorted.length; i++) {
    const step = columns(sorted[i]![0]) - columns(sorted[i - 1]![0]);
    const fileStep = columns(sorted[i]![1]) - columns(sorted[i - 1]![1]);
    if (step > 0 && fileStep > 0) {
      modelUnit = step;
      fileUnit = fileStep;
      break;
    }
  }
  const map = (indent: string): string => {
    const exact = known.get(indent);
    if (exact !== undefined) return exact;
    const width = columns(indent);
    const base = sorted.findLast(([from]) => columns(from) <= width) ?? sorted[0]!;
    const difference = width - columns(base[0]);
    const target = Math.max(
      0,
      columns(base[1]) + Math.trunc(difference / modelUnit) * fileUnit + (difference % modelUnit),
    );
    if (target >= columns(base[1])) return base[1] + blanks(target - columns(base[1]), tabs);
    return blanks(target, tabs);
  };
  return { map, changes, contradictory };
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
