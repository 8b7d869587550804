import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { suite } from './suites/edits.ts';

it('every edit case of the committed file is met', async () => {
  const file = new URL('./edits/edits.json', import.meta.url);
  let count = 0;
  const failed: unknown[] = [];
  for await (const verdict of suite(JSON.parse(readFileSync(file, 'utf8')), file.pathname)) {
    count++;
    if (!verdict.ok) failed.push({ id: verdict.id, why: verdict.why });
  }
  expect(failed).toEqual([]);
  expect(count).toBeGreaterThan(100);
});
