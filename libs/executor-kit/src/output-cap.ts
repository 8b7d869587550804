/** What one result may hold, in bytes of UTF-8. More belongs into a file of the workspace. */
export const OUTPUT_CAP_BYTES = 256 * 1024;

/**
 * Keeps the beginning and the end of an output that is over the cap: errors come last, what was done comes first.
 * `cutChars` counts UTF-16 units left out.
 */
export function capOutput(text: string, capBytes = OUTPUT_CAP_BYTES): { output: string; cutChars: number } {
  // No character takes more than three bytes per UTF-16 unit, so most outputs need no counting.
  if (text.length * 3 <= capBytes || Buffer.byteLength(text) <= capBytes) return { output: text, cutChars: 0 };
  const room = capBytes - 100; // for the mark
  const bytes = Buffer.from(text);
  let headEnd = Math.floor(room * 0.75);
  while (headEnd > 0 && isContinuation(bytes[headEnd])) headEnd--;
  let tailStart = bytes.length - (room - headEnd);
  while (tailStart < bytes.length && isContinuation(bytes[tailStart])) tailStart++;
  const head = bytes.toString('utf8', 0, headEnd);
  const tail = bytes.toString('utf8', tailStart);
  const cutChars = text.length - head.length - tail.length;
  return { output: `${head}\n[... ${cutChars} characters left out ...]\n${tail}`, cutChars };
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;
