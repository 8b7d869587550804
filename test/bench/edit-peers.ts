// Published edit algorithms, written anew from their documented behaviour, to stand beside ours in the same run.
import { distance } from 'fastest-levenshtein';

export interface PeerEdit {
  oldString: string;
  newString: string;
  lineHint?: number;
}

/** The new content, or undefined for a refusal. */
export type Peer = (content: string, edit: PeerEdit) => string | undefined;

/**
 * The chain that several coding agents share: exact, then lines compared without outer blanks, then first and last line
 * as anchors, then runs of blanks as one, then uniform indentation, then escapes undone. A pass yields the file's text,
 * which must be there once; the first such text is replaced by the new text as it is.
 */
export const trimmedChain: Peer = (content, { oldString, newString }) => {
  const lines = content.split('\n');
  const search = oldString.split('\n');
  if (search.at(-1) === '') search.pop();
  for (const pass of [exact, trimmed, anchored, collapsed, dedented, unescaped]) {
    for (const found of pass(content, lines, search, oldString)) {
      const at = content.indexOf(found);
      if (at < 0 || content.lastIndexOf(found) !== at) continue;
      return content.slice(0, at) + newString + content.slice(at + found.length);
    }
  }
  return undefined;
};

type Pass = (content: string, lines: readonly string[], search: readonly string[], old: string) => Iterable<string>;

const exact: Pass = function* (content, _lines, _search, old) {
  if (content.includes(old)) yield old;
};

const trimmed: Pass = function* (_content, lines, search) {
  for (let at = 0; at + search.length <= lines.length; at++)
    if (search.every((line, i) => lines[at + i]!.trim() === line.trim()))
      yield lines.slice(at, at + search.length).join('\n');
};

const anchored: Pass = function* (_content, lines, search) {
  if (search.length < 3) return;
  const candidates: [number, number][] = [];
  for (let at = 0; at < lines.length; at++) {
    if (lines[at]!.trim() !== search[0]!.trim()) continue;
    for (let end = at + 2; end < lines.length; end++) {
      if (lines[end]!.trim() === search.at(-1)!.trim()) {
        candidates.push([at, end]);
        break;
      }
    }
  }
  const score = ([from, to]: [number, number]) => {
    const count = Math.min(search.length - 2, to - from - 1);
    let sum = 0;
    for (let i = 1; i <= count; i++) {
      const [a, b] = [lines[from + i]!.trim(), search[i]!.trim()];
      const longer = Math.max(a.length, b.length);
      sum += longer === 0 ? 1 : 1 - distance(a, b) / longer;
    }
    return count <= 0 ? 1 : sum / count;
  };
  const best = candidates.map((range) => ({ range, score: score(range) })).sort((a, b) => b.score - a.score)[0];
  if (best && (candidates.length === 1 || best.score >= 0.3))
    yield lines.slice(best.range[0], best.range[1] + 1).join('\n');
};

const collapsed: Pass = function* (_content, lines, search, old) {
  const norm = (text: string) => text.replace(/\s+/g, ' ').trim();
  const wanted = norm(old);
  for (let at = 0; at + search.length <= lines.length; at++) {
    const block = lines.slice(at, at + search.length).join('\n');
    if (norm(block) === wanted) yield block;
  }
};

const dedented: Pass = function* (_content, lines, search) {
  const strip = (block: readonly string[]) => {
    const filled = block.filter((line) => line.trim() !== '');
    const least = Math.min(...filled.map((line) => /^\s*/.exec(line)![0].length));
    return block.map((line) => line.slice(least)).join('\n');
  };
  const wanted = strip(search);
  for (let at = 0; at + search.length <= lines.length; at++) {
    const block = lines.slice(at, at + search.length);
    if (strip(block) === wanted) yield block.join('\n');
  }
};

const unescaped: Pass = function* (content, _lines, _search, old) {
  const undone = old.replace(
    /\\(n|t|r|'|"|`|\\|\$)/g,
    (_, char: string) => ({ n: '\n', t: '\t', r: '\r' })[char] ?? char,
  );
  if (content.includes(undone)) yield undone;
};

/**
 * The best window of as many lines as the old text has, by Levenshtein similarity of the whole text, searched from the
 * line hint outwards (whole file without one) and written from 0.9 on; new lines keep their depth relative to the window.
 */
export const bestWindow: Peer = (content, { oldString, newString, lineHint }) => {
  const eol = content.includes('\r\n') ? '\r\n' : '\n';
  const lines = content.split(/\r?\n/);
  const search = oldString.split(/\r?\n/);
  const place = bestWindowAt(lines, search, lineHint, 0.9);
  if (!place) return undefined;
  const indent = (line: string) => /^[\t ]*/.exec(line)![0];
  const base = indent(search[0]!);
  const target = indent(lines[place.at]!);
  const next = newString
    .split(/\r?\n/)
    .map((line) =>
      indent(line).startsWith(base)
        ? target + line.slice(base.length)
        : line.trim() === ''
          ? ''
          : target + line.trimStart(),
    );
  return [...lines.slice(0, place.at), ...next, ...lines.slice(place.at + search.length)].join(eol);
};

/** The naive best window: one Levenshtein distance for every line of the file. */
export function bestWindowAt(
  lines: readonly string[],
  search: readonly string[],
  lineHint: number | undefined,
  threshold: number,
): { at: number; score: number } | undefined {
  const norm = (text: string) =>
    text
      .replace(/[\u201c\u201d]/g, '"')
      .replace(/[\u2018\u2019]/g, "'")
      .replace(/\s+/g, ' ')
      .trim();
  const wanted = norm(search.join('\n'));
  const from = lineHint === undefined ? 0 : Math.max(0, lineHint - 1 - 40);
  const to = Math.min(lines.length, lineHint === undefined ? lines.length : lineHint + search.length + 40);
  let best: { at: number; score: number } | undefined;
  for (let at = from; at + search.length <= to; at++) {
    const block = norm(lines.slice(at, at + search.length).join('\n'));
    const longer = Math.max(block.length, wanted.length);
    const score = longer === 0 ? 0 : 1 - distance(block, wanted) / longer;
    if (!best || score > best.score) best = { at, score };
  }
  return best && best.score >= threshold ? best : undefined;
}
