import { hasLoneSurrogate, isBlank } from './fold.js';
import { placeholderIn } from './placeholder.js';
import type { EditRequest, RefusedEdit } from './types.js';

/** A request whose texts are ready to be looked for. */
export interface Prepared {
  /** As sent, with LF line ends and without BOM: what the exact pass looks for. */
  exactOld: string;
  exactNew: string;
  /** Without blank lines common to both starts and without the newline that ends both: what the other passes look for. */
  oldText: string;
  newText: string;
}

/** Checks a request and brings its texts into one form; a refusal when nothing could ever be written for it. */
export function prepare(request: EditRequest): Prepared | RefusedEdit {
  for (const [name, text] of [
    ['old_string', request.oldString],
    ['new_string', request.newString],
  ] as const) {
    if (hasLoneSurrogate(text))
      return refuse(
        'invalid_input',
        `${name} holds half of a surrogate pair, which no file can: send the whole character.`,
      );
  }
  const { lineHint } = request;
  if (lineHint !== undefined && (!Number.isInteger(lineHint) || lineHint < 1))
    return refuse('invalid_input', 'line_hint must be a whole number from 1, the line where old_string starts.');
  const exactOld = plain(request.oldString);
  const exactNew = plain(request.newString);
  if (isBlank(exactOld))
    return refuse(
      'invalid_input',
      'old_string is blank and names no place in a file that exists: send the lines to replace, or write the whole file with file_write.',
    );
  if (exactOld === exactNew)
    return refuse('no_change', 'old_string and new_string are the same (line ends aside): there is nothing to change.');
  const placeholder = placeholderIn(exactOld, exactNew);
  if (placeholder !== undefined) {
    return refuse(
      'invalid_input',
      `new_string holds a placeholder for code that is not written out (${JSON.stringify(placeholder.trim())}): it would replace that code. Send the whole text, or a smaller old_string.`,
    );
  }
  return { exactOld, exactNew, ...withoutCommonEdges(exactOld, exactNew) };
}

/** Drops blank lines common to both starts, and the final newline of both unless new is empty: the file's own stays then. */
export function withoutCommonEdges(old: string, next: string): { oldText: string; newText: string } {
  let oldText = old;
  let newText = next;
  for (;;) {
    const a = /^[ \t]*\n/.exec(oldText);
    const b = /^[ \t]*\n/.exec(newText);
    if (!a || !b) break;
    oldText = oldText.slice(a[0].length);
    newText = newText.slice(b[0].length);
  }
  if (newText !== '') {
    if (oldText.endsWith('\n')) oldText = oldText.slice(0, -1);
    if (newText.endsWith('\n')) newText = newText.slice(0, -1);
  }
  return { oldText, newText };
}

export function refuse(status: RefusedEdit['status'], message: string, more: Partial<RefusedEdit> = {}): RefusedEdit {
  return { status, message, lines: [], candidates: [], skipped: [], ...more };
}

function plain(text: string): string {
  return (text.charCodeAt(0) === 0xfeff ? text.slice(1) : text).replaceAll('\r\n', '\n');
}
