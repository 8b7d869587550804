import { pointerTo } from './json-pointer.js';

type Reviver = (this: object, key: string, value: unknown, context?: { source?: string }) => unknown;

/**
 * The source texts of the numbers in a JSON text by JSON pointer, so that an id of twenty digits can be handed to a
 * text parameter unharmed. Empty for a text that is no JSON.
 */
export function numberLiterals(text: string): ReadonlyMap<string, string> {
  const literals = new Map<string, string>();
  // Numbers of one or two characters come back from JSON.parse as they were written.
  if (!/[0-9.eE]{3}/.test(text)) return literals;
  const sources = new Map<object, Map<string, string>>();
  const note: Reviver = function (key, value, context) {
    if (typeof value === 'number' && context?.source !== undefined) {
      let known = sources.get(this);
      if (!known) sources.set(this, (known = new Map<string, string>()));
      known.set(key, context.source);
    }
    return value;
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(text, note as (key: string, value: unknown) => unknown);
  } catch {
    return literals;
  }
  const visit = (at: unknown, path: string): void => {
    if (typeof at !== 'object' || at === null) return;
    for (const [key, source] of sources.get(at) ?? []) literals.set(pointerTo(path, key), source);
    for (const [key, child] of Object.entries(at)) visit(child, pointerTo(path, key));
  };
  visit(parsed, '');
  return literals;
}

/** Whether a whole number loses digits when JSON.parse reads it. */
export function isInexactInteger(literal: string): boolean {
  return /^-?[0-9]{16,}$/.test(literal) && BigInt(literal) !== BigInt(Number(literal));
}
