import { parseExactJson } from '@yardmaster/contracts';

/** A parsed JSON object whose fields nobody has checked yet. */
export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function asObject(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined;
}

export function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Below this a text cannot hold enough to hurt. */
const SMALL = 64 * 1024;
const MAX_DEPTH = 256;
const MAX_CONTAINERS = 200_000;

/** Parses, or undefined: for text that need not be JSON. Absurdly deep or bushy JSON counts as none. */
export function tryParse(text: string): unknown {
  if (text.length > SMALL && !isModest(text)) return undefined;
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}

/** Serialises, or the empty string for what cannot be (absurd depth). */
export function stringifySafely(value: unknown): string {
  try {
    return JSON.stringify(value) ?? '';
  } catch {
    return '';
  }
}

/** A parsed object costs a hundred times its two bytes, so their number is limited before anything is parsed. */
function isModest(text: string): boolean {
  let depth = 0;
  let containers = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 34) {
      // A string: to its closing quote, over escaped ones.
      for (i++; i < text.length; i++) {
        const inner = text.charCodeAt(i);
        if (inner === 92) i++;
        else if (inner === 34) break;
      }
    } else if (code === 91 || code === 123) {
      if (++depth > MAX_DEPTH || ++containers > MAX_CONTAINERS) return false;
    } else if (code === 93 || code === 125) depth--;
  }
  return true;
}
