import { readFileSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { suite as render } from './suites/render.ts';
import { suite as search } from './suites/search.ts';
import { suite as validate } from './suites/validate.ts';

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`./render/${name}`, import.meta.url), 'utf8'));

it.each([
  ['render.json', render],
  ['search.json', search],
  ['validate.json', validate],
])('all cases of %s pass', async (name, suite) => {
  // The suites tell people at a terminal which single queries miss.
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const failed: unknown[] = [];
  for await (const verdict of suite(read(name), name))
    if (!verdict.ok && verdict.skipped === undefined) failed.push(verdict);
  expect(failed).toEqual([]);
});
