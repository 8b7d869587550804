import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { suite as attacks } from './suites/shell-attacks.ts';
import { suite as dependencies } from './suites/shell-deps.ts';

const file = (name: string): string => new URL(`./sandbox/${name}`, import.meta.url).pathname;

describe('sandbox cases', () => {
  it.each([
    ['attacks.json', attacks],
    ['deps.json', dependencies],
  ] as const)(
    'every case of %s comes to its verdict',
    async (name, suite) => {
      const failed = [];
      let passed = 0;
      for await (const verdict of suite(JSON.parse(readFileSync(file(name), 'utf8')), file(name))) {
        if (verdict.ok) passed++;
        else if (verdict.skipped === undefined) failed.push(verdict);
      }
      expect(failed).toEqual([]);
      expect(passed).toBeGreaterThan(30);
    },
    300_000,
  );
});
