import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CoercionChange, type JsonSchema, checkArguments, coerceArguments, validateArguments } from './index.js';

const object = (properties: Record<string, unknown>, required: string[] = []) => ({
  type: 'object',
  properties,
  required,
});
const one = (schema: unknown, value: unknown) =>
  (coerceArguments(object({ v: schema }), { v: value }) as { v: unknown }).v;

describe('coercion', () => {
  it('reads numbers only in the form of JSON', () => {
    for (const text of ['1', '-0.5', '1e3', '2E-2']) expect(one({ type: 'number' }, text)).toBe(Number(text));
    for (const text of ['', ' 1', '+1', '01', '.5', '1.', '0x1', '1_000', 'NaN', 'Infinity', '1e999', '１']) {
      expect(one({ type: 'number' }, text)).toBe(text);
    }
    expect(one({ type: 'integer' }, '7.0')).toBe(7);
    expect(one({ type: 'integer' }, '9007199254740993')).toBe('9007199254740993');
  });

  it('reads booleans in two spellings and no other', () => {
    expect(['true', 'false', 'True', 'False'].map((text) => one({ type: 'boolean' }, text))).toEqual([
      true,
      false,
      true,
      false,
    ]);
    for (const value of ['TRUE', 'yes', '1', '', 1, 0]) expect(one({ type: 'boolean' }, value)).toBe(value);
  });

  it('takes a type list as a choice and coerces where one reading is left', () => {
    expect(one({ type: ['integer', 'null'] }, '7')).toBe(7);
    expect(one({ type: ['string', 'integer'] }, '7')).toBe('7');
    expect(one({ type: ['boolean', 'integer'] }, 'true')).toBe(true);
    expect(one({ type: ['array', 'null'], items: { type: 'integer' } }, '5')).toEqual([5]);
    expect(one({ type: ['integer', 'array'] }, 5)).toBe(5);
    expect(one({ type: ['string', 'null'] }, 5)).toBe('5');
  });

  it('follows references, lists, maps and all parts of allOf', () => {
    const schema = {
      ...object({
        ref: { $ref: '#/$defs/n' },
        list: { type: 'array', items: { $ref: '#/$defs/n' } },
        map: { type: 'object', additionalProperties: { type: 'integer' } },
        both: { allOf: [{ type: 'integer' }, { minimum: 2 }] },
      }),
      patternProperties: { '^x-': { type: 'boolean' } },
      $defs: { n: { type: 'integer' } },
    };
    const sent = { ref: '1', list: ['2', 3], map: { a: '4' }, both: '5', 'x-y': 'true' };
    const wanted = { ref: 1, list: [2, 3], map: { a: 4 }, both: 5, 'x-y': true };
    expect(coerceArguments(schema, sent)).toEqual(wanted);
  });

  it('reads tuples of both dialects', () => {
    const tuple = [{ type: 'integer' }, { type: 'string' }];
    expect(one({ type: 'array', prefixItems: tuple, items: { type: 'boolean' } }, ['1', 2, 'true'])).toEqual([
      1,
      '2',
      true,
    ]);
    const old = { ...object({ v: { type: 'array', items: tuple, additionalItems: { type: 'boolean' } } }) };
    const schema = { $schema: 'http://json-schema.org/draft-07/schema#', ...old };
    expect(coerceArguments(schema, { v: ['1', 2, 'true'] })).toEqual({ v: [1, '2', true] });
  });

  it('changes a value in a union only if exactly one branch becomes valid', () => {
    const numberOrFlag = { anyOf: [{ type: 'integer' }, { type: 'boolean' }] };
    expect(one(numberOrFlag, '7')).toBe(7);
    expect(one(numberOrFlag, 'true')).toBe(true);
    expect(one({ anyOf: [{ type: 'integer' }, { type: 'number' }] }, '7')).toBe('7');
    expect(one({ oneOf: [{ type: 'integer' }, { type: 'array', items: { type: 'string' } }] }, '7')).toBe('7');
  });

  it('keeps the digits of a number where text is asked', () => {
    const schema = object({ id: { type: 'string' }, n: { type: 'integer' } });
    const verdict = checkArguments({ name: 't', inputSchema: schema }, '{"id": 12345678901234567890}');
    expect(verdict).toMatchObject({ ok: true, args: { id: '12345678901234567890' } });
    const rounded = checkArguments({ name: 't', inputSchema: schema }, '{"n": 9007199254740993}');
    expect(rounded).toMatchObject({ ok: false, errors: [{ path: '/n' }] });
    expect(checkArguments({ name: 't', inputSchema: schema }, '{"n": 9007199254740994}').ok).toBe(true);
  });

  it('maps neutralised control tokens back', () => {
    const schema = object({ mode: { type: 'string', enum: ['<|a|>', 'b'] }, '<|k|>': { type: 'integer' } });
    expect(coerceArguments(schema, { mode: '< |a|>', '< |k|>': '3' })).toEqual({ mode: '<|a|>', '<|k|>': 3 });
    expect(one({ type: 'string', default: '<|end|>' }, '< |end|>')).toBe('<|end|>');
    expect(one({ type: 'string' }, '< |end|>')).toBe('< |end|>');
  });

  it('does not let a text bring in what the limits keep out', () => {
    expect(one({ type: 'object' }, '{"__proto__":{"a":1}}')).toBe('{"__proto__":{"a":1}}');
    const deep = '['.repeat(80) + ']'.repeat(80);
    expect(one({ type: 'array' }, deep)).not.toEqual(JSON.parse(deep));
  });

  it('gives a default that breaks the call back', () => {
    const schema = { ...object({ a: { type: 'integer' }, b: { type: 'integer', default: 1 } }), maxProperties: 1 };
    expect(coerceArguments(schema, { a: '1' })).toEqual({ a: 1 });
    expect(coerceArguments(object({ b: { type: 'integer', default: 'x' } }), {})).toEqual({});
  });

  it('writes down each change with its rule', () => {
    const changes: CoercionChange[] = [];
    const schema = object({ a: { type: 'integer' }, b: { type: 'string' }, c: { type: 'string', default: 'z' } });
    coerceArguments(schema, { a: '1', b: null }, { changes });
    expect(changes).toEqual([
      { path: '/a', rule: 'K1', from: '1', to: 1 },
      { path: '/b', rule: 'K4', from: null, to: undefined },
      { path: '/c', rule: 'K7', from: undefined, to: 'z' },
    ]);
  });
});

