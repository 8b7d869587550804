import { describe, expect, it } from 'vitest';
import { parseExactJson } from './exact-json.js';

/** The keys of a text, each read alone. */
const spelled = (text: string) =>
  [...text.matchAll(/("(?:[^"\\]|\\.)*")\s*:/g)].map(([, key]) => JSON.parse(key!) as string);

describe('JSON whose keys are what the text says', () => {
  it.each([
    ['{"a":1,"\\\\":null}', '{"a":1,"\\"":null}'],
    ['{"b":1,"pat\\\\":0}', '{"b":1,"pat\\u0068":0}'],
    ['{"c":1,"gr\\\\u0":0}', '{"c":1,"gr\\u00f6\\u00dfe":0}'],
    ['[{"d":{"\\\\":[]}}]', '[{"d":{"\\n":[]}},{"d":{"\\t":[]}}]'],
  ])('a key like one that was seen before keeps its name: %s, then %s', (before, text) => {
    // Several times: the engine learns a shape when it meets it.
    for (let round = 0; round < 3; round++) {
      parseExactJson(before);
      JSON.parse(before);
      const found: string[] = [];
      const collect = (value: unknown) => {
        if (typeof value !== 'object' || value === null) return;
        for (const [key, child] of Object.entries(value)) {
          if (!Array.isArray(value)) found.push(key);
          collect(child);
        }
      };
      collect(parseExactJson(text));
      expect(found).toEqual(spelled(text));
    }
  });

  it.each([
    '{"\\"" : {"x":[1,-2.5e3,"\\\\",{"\\n":true}],"":null} , "k":[] , "o":{} }',
    ' [ {"\\u0061": "b\\"c\\":1"} , false , "{\\"\\":1}" ] ',
    '{"\\u0061":1,"a":2}',
    '{"1":0,"\\u0030":"x"}',
  ])('everything else comes out as JSON.parse has it: %s', (text) => {
    expect(JSON.stringify(parseExactJson(text))).toBe(JSON.stringify(JSON.parse(text)));
  });

  it('values may stand alone, __proto__ is a key like others, and nesting is no trouble', () => {
    expect(['1', '"\\n"', 'null', ' [] '].map((text) => parseExactJson(text))).toEqual([1, '\n', null, []]);
    const value = parseExactJson('{"\\u005f_proto__":{"x":1}}') as { x?: number };
    expect(Object.keys(value)).toEqual(['__proto__']);
    expect(value.x).toBeUndefined();
    const depth = 100_000;
    const deep = parseExactJson(`${'['.repeat(depth)}{"\\n":1}${']'.repeat(depth)}`);
    expect(Array.isArray(deep)).toBe(true);
  });

  it.each(['', '{"\\":1}', '{"a":1,}', '{"\\n":1} x', '"'])('what is no JSON is refused as ever: %s', (text) => {
    expect(() => parseExactJson(text)).toThrow(SyntaxError);
  });
});
