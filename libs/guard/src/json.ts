import { parseExactJson, YardError } from '@yardmaster/contracts';

export interface JsonLimits {
  maxBytes: number;
  maxDepth: number;
  maxKeys: number;
}

/** What any boundary accepts unless it says otherwise: 1 MiB, 64 levels, 10 000 keys. */
export const JSON_LIMITS: Readonly<JsonLimits> = { maxBytes: 1_048_576, maxDepth: 64, maxKeys: 10_000 };

const refuse = (code: string, message: string) => new YardError('INVALID', `YM-JSON-${code}`, message);

/**
 * JSON text as a value. The limits are checked on the text, before anything is built from it: a megabyte of brackets
 * parses in a second and then breaks whoever walks it. Throws INVALID, never with the text itself.
 * Also refused: numbers that JavaScript turns into Infinity (they would be written back as null), `__proto__` keys, and
 * halves of surrogate pairs: they are no text, so no protobuf string and no UTF-8 file can hold them.
 */
export function parseJson(text: string | Uint8Array, limits: Partial<JsonLimits> = {}): unknown {
  const { maxBytes, maxDepth, maxKeys } = { ...JSON_LIMITS, ...limits };
  const bytes = typeof text === 'string' ? Buffer.byteLength(text) : text.byteLength;
  if (bytes > maxBytes) throw refuse('SIZE', `The JSON has ${bytes} bytes, ${maxBytes} are allowed.`);
  const source = typeof text === 'string' ? text : decode(text);
  scan(source, maxDepth, maxKeys);
  let value: unknown;
  try {
    value = parseExactJson(source);
  } catch (error) {
    // The engine's message quotes the text; its position is all that may be told.
    const position = /position (\d+)/.exec((error as Error).message)?.[1];
    throw refuse('SYNTAX', `This is not valid JSON${position === undefined ? '' : ` (at character ${position})`}.`);
  }
  // Only texts that could spell the key, or half a pair, are walked: one in very many.
  if (/__proto__|\\u(005f|d[89a-f])/i.test(source)) assertJsonLimits(value, limits);
  return value;
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw refuse('UTF8', 'The JSON is not valid UTF-8.');
  }
}

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Counts levels and keys without building anything. Broken JSON may pass: the parser comes next. */
function scan(text: string, maxDepth: number, maxKeys: number): void {
  let depth = 0;
  let keys = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22) i = endOfString(text, i);
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > maxDepth) throw refuse('DEPTH', `The JSON is nested more than ${maxDepth} levels deep.`);
    } else if (code === 0x7d || code === 0x5d) depth--;
    else if (code === 0x3a) {
      if (++keys > maxKeys) throw refuse('KEYS', `The JSON has more than ${maxKeys} keys.`);
    } else if (code >= 0x30 && code <= 0x39) {
      NUMBER.lastIndex = i;
      const number = NUMBER.exec(text)![0];
      if (number.length > 17 || /e/i.test(number)) assertFinite(Number(number));
      i += number.length - 1;
    }
  }
}

/** Index of the quote that ends the string which begins at `start`; the text's end when there is none. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return end;
    end = text.indexOf('"', end + 1);
  }
  return text.length;
}

function assertFinite(number: number): void {
  if (!Number.isFinite(number)) throw refuse('NUMBER', 'The JSON has a number that is too large to be kept.');
}

/** Checks a value that someone else parsed, without recursion: depth, keys, numbers, `__proto__`. Throws INVALID. */
export function assertJsonLimits(value: unknown, limits: Partial<JsonLimits> = {}): void {
  const { maxDepth, maxKeys } = { ...JSON_LIMITS, ...limits };
  let keys = 0;
  const open: { value: unknown; depth: number }[] = [{ value, depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next.value === 'number') assertFinite(next.value);
    if (typeof next.value === 'string') assertText(next.value);
    if (typeof next.value !== 'object' || next.value === null) continue;
    const depth = next.depth + 1;
    if (depth > maxDepth) throw refuse('DEPTH', `The JSON is nested more than ${maxDepth} levels deep.`);
    if (Array.isArray(next.value)) {
      for (const item of next.value) open.push({ value: item, depth });
      continue;
    }
    for (const [key, item] of Object.entries(next.value)) {
      if (++keys > maxKeys) throw refuse('KEYS', `The JSON has more than ${maxKeys} keys.`);
      assertText(key);
      if (key === '__proto__') throw refuse('PROTO', 'The JSON has a key named __proto__, which no one may send.');
      open.push({ value: item, depth });
    }
  }
}

function assertText(text: string): void {
  if (/\p{Surrogate}/u.test(text))
    throw refuse('TEXT', 'The JSON has half of a surrogate pair (\\ud800 to \\udfff alone), which is no text.');
}

/** Reads a whole body, and stops at `maxBytes` (decompressed bytes, if the stream is). Throws INVALID. */
export async function readBody(chunks: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) throw refuse('SIZE', `The body has more than ${maxBytes} bytes.`);
    parts.push(chunk);
  }
  return Buffer.concat(parts);
}
