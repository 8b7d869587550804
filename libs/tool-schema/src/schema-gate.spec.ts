import { describe, expect, it } from 'vitest';
import { gateSchema } from './index.js';

const nested = (levels: number): unknown => {
  let schema: unknown = { type: 'string' };
  for (let level = 1; level < levels; level++) schema = { type: 'object', properties: { a: schema } };
  return schema;
};
const code = async (schema: unknown, name?: string) => {
  const verdict = await gateSchema(schema, name === undefined ? {} : { name });
  return verdict.accepted ? 'accepted' : verdict.code;
};

describe('the gate for schemas', () => {
  it('accepts thirty-two levels of schemas and no more', async () => {
    expect(await code(nested(32))).toBe('accepted');
    expect(await code(nested(33))).toBe('too_deep');
  });

  it('accepts two thousand subschemas and no more', async () => {
    const wide = (count: number) => ({
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, true])),
    });
    expect(await code(wide(1999))).toBe('accepted');
    expect(await code(wide(2000))).toBe('too_many_subschemas');
  });

  it('reports the first reason in a fixed order', async () => {
    expect(await code({ type: 'array' }, '__x')).toBe('bad_name');
    expect(await code({ type: 'object', $schema: 'https://json-schema.org/draft/2019-09/schema', $ref: 'x' })).toBe(
      'bad_dialect',
    );
    expect(await code({ type: 'object', $ref: 'x', pattern: '(' })).toBe('remote_ref');
    expect(await code({ type: 'object', properties: { a: { pattern: '(?=x)' }, b: { pattern: '(' } } })).toBe(
      'bad_pattern',
    );
    expect(await code({ type: 'object', properties: { a: { pattern: '(?=x)', type: 'text' } } })).toBe(
      'unsafe_pattern',
    );
    expect(await code({ type: 'object', properties: { a: { $ref: '#/x' }, b: { type: 'text' } } })).toBe('bad_schema');
  });

  it('measures the JSON in bytes', async () => {
    const described = (text: string) => ({ type: 'object', description: text });
    expect(await code(described('가'.repeat(21_000)))).toBe('accepted');
    expect(await code(described('가'.repeat(22_000)))).toBe('too_large');
    expect(await code(described('x'.repeat(65_536)))).toBe('too_large');
  });

  it('refuses references that lead back to themselves and ones without a target', async () => {
    const loop = { type: 'object', properties: { a: { $ref: '#/$defs/a' } }, $defs: { a: { $ref: '#/$defs/a' } } };
    expect(await code(loop)).toBe('bad_ref');
    expect(await code({ type: 'object', properties: { a: { $ref: '#nowhere' } } })).toBe('bad_ref');
    const tree = { type: 'object', properties: { children: { type: 'array', items: { $ref: '#' } } } };
    expect(await code(tree)).toBe('accepted');
    const anchored = {
      type: 'object',
      properties: { a: { $ref: '#p' } },
      $defs: { p: { $anchor: 'p', type: 'string' } },
    };
    expect(await code(anchored)).toBe('accepted');
  });

  it('takes Unicode classes as JavaScript writes them', async () => {
    const pattern = '^[\\w\\-.]+\\p{Script=Hangul}\\p{Letter}\\u00e9[^]$';
    expect(await code({ type: 'object', properties: { a: { type: 'string', pattern } } })).toBe('accepted');
  });

  it('decides about what compiles too slowly, and goes on with the next one', async () => {
    const allOf = Array.from({ length: 990 }, (_, index) => ({ properties: { [`q${index}`]: { type: 'string' } } }));
    const slow = gateSchema({ type: 'object', allOf, unevaluatedProperties: false });
    const next = gateSchema({ type: 'object' });
    expect(await slow).toMatchObject({ accepted: false, code: 'too_many_subschemas' });
    expect(await next).toMatchObject({ accepted: true });
  });
});
