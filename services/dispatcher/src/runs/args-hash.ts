import { createHash, randomBytes } from 'node:crypto';

export const newNonce = () => randomBytes(16).toString('hex');

/** Canonical JSON: keys sorted at every level, so that equal arguments have one text. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`).join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

/** SHA-256 (hex) of the canonical arguments. */
export const argsHashOf = (args: unknown) => createHash('sha256').update(canonicalJson(args)).digest('hex');
