import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { suite } from './suites/toolcalls-results.ts';

const FILES = ['results.json', 'own-results.json'].map((name) => new URL(`./toolcalls/${name}`, import.meta.url));

describe('what is sent back to models', () => {
  it.each(FILES)('every committed case holds', async (FILE) => {
    const content: unknown = JSON.parse(readFileSync(FILE, 'utf8'));
    const failed = [];
    let count = 0;
    for await (const verdict of suite(content, FILE.pathname)) {
      count++;
      if (!verdict.ok) failed.push(verdict);
    }
    expect(failed).toEqual([]);
    expect(count).toBe((content as unknown[]).length);
  });
});
