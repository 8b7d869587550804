import { parseExactJson } from '@yardmaster/contracts';
import { pointerTo } from './json-pointer.js';

/**
 * The source texts of the numbers in a JSON text by JSON pointer, so that an id of twenty digits can be handed to a
 * text parameter unharmed. Empty for a text that is no JSON.
 */
export function numberLiterals(text: string): ReadonlyMap<string, string> {
  const literals = new Map<string, string>();
  // Numbers of one or two characters come back from JSON.parse as they were written.
  if (!/[0-9.eE]{3}/.test(text)) return literals;
  const sources = new Map<object, Map<string, string>>();
  let parsed: unknown;
  try {
    parsed = parseExactJson(text, (holder, key, literal) => {
      let known = sources.get(holder);
      if (!known) sources.set(holder, (known = new Map<string, string>()));
      known.set(key, literal);
    });
  } catch {
    return literals;
  }
  const visit = (at: unknown, path: string): void => {
    if (typeof at !== 'object' || at === null) return;
    const known = sources.get(at);
    for (const [key, child] of Object.entries(at)) {
      const here = pointerTo(path, key);
      const literal = typeof child === 'number' ? known?.get(key) : undefined;
      if (literal !== undefined) literals.set(here, literal);
      visit(child, here);
    }
  };
  visit(parsed, '');
  return literals;
}

/** Whether a whole number loses digits when JSON.parse reads it. */
export function isInexactInteger(literal: string): boolean {
  return /^-?[0-9]{16,}$/.test(literal) && BigInt(literal) !== BigInt(Number(literal));
}