const schemas = fc.letrec<{ schema: JsonSchema }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<JsonSchema>(
      { type: 'string' },
      { type: 'integer' },
      { type: 'number' },
      { type: 'boolean' },
      { type: ['string', 'null'] },
      { type: 'integer', default: 3 },
      { enum: ['A', 'b', 1] },
      { type: 'string', enum: ['On', 'off'] },
      true,
    ),
    tie('schema').map((items) => ({ type: 'array', items })),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
    fc
      .tuple(fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('schema')), fc.subarray(['a', 'b']), fc.boolean())
      .map(([properties, required, additionalProperties]) => ({
        type: 'object',
        properties,
        required: required.filter((key) => key in properties),
        additionalProperties,
      })),
  ),
})).schema;
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom<unknown>('1', '7.5', 'true', 'on', 'null', '', '[1,"2"]', '{"a":"1"}', null, 1, 2.5, true, 'A'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('a', 'b', 'c', 'toString', '__proto__'), tie('value'), { maxKeys: 3 }),
  ),
})).value;

describe('the laws of coercion', () => {
  it('never changes its argument, gives something valid or the very same value, and is idempotent', () => {
    fc.assert(
      fc.property(schemas, values, (schema, value) => {
        const before = JSON.stringify(value);
        const coerced = coerceArguments(schema, value);
        expect(JSON.stringify(value)).toBe(before);
        if (coerced !== value) expect(validateArguments(schema, coerced)).toEqual({ ok: true });
        else if (validateArguments(schema, value).ok) expect(coerced).toBe(value);
        expect(coerceArguments(schema, coerced)).toEqual(coerced);
      }),
      { numRuns: 120 },
    );
  });

  it('changes nothing in what is valid but to fill in defaults', () => {
    fc.assert(
      fc.property(schemas, values, (schema, value) => {
        if (!validateArguments(schema, value).ok) return;
        const changes: CoercionChange[] = [];
        coerceArguments(schema, value, { changes });
        expect(changes.map((change) => change.rule).filter((rule) => rule !== 'K7')).toEqual([]);
      }),
      { numRuns: 120 },
    );
  });

  it('never throws, whatever the text', () => {
    fc.assert(
      fc.property(schemas, fc.oneof(fc.string(), fc.json()), (inputSchema, text) => {
        const verdict = checkArguments({ name: 't', inputSchema }, text);
        if (!verdict.ok) expect(verdict.text.length).toBeLessThan(2500);
      }),
    );
  });
});
