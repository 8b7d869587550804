import type { Match } from './candidates.js';
import type { TextView } from './text-view.js';
import { PASS_NAMES, type Candidate, type Pass } from './types.js';

const MAX_LINES = 60;
const MAX_UNITS = 4000;

/** A place as it is shown to a model: the file's own text, so that it can be sent back as old_string. */
export function candidateOf(view: TextView, first: number, last: number, confidence: number, pass: Pass): Candidate {
  const lines = view.lines.slice(first, Math.min(last, first + MAX_LINES - 1) + 1);
  let text = lines.join('\n');
  if (text.length > MAX_UNITS)
    text = text.slice(0, text.lastIndexOf('\n', MAX_UNITS) > 0 ? text.lastIndexOf('\n', MAX_UNITS) : MAX_UNITS);
  return {
    startLine: first + 1,
    endLine: last + 1,
    text,
    confidence: Math.round(confidence * 1000) / 1000,
    pass,
    passName: PASS_NAMES[pass],
  };
}

/** As `candidateOf`, for a place that resembles the old text. */
export function candidateOfMatch(view: TextView, match: Match): Candidate {
  const numbers = view.folded().numbers;
  return candidateOf(
    view,
    numbers[match.pairs[0]!.at]!,
    numbers[match.pairs.at(-1)!.at]!,
    Math.min(match.score, 0.79),
    9,
  );
}

/** `line 3` or `lines 3, 9 and 12`; long lists are cut. */
export function namedLines(lines: readonly number[]): string {
  if (lines.length === 1) return `line ${lines[0]}`;
  const shown = lines.slice(0, 20);
  const rest = lines.length - shown.length;
  if (rest > 0) return `lines ${shown.join(', ')} and ${rest} more`;
  return `lines ${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

/** A candidate's lines with their numbers, for a message. */
export function shown(candidate: Candidate): string {
  return candidate.text
    .split('\n')
    .map((line, i) => `${candidate.startLine + i}→${line}`)
    .join('\n');
}
