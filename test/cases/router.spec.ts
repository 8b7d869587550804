import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Suite } from './suite.ts';
import { suite as errors } from './suites/router-errors.ts';
import { suite as responses } from './suites/router-responses.ts';

/** Name, suite, file, and the fewest cases that the file can hold. */
const SUITES: [string, Suite, string, number][] = [
  ['router-errors', errors, 'errors.json', 50],
  ['router-responses', responses, 'responses.json', 50],
  ['router-errors of llama.cpp', errors, 'llamacpp-errors.json', 12],
  ['router-responses of llama.cpp', responses, 'llamacpp-responses.json', 7],
];

describe.each(SUITES)('%s', (_name, suite, file, fewest) => {
  it('every case comes out as written', async () => {
    const path = new URL(`./router/${file}`, import.meta.url).pathname;
    const failed = [];
    let count = 0;
    for await (const verdict of suite(JSON.parse(readFileSync(path, 'utf8')), path)) {
      count++;
      if (!verdict.ok) failed.push(verdict);
    }
    expect(failed).toEqual([]);
    expect(count).toBeGreaterThanOrEqual(fewest);
  });
});
