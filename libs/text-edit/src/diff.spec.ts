import { applyPatch } from 'diff';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { diffOfSplices, unifiedDiff } from './diff.js';
import type { Splice } from './types.js';

const line = fc.constantFrom('a', 'b', '', 'longer one', 'd\r');
const text = fc
  .tuple(fc.array(line, { maxLength: 30 }), fc.constantFrom('', '\n'))
  .map(([all, end]) => all.join('\n') + end);
const added = fc.constantFrom('', 'x', 'x\n', '\nx', '\n', 'a\nb\n', 'q\nr');
const edits = fc.array(fc.tuple(fc.nat(), fc.nat(8), added), { maxLength: 4 });

function edited(before: string, wanted: readonly [number, number, string][]): { after: string; splices: Splice[] } {
  const splices: Splice[] = [];
  let at = 0;
  for (const [skip, length, put] of wanted) {
    const start = at + (skip % (before.length - at + 1));
    const end = Math.min(before.length, start + length);
    splices.push({ start, end, text: put });
    at = end;
  }
  let after = '';
  at = 0;
  for (const splice of splices) {
    after += before.slice(at, splice.start) + splice.text;
    at = splice.end;
  }
  return { after: after + before.slice(at), splices };
}
const applied = (before: string, diff: string) =>
  diff === '' ? before : applyPatch(before, diff, { autoConvertLineEndings: false });

it('applying a diff gives the new text, whether its changes are known or not', () => {
  fc.assert(
    fc.property(text, edits, (before, wanted) => {
      const { after, splices } = edited(before, wanted);
      expect(applied(before, unifiedDiff(before, after, 'a'))).toBe(after);
      expect(applied(before, diffOfSplices(before, after, splices, 'a'))).toBe(after);
    }),
    { numRuns: 500 },
  );
});

it('a diff with ten thousand changed lines is made from the changes, not by comparing the texts', () => {
  const before = 'old line\n'.repeat(20_000);
  const wanted = Array.from({ length: 10_000 }, (): [number, number, string] => [0, 0, '']);
  const splices = wanted.map((_, i) => ({ start: i * 18, end: i * 18 + 3, text: 'new' }));
  const after = 'new line\nold line\n'.repeat(10_000);
  const whole = diffOfSplices(before, after, splices, 'a');
  expect(whole.split('\n').filter((one) => one === '+new line')).toHaveLength(10_000);
  const cut = diffOfSplices(
    'old line\n\n\n\n\n\n\n\n'.repeat(100),
    'new line\n\n\n\n\n\n\n\n'.repeat(100),
    [...Array.from({ length: 100 }, (_, i) => ({ start: i * 16, end: i * 16 + 3, text: 'new' }))],
    'a',
    200,
  );
  expect(cut.length).toBeLessThan(400);
});
