import { printable } from '../terminal.js';

/** Columns that a character takes in a terminal: two for East Asian wide ones and emoji, none for combining marks. */
function charWidth(code: number): number {
  if ((code >= 0x300 && code <= 0x36f) || code === 0x200b || code === 0x200d || (code >= 0xfe00 && code <= 0xfe0f))
    return 0;
  const wide =
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0xffe0 && code <= 0xffe6) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd);
  return wide ? 2 : 1;
}

/** How many columns a text takes. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += charWidth(character.codePointAt(0)!);
  return width;
}

/** The text cut to a number of columns, with an ellipsis where something is missing. */
export function cut(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  let width = 0;
  let kept = '';
  for (const character of text) {
    width += charWidth(character.codePointAt(0)!);
    if (width > columns - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

export interface Column<T> {
  name: string;
  of: (row: T) => string | number | null | undefined;
  /** Only with -o wide. */
  wide?: boolean;
  /** Longest, in columns; -o wide cuts nothing. */
  max?: number;
}

/** A table with a heading; what is absent is "-". Control characters are shown as escapes. */
export function table<T>(rows: readonly T[], columns: readonly Column<T>[], wide: boolean): string {
  const shown = columns.filter((column) => wide || column.wide !== true);
  const cells = rows.map((row) =>
    shown.map((column) => {
      const value = column.of(row);
      const text = value === null || value === undefined || value === '' ? '-' : String(value);
      const flat = printable(text.replace(/\s+/g, ' ').trim());
      return wide || column.max === undefined ? flat : cut(flat, column.max);
    }),
  );
  const widths = shown.map((column, index) =>
    Math.max(displayWidth(column.name), ...cells.map((row) => displayWidth(row[index]!))),
  );
  const line = (row: readonly string[]) =>
    row
      .map((cell, index) => cell + ' '.repeat(widths[index]! - displayWidth(cell)))
      .join('  ')
      .trimEnd();
  return [line(shown.map((column) => column.name.toUpperCase())), ...cells.map(line)].join('\n');
}

/** `12 s ago`, `3 h ago`; the exact time is in the JSON. */
export function ago(time: string | null | undefined, now = Date.now()): string {
  if (!time) return '-';
  const s = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (s < 120) return `${s} s ago`;
  if (s < 7200) return `${Math.round(s / 60)} min ago`;
  if (s < 172_800) return `${Math.round(s / 3600)} h ago`;
  return `${Math.round(s / 86_400)} d ago`;
}
