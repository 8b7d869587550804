import { skipBlank, strictExtent } from './json-scan.js';
import { type JsonReading, isForbidden, readTolerant } from './tolerant-json.js';

const NO_LITERALS = new Map<string, string>();

/**
 * Reads the JSON object or list at `start`: strictly where it is strict JSON, else with the repairs of the tolerant
 * reader. Its end is found by reading, never by searching for a mark, since strings may hold any mark.
 */
export function readJson(text: string, start: number, closes?: (at: number) => boolean): JsonReading {
  const extent = strictExtent(text, start);
  let twice = false;
  if (extent.status === 'ok' && !extent.odd) {
    try {
      const slice = text.slice(start, extent.end);
      const value: unknown = JSON.parse(slice);
      twice = extent.keys > 1 && countKeys(value) !== extent.keys;
      if (!twice) {
        if (mayHoldForbiddenKey(slice)) dropForbiddenKeys(value);
        return { status: 'ok', value, end: extent.end, literals: NO_LITERALS, repairs: [] };
      }
    } catch {
      // A raw control character or an invalid escape in a string: the tolerant reader tells them apart.
    }
  }
  const reading = readTolerant(text, start, closes);
  if (reading.status === 'ok' && extent.status === 'ok' && reading.repairs.length === 0 && !extent.odd && !twice) {
    reading.repairs.push('raw_control_character');
  }
  return reading;
}

/** Reads a whole text that should be one JSON value and nothing else (arguments given as text). */
export function readJsonText(text: string): JsonReading {
  const start = skipBlank(text, 0);
  const first = text[start];
  // A number or a literal at the very end of a text is complete here: there is nothing more to come.
  const reading = first === '{' || first === '[' ? readJson(text, start) : readTolerant(`${text}\n`, 0);
  if (reading.status !== 'ok') return reading;
  return skipBlank(text, reading.end) >= text.length
    ? reading
    : { status: 'bad', at: reading.end, seen: text.length, message: 'more text after the end of the JSON' };
}

/** Three plain searches are several times faster than one pattern. A key may also be written with escapes. */
function mayHoldForbiddenKey(json: string): boolean {
  return json.includes('__proto__') || json.includes('constructor') || json.includes('\\u');
}

/** All keys of a value; JSON.parse keeps one of a kind. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const child of value) count += countKeys(child);
    return count;
  }
  for (const key in value) count += 1 + countKeys((value as Record<string, unknown>)[key]);
  return count;
}

function dropForbiddenKeys(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const key of Object.keys(value)) {
    const child = (value as Record<string, unknown>)[key];
    dropForbiddenKeys(key === '__proto__' ? undefined : child);
    if (!Array.isArray(value) && isForbidden(key, child)) delete (value as Record<string, unknown>)[key];
  }
}
