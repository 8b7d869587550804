import { hash } from 'node:crypto';
import { parseExactJson, YardError } from '@yardmaster/contracts';

/**
 * SHA-256 (hex) of a call's arguments in canonical form: members sorted by name, no white space. The dispatcher writes
 * it, executors and approvals compare it. Throws INVALID when the text is no JSON.
 */
export function argsHash(argumentsJson: string): string {
  let value: unknown;
  try {
    value = parseExactJson(argumentsJson);
  } catch (cause) {
    throw new YardError('INVALID', 'YM-ARGUMENTS', 'The arguments are no JSON.', { cause });
  }
  return sha256(canonicalJson(value));
}

/** Is this the hash of these arguments? Text that is canonical already is not parsed. */
export function matchesArgsHash(argumentsJson: string, wanted: string): boolean {
  if (sha256(argumentsJson) === wanted) return true;
  try {
    return argsHash(argumentsJson) === wanted;
  } catch {
    return false;
  }
}

/** JSON with the members of every object sorted by name. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`);
  return `{${members.join(',')}}`;
}

const sha256 = (text: string) => hash('sha256', text, 'hex');
