import { downlevelSchema } from '@yardmaster/tool-schema';
import { describe, expect, it } from 'vitest';
import {
  type RenderSpec,
  type ToolView,
  catalogueOf,
  chooseStrategy,
  createRenderer,
  exposedName,
  isServerId,
} from './index.js';

const tools = (count: number): ToolView[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `tool_${index}`,
    description: 'Does one thing and says how it went. '.repeat(12),
    server: index % 2 === 0 ? 'odd' : 'local',
  }));
const field = (spec: RenderSpec, list: ToolView[]) =>
  createRenderer(spec).initialRender(catalogueOf(list)).tools as Record<string, unknown>[];

describe('strategies', () => {
  it('show few or small tools upfront, whatever the family', () => {
    const spec: RenderSpec = { strategy: 'claude_deferred', mode: 'api', search: 'bm25', core: [] };
    expect(chooseStrategy(spec, catalogueOf(tools(10)))).toEqual({
      strategy: 'claude_deferred',
      mode: 'api',
      core: 'all',
    });
    expect(chooseStrategy(spec, catalogueOf(tools(60)))).toBe(spec);
    expect(field(chooseStrategy(spec, catalogueOf(tools(10))), tools(10)).some((tool) => 'defer_loading' in tool)).toBe(
      false,
    );
    expect(chooseStrategy({ strategy: 'harmony_dispatcher' }, catalogueOf(tools(3))).strategy).toBe('harmony_upfront');
  });

  it('count few by number, however large, and small by tokens, however many', () => {
    const sized = (count: number, letters: number) =>
      Array.from({ length: count }, (_, index) => ({ name: `t${index}`, description: 'x'.repeat(letters) }));
    const deferring: RenderSpec[] = [
      { strategy: 'claude_deferred', mode: 'text', core: [] },
      { strategy: 'claude_deferred', mode: 'api', core: [], search: 'client' },
      { strategy: 'openai_native_deferred', core: [] },
      { strategy: 'harmony_dispatcher', metaTools: true },
    ];
    for (const spec of deferring) {
      const upfront = (list: ToolView[]) => {
        const chosen = chooseStrategy(spec, catalogueOf(list));
        return chosen.strategy === 'harmony_upfront' || ('core' in chosen && chosen.core === 'all');
      };
      expect(upfront(sized(10, 5_000))).toBe(true);
      expect(upfront(sized(11, 5_000))).toBe(false);
      expect(upfront(sized(50, 20))).toBe(true);
      expect(upfront(sized(200, 20))).toBe(false);
      // A character of Korean is about a token, four letters are one.
      expect(upfront(sized(11, 900))).toBe(true);
      expect(upfront(sized(11, 900).map((tool) => ({ ...tool, description: '가'.repeat(900) })))).toBe(false);
    }
  });

  it('put deferred functions of OpenAI into one namespace a server', () => {
    const shown = field({ strategy: 'openai_native_deferred', core: ['tool_1'] }, tools(4));
    expect(shown.map((tool) => [tool['type'], tool['name']])).toEqual([
      ['function', 'tool_1'],
      ['namespace', 'local'],
      ['namespace', 'odd'],
      ['tool_search', undefined],
    ]);
    const inside = shown[2]?.['tools'] as Record<string, unknown>[];
    expect(inside.map((tool) => [tool['name'], tool['defer_loading']])).toEqual([
      ['tool_0', true],
      ['tool_2', true],
    ]);
  });

  it("mark the last tool that is neither deferred nor the provider's own", () => {
    const marked = (search: 'bm25' | 'client', core: string[]) =>
      field({ strategy: 'claude_deferred', mode: 'api', search, core }, tools(3))
        .filter((tool) => 'cache_control' in tool)
        .map((tool) => tool['name']);
    expect(marked('bm25', ['tool_0', 'tool_1'])).toEqual(['tool_1']);
    expect(marked('client', ['tool_0'])).toEqual(['tool_describe']);
    expect(marked('bm25', [])).toEqual([]);
  });

  it('draw a rolling set anew at the boundary only', () => {
    const renderer = createRenderer({ strategy: 'rolling_developer', format: 'xml' });
    expect(renderer.initialRender(catalogueOf([])).segments).toEqual(['']);
    expect(renderer.cacheImpact).toBe('RewindToBoundary');
  });
});

describe('schemas for a provider', () => {
  const strict = (schema: Record<string, unknown>) => downlevelSchema(schema, 'openai_strict');

  it('become strict in all their parts', () => {
    const schema = {
      type: 'object',
      properties: {
        o: { type: 'object', properties: { a: { type: 'string', enum: ['x'] } } },
        u: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
        r: { $ref: '#/$defs/p' },
      },
      required: ['o'],
      $defs: { p: { type: 'object', properties: { q: { type: 'number' } } } },
    };
    expect(strict(schema)).toEqual({
      strict: true,
      schema: {
        type: 'object',
        properties: {
          o: {
            type: 'object',
            properties: { a: { type: ['string', 'null'], enum: ['x', null] } },
            required: ['a'],
            additionalProperties: false,
          },
          u: { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }] },
          r: { anyOf: [{ $ref: '#/$defs/p' }, { type: 'null' }] },
        },
        required: ['o', 'u', 'r'],
        additionalProperties: false,
        $defs: {
          p: {
            type: 'object',
            properties: { q: { type: ['number', 'null'] } },
            required: ['q'],
            additionalProperties: false,
          },
        },
      },
    });
  });

  it('stay as they are where strict mode cannot say them', () => {
    for (const property of [
      { type: 'object' },
      { type: 'object', additionalProperties: { type: 'string' } },
      { allOf: [{}] },
      { not: {} },
    ]) {
      const schema = { type: 'object', properties: { p: property } };
      expect(strict(schema)).toEqual({ schema, strict: false });
    }
  });

  it('lose for Gemini what it does not know, with references put in place', () => {
    const schema = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { default: { $ref: '#/$defs/n', default: 1 }, loop: { $ref: '#' }, k: { const: 'x' } },
      additionalProperties: false,
      $defs: { n: { type: 'integer', exclusiveMinimum: 0 } },
    };
    expect(downlevelSchema(schema, 'gemini').schema).toEqual({
      type: 'object',
      properties: { default: { type: 'integer' }, loop: { type: 'object' }, k: { type: 'string', enum: ['x'] } },
    });
  });
});

describe('exposed names', () => {
  it('count UTF-16 units and keep sixty-four of them', () => {
    expect(exposedName('a', '😀')).toMatch(/^a_____[0-9a-f]{6}$/);
    expect(exposedName('a', 'x'.repeat(61))).toBe(`a__${'x'.repeat(61)}`);
    expect(exposedName('a', 'x'.repeat(62))).toMatch(/^a__x{54}_[0-9a-f]{6}$/);
    expect(exposedName('local', 'file_read')).toBe('file_read');
  });

  it('know what a server may be called', () => {
    expect(['a', 'a-b', 'x'.repeat(20)].every(isServerId)).toBe(true);
    expect(['', 'a_b', '-a', 'a-', 'A', 'x'.repeat(21)].some(isServerId)).toBe(false);
  });
});
