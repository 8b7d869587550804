import { distance as reference } from 'fastest-levenshtein';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { distance } from './levenshtein.js';
import { collapseBlanks } from './fold.js';
import { LineSequence } from './text-view.js';

it('the distance is that of another implementation, for texts of any length', () => {
  const unit = fc.constantFrom('a', 'b', 'c', ' ', 'é', '한', '\uD83D');
  const text = fc.array(unit, { maxLength: 150 }).map((units) => units.join(''));
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(distance(a, b)).toBe(reference(a, b));
    }),
    { numRuns: 2_000 },
  );
});

it('the index of lines knows all positions of a key, in order, and nothing else', () => {
  const lines = fc.array(fc.constantFrom('a', '  a', 'b ', '', ' ', 'cc', 'd', 'ee', 'f  g', 'f g'), { maxLength: 60 });
  fc.assert(
    fc.property(lines, (all) => {
      const sequence = new LineSequence(all, collapseBlanks);
      const keys = all.map(collapseBlanks);
      expect([...sequence.numbers]).toEqual(keys.flatMap((key, i) => (key === '' ? [] : [i])));
      for (const key of [...keys, 'x']) {
        const at = sequence.keys.flatMap((own, i) => (own === key ? [i] : []));
        expect([...(sequence.index.get(key) ?? [])]).toEqual(at);
        expect(sequence.index.has(key)).toBe(at.length > 0);
      }
      const distinct = sequence.distinct();
      const shortest = Array.from({ length: distinct.count }, (_, i) => distinct.key(i));
      expect(new Set(shortest)).toEqual(new Set(sequence.keys));
      expect(shortest.map(({ length }) => length)).toEqual(shortest.map(({ length }) => length).sort((a, b) => a - b));
    }),
  );
});
