// What a model's copy of a text loses without meaning to: blanks, Unicode forms, typographic quotes and dashes.
const ZERO_WIDTH = /[\u200b-\u200d\u2060\ufeff\u00ad]/g;
const SPACES = /[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/g;
const SINGLE = /[\u2018\u2019\u201a\u201b\u2032]/g;
const DOUBLE = /[\u201c\u201d\u201e\u201f\u2033]/g;
const DASHES = /[\u2010-\u2015\u2212]/g;

/** Folds Unicode composition, zero-width characters, typographic quotes, dashes and special blanks; for comparing only. */
export function fold(text: string): string {
  if (!/[^\x00-\x7f]/.test(text)) return text;
  return text
    .normalize('NFC')
    .replace(ZERO_WIDTH, '')
    .replace(SPACES, ' ')
    .replace(SINGLE, "'")
    .replace(DOUBLE, '"')
    .replace(DASHES, '-')
    .replaceAll('\u2026', '...');
}

/** The line without outer blanks and with every inner run of blanks as one. */
export function collapseBlanks(line: string): string {
  const trimmed = line.trim();
  return /[\t\v\f]|\s\s|[\u00a0\u3000]/.test(trimmed) ? trimmed.replace(/\s+/g, ' ') : trimmed;
}

/** What a line is compared by when Unicode forms do not count. */
export function foldedKey(line: string): string {
  return collapseBlanks(fold(line));
}

/** The indentation of a line: its leading blanks. */
export function indentOf(line: string): string {
  return /^[\t \u00a0\u3000]*/.exec(line)![0];
}

export function isBlank(line: string): boolean {
  return line.trim() === '';
}

// Units that compose: a syllable of conjoining jamo, or a character with its marks. Lengths differ between the forms,
// so offsets are carried unit by unit and never by proportion.
const UNITS = /[\u1100-\u115f][\u1160-\u11a7]?[\u11a8-\u11ff]?|\P{M}\p{M}*|\p{M}+/gsu;

/** The comparison key of a line with, for each unit of the key, where it begins in the line (and one entry for the end). */
export function keyWithOffsets(line: string): { key: string; offsets: number[] } {
  let key = '';
  const offsets: number[] = [];
  let end = 0;
  let pendingBlank = -1;
  for (const match of line.matchAll(UNITS)) {
    const folded = fold(match[0]);
    if (folded === '') continue;
    if (folded.trim() === '') {
      if (key !== '' && pendingBlank < 0) pendingBlank = match.index;
      continue;
    }
    if (pendingBlank >= 0) {
      key += ' ';
      offsets.push(pendingBlank);
      pendingBlank = -1;
    }
    for (let i = 0; i < folded.length; i++) offsets.push(match.index);
    key += folded;
    end = match.index + match[0].length;
  }
  offsets.push(end);
  return { key, offsets };
}

const GENERIC_WORDS = new Set([
  'end',
  'else',
  'fi',
  'done',
  'esac',
  'then',
  'do',
  'begin',
  'try',
  'pass',
  'break',
  'continue',
  'return',
  'endif',
  'end if',
  '...',
  'else:',
  'try:',
  'finally:',
  'else {',
  '} else {',
  'try {',
  '} finally {',
  'return;',
  'break;',
  'continue;',
  'end;',
]);

/** Whether a key says nothing about its place: braces, comment frames, bare keywords. */
export function isGeneric(key: string): boolean {
  return !/[\p{L}\p{N}]/u.test(key) || GENERIC_WORDS.has(key.toLowerCase());
}

/** Whether half of a surrogate pair stands alone: UTF-8 has no form for it, so it would be written as U+FFFD. */
export function hasLoneSurrogate(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}
