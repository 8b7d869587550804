import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILT_IN_EXECUTORS, MCP_KIND } from '@yardmaster/contracts';

const FILE = 'executors.json';
const KIND = /^[a-z][a-z0-9-]{0,39}$/;
/** What runs these is Yardmaster itself. */
const TAKEN: readonly string[] = [...BUILT_IN_EXECUTORS, MCP_KIND, 'meta', 'none'];

/** Why a text cannot be the kind of an executor of one's own; undefined when it can. */
export function kindProblem(kind: string): string | undefined {
  if (!KIND.test(kind))
    return `"${kind.slice(0, 60)}" cannot be an executor kind: a letter, then at most 39 of a-z, 0-9 and -`;
  return TAKEN.includes(kind) ? `the kind "${kind}" is Yardmaster's own; choose another` : undefined;
}

/** The kinds that `yard executor add` has added to the stack of this folder, beside those of its configuration. */
export function addedExecutors(state: string): string[] {
  let stored: unknown;
  try {
    stored = JSON.parse(readFileSync(join(state, FILE), 'utf8'));
  } catch {
    return [];
  }
  return Array.isArray(stored)
    ? stored.filter((kind): kind is string => typeof kind === 'string' && kindProblem(kind) === undefined)
    : [];
}

/** Adds a kind; a reader sees the list before or after, never half of it. */
export function addExecutor(state: string, kind: string): void {
  const kinds = [...new Set([...addedExecutors(state), kind])].sort();
  const next = join(state, `${FILE}.${process.pid}`);
  writeFileSync(next, `${JSON.stringify(kinds)}\n`, { mode: 0o600 });
  renameSync(next, join(state, FILE));
}
