import { describe, expect, it } from 'vitest';
import { checkArguments } from './index.js';

// The engine confuses such keys with those of calls that the same process read before: hence a call of another first.
describe('arguments whose keys are written with escapes', () => {
  it('fill the parameters they name, whatever was called before', () => {
    const inputSchema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] } as const;
    const text = '{"n":1,"pat\\u0068":"a"}';
    for (let round = 0; round < 3; round++) {
      checkArguments({ name: 'other' }, '{"n":1,"pat\\\\":1}');
      expect(checkArguments({ name: 'read', inputSchema }, text)).toMatchObject({
        ok: true,
        args: { n: 1, path: 'a' },
      });
    }
  });

  it('are refused when they spell a forbidden key', () => {
    checkArguments({ name: 'other' }, '{"n":1,"\\\\u005f_pr":1}');
    expect(checkArguments({ name: 'x' }, '{"n":1,"\\u005f_proto__":{}}')).toMatchObject({ code: 'forbidden_key' });
  });

  it('keep the digits of their numbers, inside of JSON in a string too', () => {
    const inputSchema = {
      type: 'object',
      properties: { 'größe"': { type: 'string' }, nested: { type: 'object' } },
    } as const;
    const text = '{"gr\\u00f6\\u00dfe\\"":12345678901234567890,"nested":"{\\"a\\":1,\\"\\\\\\"\\":2}"}';
    checkArguments({ name: 'other' }, '{"gr\\\\u00":1}');
    checkArguments({ name: 'other' }, '{"a":1,"\\\\":2}');
    expect(checkArguments({ name: 'set', inputSchema }, text)).toMatchObject({
      ok: true,
      args: { 'größe"': '12345678901234567890', nested: { a: 1, '"': 2 } },
    });
  });
});
