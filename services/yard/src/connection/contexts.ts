import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { UsageError } from '../cli/usage-error.js';

export interface Context {
  api_url: string;
  /** File with the key, or the key itself where it was given on stdin. */
  key_file?: string;
  key?: string;
}

export interface Contexts {
  current?: string;
  contexts: Record<string, Context>;
}

/** The name that always means the stack of this checkout. */
export const LOCAL = 'local';

/** `YM_CONTEXTS`, else `~/.config/yardmaster/contexts.json` (XDG_CONFIG_HOME counts). */
export function contextsFile(): string {
  return (
    process.env['YM_CONTEXTS'] ??
    join(process.env['XDG_CONFIG_HOME'] ?? join(homedir(), '.config'), 'yardmaster', 'contexts.json')
  );
}

export function readContexts(): Contexts {
  const file = contextsFile();
  if (!existsSync(file)) return { contexts: {} };
  try {
    const value = JSON.parse(readFileSync(file, 'utf8')) as Contexts;
    return { ...value, contexts: value.contexts ?? {} };
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/** Written beside and moved, so that a reader never sees half a file; only its owner may read it. */
export function writeContexts(contexts: Contexts): void {
  const file = contextsFile();
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(contexts, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}
