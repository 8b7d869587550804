import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Suite } from './suite.ts';
import { suite as errors } from './suites/router-errors.ts';
import { suite as responses } from './suites/router-responses.ts';

const SUITES: [string, Suite, string][] = [
  ['router-errors', errors, 'errors.json'],
  ['router-responses', responses, 'responses.json'],
];

describe.each(SUITES)('%s', (_name, suite, file) => {
  it('every case comes out as written', async () => {
    const path = new URL(`./router/${file}`, import.meta.url).pathname;
    const failed = [];
    let count = 0;
    for await (const verdict of suite(JSON.parse(readFileSync(path, 'utf8')), path)) {
      count++;
      if (!verdict.ok) failed.push(verdict);
    }
    expect(failed).toEqual([]);
    expect(count).toBeGreaterThan(50);
  });
});
