import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { ERROR_CATALOGUE, fixerOf } from './error-catalogue.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

it('explains every code that the source can throw', () => {
  const files = globSync(['libs/*/src/**/*.ts', 'services/*/src/**/*.ts'], { cwd: ROOT }).filter(
    (file) => !file.endsWith('.spec.ts') && !file.includes('/gen/'),
  );
  const codes = files.flatMap((file) =>
    [...readFileSync(`${ROOT}${file}`, 'utf8').matchAll(/['"`](YM(?:-[A-Z0-9]+)+)['"`]/g)].map(([, code]) => code!),
  );
  expect(codes.length).toBeGreaterThan(100);
  const unexplained = [...new Set(codes)].filter((code) => !Object.hasOwn(ERROR_CATALOGUE, code));
  expect(unexplained, 'add them to libs/contracts/src/error-catalogue.ts').toEqual([]);
});

it('explains what the file tools refuse, whose codes are made of their reasons', () => {
  const source = readFileSync(`${ROOT}services/executor-files/src/refusal.ts`, 'utf8');
  const reasons = [...source.matchAll(/^  ([a-z0-9_]+): '[A-Z_]+',$/gm)].map(([, reason]) => reason!);
  expect(reasons.length).toBeGreaterThan(10);
  const codes = reasons.map((reason) => `YM-FILES-${reason.replaceAll('_', '-').toUpperCase()}`);
  expect(codes.filter((code) => !Object.hasOwn(ERROR_CATALOGUE, code))).toEqual([]);
});

it('says of each what it means, what to do and who can do it', () => {
  for (const entry of Object.values(ERROR_CATALOGUE)) {
    expect(entry.means).toMatch(/\.$/);
    expect(entry.remedy).not.toBe('');
    expect(fixerOf(entry)).not.toBe('');
  }
});
