/** Longest output that goes into a message, in UTF-16 units, unless a deployment says otherwise. */
export const DEFAULT_MAX_OUTPUT_CHARS = 20_000;

const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const SURROGATE = /[\ud800-\udfff]/;
// Line breaks and tabs stay.
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

// A byte-order mark is a part of the file that a tool read.
const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

export interface PreparedOutput {
  text: string;
  /** How many UTF-16 units were cut out, 0 if none. */
  omitted: number;
}

/**
 * A tool's output as text for a message: decoded, well-formed, control bytes visible, and cut to `maxChars` (mark
 * included) with head and tail kept. Tags are untouched: neutralising comes last, or a cut could put one together.
 * `cutBefore`: characters that whoever ran the tool has cut out of the middle already; a second cut tells the sum.
 */
export function prepareOutput(
  output: string | Uint8Array,
  maxChars = DEFAULT_MAX_OUTPUT_CHARS,
  cutBefore = 0,
): PreparedOutput {
  const decoded = typeof output === 'string' ? output : DECODER.decode(output);
  const wellFormed = SURROGATE.test(decoded) ? decoded.replace(LONE_SURROGATE, '\ufffd') : decoded;
  return cut(wellFormed.replace(CONTROL, visible), maxChars, cutBefore);
}

/** The picture of a control character, one for one, so that counts stay true. */
function visible(char: string): string {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? '\u2421' : '\ufffd';
}

/** Keeps 70 % from the head and 30 % from the tail and says how much is gone, never half of a surrogate pair. */
function cut(text: string, maxChars: number, cutBefore: number): PreparedOutput {
  if (text.length <= maxChars) return { text, omitted: 0 };
  const room = Math.max(0, maxChars - omission(text.length + cutBefore).length);
  let head = Math.floor(room * 0.7);
  if (head > 0 && isHighSurrogate(text.charCodeAt(head - 1))) head--;
  let tail = text.length - (room - head);
  if (tail < text.length && isLowSurrogate(text.charCodeAt(tail))) tail++;
  const omitted = tail - head + cutBefore - markLength(text.slice(head, tail), cutBefore);
  return { text: `${text.slice(0, head)}${omission(omitted)}${text.slice(tail)}`, omitted };
}

function omission(count: number): string {
  return `\n[... ${count} characters omitted ...]\n`;
}

/** The former cut's own mark was no output: it is not counted where it is cut out too. */
function markLength(gone: string, cutBefore: number): number {
  if (cutBefore === 0) return 0;
  return new RegExp(`\\n\\[\\.\\.\\. ${cutBefore} characters [^\\n\\]]{1,40}\\]\\n`).exec(gone)?.[0].length ?? 0;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
