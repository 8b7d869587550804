import { createTwoFilesPatch } from 'diff';

/** Unified diff of two texts with three lines of context and full indentation; empty when they are equal. */
export function unifiedDiff(before: string, after: string, path: string): string {
  if (before === after) return '';
  return createTwoFilesPatch(`a/${path}`, `b/${path}`, before, after, undefined, undefined, {
    context: 3,
    headerOptions: { includeIndex: false, includeUnderline: false, includeFileHeaders: true },
  });
}
