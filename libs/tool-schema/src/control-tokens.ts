import { own } from './json-schema.js';

/** S1: opens the control tokens of chat templates (`<|end|>`), so that text from outside never becomes one. */
export function neutralise(text: string): string {
  return text.replaceAll('<|', '< |');
}

/** S1 in every text and name of a value, for the model's eyes. */
export function neutraliseDeep(value: unknown): unknown {
  if (typeof value === 'string') return neutralise(value);
  if (Array.isArray(value)) return value.map(neutraliseDeep);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [neutralise(key), neutraliseDeep(item)]));
}

/**
 * What the model meant by a text it was shown neutralised: the member of `enum`, the `const`, the `default` or the
 * example that looks like it. Undefined when the text is none of these, or already the real one.
 */
export function realText(schema: Record<string, unknown>, shown: string): string | undefined {
  if (!shown.includes('< |')) return undefined;
  const known = [own(schema, 'const'), own(schema, 'default')];
  for (const keyword of ['enum', 'examples']) {
    const list = own(schema, keyword);
    if (Array.isArray(list)) known.push(...(list as unknown[]));
  }
  if (known.includes(shown)) return undefined;
  const real = known.filter((item): item is string => typeof item === 'string' && neutralise(item) === shown);
  return new Set(real).size === 1 ? real[0] : undefined;
}
