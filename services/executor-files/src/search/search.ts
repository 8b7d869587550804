import type { FileHandle } from 'node:fs/promises';
import type { ContentThreads, OnBehalf } from '../content/content-threads.js';
import type { LineHit, Pattern } from '../content/tasks.js';
import { readUpTo } from '../storage/read-file.js';

/** A file to search, held open. */
export interface Target {
  path: string;
  handle: FileHandle;
}

/** A line that matches. */
export interface Hit extends LineHit {
  path: string;
}

export interface Query extends Pattern {
  maxBytes: number;
  /** Hits still wanted; a matcher may return more. */
  wanted: number;
  content: ContentThreads;
  /** Who searches. */
  context: OnBehalf;
}

/** Finds the matching lines of held files. Files that hold NUL bytes have none. */
export type Matcher = (targets: readonly Target[], query: Query) => Promise<Hit[]>;

/** The hits of a batch with the paths of its files. */
export const named = (targets: readonly Target[], hits: readonly LineHit[][]): Hit[] =>
  hits.flatMap((ofOne, index) => ofOne.map((hit) => ({ path: targets[index]!.path, ...hit })));

export const contentOf = ({ handle }: Target, maxBytes: number): Promise<Buffer | undefined> =>
  readUpTo(handle, maxBytes);
