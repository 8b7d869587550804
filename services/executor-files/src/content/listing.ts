/** Lines with their numbers, as `file_read` shows them. */
export interface Listing {
  text: string;
  /** Lines of the whole file. */
  lines: number;
  /** The lines shown, from 1; `to` is `from - 1` when none is. */
  from: number;
  to: number;
}

const MAX_LINE_UNITS = 2_000;
/** Below what a result may hold, so that no listing is cut in its middle. */
const MAX_LISTING_UNITS = 80_000;

/**
 * Lines `offset` (from 1) and on, at most `limit`, each as its number, a tab and its text: the one form in which files
 * are shown, which the edit tools undo when a model copies it. A carriage return before the line end is left out.
 */
export function listing(text: string, offset: number, limit: number): Listing {
  const shown: string[] = [];
  let units = 0;
  let lines = 0;
  let full = false;
  for (let at = 0; at < text.length;) {
    const found = text.indexOf('\n', at);
    const end = found < 0 ? text.length : found;
    lines++;
    if (lines >= offset && shown.length < limit && !full) {
      const line = numbered(lines, text.slice(at, end > at && text[end - 1] === '\r' ? end - 1 : end));
      full = shown.length > 0 && units + line.length > MAX_LISTING_UNITS;
      if (!full) shown.push(line);
      units += line.length + 1;
    }
    at = end + 1;
  }
  return { text: shown.join('\n'), lines, from: offset, to: offset + shown.length - 1 };
}

function numbered(number: number, line: string): string {
  const prefix = `${String(number).padStart(6)}\t`;
  if (line.length <= MAX_LINE_UNITS) return prefix + line;
  // Not between the halves of a surrogate pair.
  const head = line.slice(0, MAX_LINE_UNITS).replace(/[\uD800-\uDBFF]$/, '');
  return `${prefix}${head}… (${line.length - head.length} more characters in this line)`;
}

/** How the lines of a text end. */
export function lineEnds(text: string): 'lf' | 'crlf' | 'mixed' | 'none' {
  let lf = 0;
  let crlf = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (at > 0 && text[at - 1] === '\r') crlf++;
    else lf++;
  }
  if (lf > 0 && crlf > 0) return 'mixed';
  return crlf > 0 ? 'crlf' : lf > 0 ? 'lf' : 'none';
}
