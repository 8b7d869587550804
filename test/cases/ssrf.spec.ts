import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { suite } from './suites/ssrf.ts';

test('every address of the committed cases is judged as written', async () => {
  const file = new URL('./security/ssrf.json', import.meta.url);
  const failed = [];
  let passed = 0;
  for await (const verdict of suite(JSON.parse(readFileSync(file, 'utf8')), file.pathname)) {
    if (verdict.ok) passed++;
    else failed.push(verdict);
  }
  expect(failed).toEqual([]);
  expect(passed).toBeGreaterThan(60);
});
