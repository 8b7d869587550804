import { pointerTo } from './json-pointer.js';

/** Arguments of more JSON text than this are refused. */
export const MAX_ARGUMENT_BYTES = 256 * 1024;
/** Arguments with more levels of objects and lists than this are refused. */
export const MAX_ARGUMENT_DEPTH = 64;

/** Whether objects and lists are nested more deeply than allowed; without recursion, and it stops at the limit. */
export function nestingOf(value: unknown, limit = MAX_ARGUMENT_DEPTH): { tooDeep: boolean } {
  const open: [unknown, number][] = [[value, 0]];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const [item, depth] = at;
    if (typeof item !== 'object' || item === null) continue;
    if (depth + 1 > limit) return { tooDeep: true };
    for (const child of Array.isArray(item) ? item : Object.values(item)) {
      if (typeof child === 'object' && child !== null) open.push([child, depth + 1]);
    }
  }
  return { tooDeep: false };
}

/**
 * The pointer of the first key that could reach a prototype: an own `__proto__`, or a `constructor` that holds an own
 * `prototype`. The value must not be nested too deeply.
 */
export function forbiddenKey(value: unknown, path = ''): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const found = forbiddenKey(item, `${path}/${index}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  for (const [key, item] of Object.entries(value)) {
    const here = pointerTo(path, key);
    if (key === '__proto__') return here;
    if (
      key === 'constructor' &&
      typeof item === 'object' &&
      item !== null &&
      Object.hasOwn(item as object, 'prototype')
    ) {
      return here;
    }
    const found = forbiddenKey(item, here);
    if (found !== undefined) return found;
  }
  return undefined;
}
