import type { FileHandle } from 'node:fs/promises';
import { readUpTo } from '../storage/read-file.js';

/** A file to search, held open. */
export interface Target {
  path: string;
  handle: FileHandle;
}

/** A line that matches; `line` counts from 1, `text` is cut. */
export interface Hit {
  path: string;
  line: number;
  text: string;
}

export interface Query {
  pattern: string;
  regex: boolean;
  maxBytes: number;
  /** Hits still wanted; a matcher may return more. */
  wanted: number;
  signal: AbortSignal;
}

/** Finds the matching lines of held files. Files that hold NUL bytes have none. */
export type Matcher = (targets: readonly Target[], query: Query) => Promise<Hit[]>;

const MAX_LINE_UNITS = 300;

/** A line as it is shown: its part around the match, when it is long. */
export function excerpt(line: string, matchAt: number): string {
  if (line.length <= MAX_LINE_UNITS) return line;
  const from = Math.max(0, Math.min(matchAt - 60, line.length - MAX_LINE_UNITS));
  const cut = line.slice(from, from + MAX_LINE_UNITS).replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, '');
  return `${from > 0 ? '…' : ''}${cut}${from + MAX_LINE_UNITS < line.length ? '…' : ''}`;
}

export const contentOf = ({ handle }: Target, maxBytes: number): Promise<Buffer | undefined> =>
  readUpTo(handle, maxBytes);
