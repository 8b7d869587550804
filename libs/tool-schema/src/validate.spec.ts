import { describe, expect, it } from 'vitest';
import { checkArguments, nearestName, validateArguments } from './index.js';

const paths = (schema: Record<string, unknown>, value: unknown) => {
  const verdict = validateArguments(schema, value);
  return verdict.ok ? [] : verdict.errors.map((error) => error.path).sort();
};

describe('validation', () => {
  it('keeps two patterns of one schema apart', () => {
    const schema = { type: 'object', properties: { a: { pattern: '^a$' }, b: { pattern: '^b$' } } };
    expect(paths(schema, { a: 'a', b: 'b' })).toEqual([]);
    expect(paths(schema, { a: 'b', b: 'a' })).toEqual(['/a', '/b']);
    expect(paths({ type: 'object', properties: { a: { pattern: '^a$' } } }, { a: 'a\n' })).toEqual(['/a']);
  });

  it('names the value only when a union fails, also through references', () => {
    const branch = (kind: string) => ({
      type: 'object',
      properties: { kind: { const: kind } },
      required: ['kind', 'x'],
    });
    const schema = {
      type: 'object',
      properties: { v: { oneOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/b' }] }, w: { type: 'string' } },
      $defs: { a: branch('a'), b: branch('b') },
    };
    expect(paths(schema, { v: { kind: 'a' }, w: 1 })).toEqual(['/v', '/w']);
  });

  it('names the property that another one asks for, and the list that is too long', () => {
    expect(paths({ type: 'object', dependentRequired: { a: ['b'] } }, { a: 1 })).toEqual(['/b']);
    expect(paths({ type: 'object', properties: { l: { type: 'array', maxItems: 1 } } }, { l: [1, 2] })).toEqual(['/l']);
    const branches = { type: 'object', if: { required: ['a'] }, then: { required: ['b'] } };
    expect(paths(branches, { a: 1 })).toEqual(['/b']);
  });

  it('reads what OpenAPI calls nullable, also where it stands alone', () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'string', nullable: true }, b: { nullable: true, anyOf: [{ type: 'string' }] } },
    };
    expect(paths(schema, { a: null, b: 'x' })).toEqual([]);
    expect(paths(schema, { b: null })).toEqual(['/b']);
  });

  it('names the object whose property has a bad name, and the property that nothing evaluates', () => {
    expect(paths({ type: 'object', propertyNames: { pattern: '^a' } }, { b: 1 })).toEqual(['']);
    expect(paths({ type: 'object', properties: { a: {} }, unevaluatedProperties: false }, { b: 1 })).toEqual(['/b']);
    const tree = {
      type: 'object',
      $dynamicAnchor: 'n',
      properties: { c: { $dynamicRef: '#n' } },
      additionalProperties: false,
    };
    expect(paths(tree, { c: { c: { d: 1 } } })).toEqual(['/c/c/d']);
  });

  it('checks a whole list whose first items have schemas of their own, however short it is', () => {
    const list = (schema: Record<string, unknown>, value: unknown[], dialect: '2020-12' | 'draft-07' = '2020-12') => {
      const verdict = validateArguments({ type: 'object', properties: { l: schema } }, { l: value }, { dialect });
      return verdict.ok ? [] : verdict.errors.map(({ keyword }) => keyword);
    };
    const third = [{}, {}, { type: 'string' }];
    expect(list({ prefixItems: third, uniqueItems: true }, [1, 1])).toEqual(['uniqueItems']);
    expect(list({ prefixItems: third, contains: { const: 5 } }, [])).toEqual(['contains']);
    expect(list({ prefixItems: third, contains: { const: 5 } }, [1, 5])).toEqual([]);
    expect(list({ prefixItems: third, items: false }, [1, 2, 'x', 3])).toEqual(['items']);
    expect(list({ prefixItems: third, unevaluatedItems: false }, [1, 2, 'x'])).toEqual([]);
    expect(list({ prefixItems: third, unevaluatedItems: false }, [1, 2, 'x', 3])).toEqual(['unevaluatedItems']);
    expect(list({ prefixItems: third }, [1, 2, 3])).toEqual(['type']);
    expect(list({ items: third, uniqueItems: true }, [1, 1], 'draft-07')).toEqual(['uniqueItems']);
    expect(list({ items: third, additionalItems: false }, [1, 2, 'x', 3], 'draft-07')).toEqual(['additionalItems']);
    expect(list({ items: { type: 'string' }, contains: { const: 'a' } }, ['b'], 'draft-07')).toEqual(['contains']);
    expect(list({ items: { type: 'string' } }, ['b', 1], 'draft-07')).toEqual(['type']);
  });

  it('finds equal items in a long list of objects', () => {
    const schema = { type: 'object', properties: { l: { type: 'array', uniqueItems: true } } };
    const items = Array.from({ length: 20_000 }, (_, index) => ({ a: index, b: [index] }));
    expect(paths(schema, { l: items })).toEqual([]);
    expect(paths(schema, { l: [...items, { b: [7], a: 7 }] })).toEqual(['/l']);
  });

  it('gives up on arguments that are made to take for ever', () => {
    const union = { type: 'object', properties: { a: { anyOf: [{ $ref: '#' }, { $ref: '#' }, { $ref: '#' }] } } };
    let value: unknown = { a: 1 };
    for (let level = 0; level < 60; level++) value = { a: value };
    const verdict = checkArguments({ name: 't', inputSchema: union }, JSON.stringify(value));
    expect(verdict).toMatchObject({ ok: false, code: 'unusable_schema' });
    const constants = Array.from({ length: 1900 }, (_, index) => ({ const: `c${index}` }));
    const list = { type: 'object', properties: { l: { type: 'array', items: { anyOf: constants } } } };
    const many = JSON.stringify({ l: Array.from({ length: 100_000 }, () => 1) });
    expect(checkArguments({ name: 't', inputSchema: list }, many).ok).toBe(false);
  });

  it('says what a model can act on', () => {
    const inputSchema = {
      type: 'object',
      properties: { limit: { type: 'integer' }, path: { type: 'string', description: 'Path in the workspace' } },
      required: ['path'],
      additionalProperties: false,
    };
    const verdict = checkArguments({ name: 'x', inputSchema }, '{"limit":"ten","pth":1}');
    expect(verdict).toMatchObject({ ok: false });
    if (verdict.ok) return;
    expect(verdict.text).toContain('Invalid arguments for x. 1) ');
    expect(verdict.text).toContain('/limit: expected integer, got "ten"');
    expect(verdict.text).toContain('/path: missing "path" (string: Path in the workspace)');
    expect(verdict.text).toContain('/pth: not allowed; allowed: limit, path');
    expect(verdict.text).toMatch(/Call x again with corrected arguments\.$/);
  });

  it('treats an unusable schema as an error of the call, not of the process', () => {
    for (const schema of [{ type: 'text' }, { properties: 5 }, { pattern: '(' }, { $ref: '#/nowhere' }]) {
      const verdict = validateArguments({ type: 'object', ...schema }, {});
      expect(verdict).toMatchObject({ ok: false, errors: [{ keyword: 'unusable_schema' }] });
    }
  });

  it('refuses keys that reach a prototype, at any depth and before anything else', () => {
    const check = (text: string) => checkArguments({ name: 't' }, text);
    expect(check('{"a":[{"__proto__":1}]}')).toMatchObject({
      code: 'forbidden_key',
      errors: [{ path: '/a/0/__proto__' }],
    });
    expect(check('{"constructor":{"prototype":{}}}')).toMatchObject({ code: 'forbidden_key' });
    expect(check('{"constructor":{"name":1}}')).toMatchObject({ ok: true });
    expect(check(`{"a":${'['.repeat(63)}${']'.repeat(63)}}`)).toMatchObject({ ok: true });
    expect(check(`{"a":${'['.repeat(64)}${']'.repeat(64)}}`)).toMatchObject({ code: 'too_deep' });
  });
});

describe('the name that was probably meant', () => {
  it('bears slips, other spellings and another order of words', () => {
    const names = ['file_read', 'file_write', 'file_list', 'shell_run'];
    expect(nearestName('file-read', names)).toBe('file_read');
    expect(nearestName('File.Read', names)).toBe('file_read');
    expect(nearestName('read file', names)).toBe('file_read');
    expect(nearestName('flie_write', names)).toBe('file_write');
    expect(nearestName('shel_rn', names)).toBe('shell_run');
    expect(nearestName('', names)).toBeUndefined();
    expect(nearestName('zzz', names)).toBeUndefined();
  });

  it('takes the first by name of two that are equally near', () => {
    expect(nearestName('get_c', ['get_b', 'get_a'])).toBe('get_a');
  });
});
