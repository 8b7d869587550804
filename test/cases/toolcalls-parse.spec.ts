import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { suite } from './suites/toolcalls-parse.ts';

const FILES = ['parse.json', 'own-parse.json'].map((name) => new URL(`./toolcalls/${name}`, import.meta.url));

describe('reading what models write', () => {
  it.each(FILES)('every committed case holds, in one piece and in pieces of any size', async (FILE) => {
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
