import { pointerTo } from './json-pointer.js';

/** Arguments of more JSON text than this are refused. */
export const MAX_ARGUMENT_BYTES = 256 * 1024;
/** Arguments with more levels of objects and lists than this are refused. */
export const MAX_ARGUMENT_DEPTH = 64;

/** Whether objects and lists are nested more deeply than allowed; looks no deeper than that. */
export function nestingOf(value: unknown, limit = MAX_ARGUMENT_DEPTH): { tooDeep: boolean } {
  return { tooDeep: isDeeper(value, limit) };
}

function isDeeper(value: unknown, levelsLeft: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levelsLeft === 0) return true;
  if (Array.isArray(value)) return value.some((item) => isDeeper(item, levelsLeft - 1));
  for (const key in value) if (isDeeper((value as Record<string, unknown>)[key], levelsLeft - 1)) return true;
  return false;
}

/**
 * The pointer of the first key that could reach a prototype: an own `__proto__`, or a `constructor` that holds an own
 * `prototype`. The value must not be nested too deeply.
 */
export function forbiddenKey(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const here = pointerTo('', key);
    if (key === '__proto__') return here;
    const holdsPrototype = typeof item === 'object' && item !== null && Object.hasOwn(item as object, 'prototype');
    if (key === 'constructor' && holdsPrototype && !Array.isArray(value)) return here;
    const found = forbiddenKey(item);
    if (found !== undefined) return here + found;
  }
  return undefined;
}

/** Whether a JSON text can hold a forbidden key at all: spelled out, or with escapes. */
export function mayHoldForbiddenKey(text: string): boolean {
  return text.includes('__proto__') || text.includes('constructor') || text.includes('\\u');
}
