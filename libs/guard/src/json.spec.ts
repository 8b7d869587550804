import { type YardError } from '@yardmaster/contracts';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assertJsonLimits, parseJson, readBody } from './json.js';

const code = (run: () => unknown): string => {
  try {
    run();
    return 'ok';
  } catch (error) {
    return (error as YardError).code;
  }
};

describe('JSON within the limits', () => {
  test('is what JSON.parse makes of it', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 10 }), fc.nat({ max: 2 }), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const hasProto = text.includes('"__proto__"');
        if (!hasProto) expect(parseJson(text)).toEqual(JSON.parse(text));
        if (!hasProto) expect(parseJson(Buffer.from(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  test('counts levels and keys of the structure, not of the strings', () => {
    const text = JSON.stringify({ a: '[[[[{"x":1}]]]]\\"', b: '\\', c: ['{', ':'] });
    expect(parseJson(text, { maxDepth: 2, maxKeys: 3 })).toEqual(JSON.parse(text));
  });

  test('is judged alike as text and as value', () => {
    const nested = (levels: number): unknown =>
      levels === 0 ? 1 : levels % 2 ? [nested(levels - 1)] : { k: nested(levels - 1) };
    fc.assert(
      fc.property(fc.nat({ max: 20 }), fc.nat({ max: 20 }), fc.nat({ max: 10 }), (levels, maxDepth, maxKeys) => {
        const value = nested(levels);
        const limits = { maxDepth, maxKeys };
        const asText = code(() => parseJson(JSON.stringify(value), limits));
        const asValue = code(() => assertJsonLimits(value, limits));
        expect(asText === 'ok').toBe(asValue === 'ok');
      }),
    );
  });
});

test.each<[string, string | Uint8Array, string]>([
  ['5 000 nested arrays', '['.repeat(5000) + ']'.repeat(5000), 'YM-JSON-DEPTH'],
  ['a million levels', '['.repeat(1e6), 'YM-JSON-DEPTH'],
  ['levels of objects', '{"a":'.repeat(65) + '1' + '}'.repeat(65), 'YM-JSON-DEPTH'],
  ['10 001 keys', JSON.stringify(Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [i, 0]))), 'YM-JSON-KEYS'],
  ['more than a megabyte', JSON.stringify('x'.repeat(1_048_576)), 'YM-JSON-SIZE'],
  ['bytes, not characters', JSON.stringify('€'.repeat(400_000)), 'YM-JSON-SIZE'],
  ['a number that becomes Infinity', '{"a":1e999}', 'YM-JSON-NUMBER'],
  ['a negative one', '[-1E+400]', 'YM-JSON-NUMBER'],
  ['four hundred digits', `[${'9'.repeat(400)}]`, 'YM-JSON-NUMBER'],
  ['a __proto__ key', '{"a":{"__proto__":{"admin":true}}}', 'YM-JSON-PROTO'],
  ['the same in escapes', '{"\\u005f_proto\\u005F_":1}', 'YM-JSON-PROTO'],
  ['half of a surrogate pair', '{"a":["x\\ud83d"]}', 'YM-JSON-TEXT'],
  ['the other half, in a key', '{"\\uDE00":1}', 'YM-JSON-TEXT'],
  ['invalid UTF-8', new Uint8Array([0x22, 0xff, 0x22]), 'YM-JSON-UTF8'],
  ['half a document', '{"a":', 'YM-JSON-SYNTAX'],
  ['an unfinished string', '"abc\\"', 'YM-JSON-SYNTAX'],
  ['nothing', '', 'YM-JSON-SYNTAX'],
])('%s is refused', (_, text, expected) => {
  expect(code(() => parseJson(text))).toBe(expected);
});

test('large numbers that fit and words with an e are fine', () => {
  expect(parseJson('[1e308,123456789012345678901234567890,true,false,"1e999"]')).toHaveLength(5);
  expect(parseJson('["\\ud83d\\ude00","\\\\ud83d"]')).toEqual(['😀', '\\ud83d']);
  expect(parseJson('{"note":"__proto__ is a name"}')).toEqual({ note: '__proto__ is a name' });
});

test('a refusal does not repeat the text', () => {
  const error = (() => {
    try {
      parseJson('{"key": hunter2}');
    } catch (e) {
      return e as Error;
    }
  })();
  expect(error?.message).not.toContain('hunter2');
  expect(error?.cause).toBeUndefined();
});

test('a body is read up to its limit and not further', async () => {
  let produced = 0;
  async function* endless() {
    for (;;) {
      produced += 1000;
      yield new Uint8Array(1000);
    }
  }
  await expect(readBody(endless(), 10_000)).rejects.toMatchObject({ code: 'YM-JSON-SIZE' });
  expect(produced).toBeLessThan(20_000);
});
