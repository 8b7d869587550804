import { checkArguments, gateSchema, nearestName, type Dialect, type JsonSchema } from '@yardmaster/tool-schema';
import type { Suite, Verdict } from '../suite.ts';

interface Case {
  id: string;
  kind: 'args' | 'register' | 'lookup';
  name?: string;
  dialect?: Dialect;
  schema?: JsonSchema;
  schema_gen?: { kind: 'nest' | 'combi' | 'wide'; depth?: number; count?: number; text?: number };
  args?: unknown;
  args_text?: string;
  args_gen?: { kind: 'string' | 'nest'; key: string; unit?: string; length?: number; tail?: string; depth?: number };
  time_limit_ms?: number;
  visible?: string[];
  expected: Record<string, unknown>;
}

/** Cases of kind args, register and lookup; the form is in FORMATS.md, section V. */
export const suite: Suite = async function* (content) {
  for (const one of (content as { cases: Case[] }).cases) {
    let got: Record<string, unknown>;
    try {
      got = one.kind === 'args' ? runArgs(one) : one.kind === 'lookup' ? runLookup(one) : await runRegister(one);
    } catch (error) {
      got = { threw: String(error) };
    }
    yield verdictOf(one, got);
  }
};

function runArgs(one: Case): Record<string, unknown> {
  const tool = {
    name: 'tool',
    ...(one.schema === undefined ? {} : { inputSchema: one.schema }),
    ...(one.dialect === undefined ? {} : { dialect: one.dialect }),
  };
  const text = one.args_text ?? JSON.stringify(one.args_gen ? generatedArgs(one.args_gen) : one.args);
  const started = performance.now();
  const verdict = checkArguments(tool, text);
  const took = performance.now() - started;
  const late = one.time_limit_ms !== undefined && took > one.time_limit_ms ? { late_ms: Math.round(took) } : {};
  if (verdict.ok) return { valid: true, coerced_args: verdict.args, ...late };
  return { valid: false, error: verdict.code, error_paths: [...new Set(verdict.errors.map((e) => e.path))].sort(), ...late };
}

function runLookup(one: Case): Record<string, unknown> {
  return { suggest: nearestName(one.name ?? '', one.visible ?? []) ?? null };
}

async function runRegister(one: Case): Promise<Record<string, unknown>> {
  const schema = one.schema_gen ? generatedSchema(one.schema_gen) : one.schema;
  const verdict = await gateSchema(schema, {
    name: one.name ?? 'tool',
    ...(one.dialect === undefined ? {} : { dialect: one.dialect }),
  });
  return { ...verdict };
}

function generatedSchema(gen: NonNullable<Case['schema_gen']>): Record<string, unknown> {
  const object = (properties: Record<string, unknown>) => ({ type: 'object', properties });
  let schema: Record<string, unknown> = { type: 'string' };
  for (let level = 0; level < (gen.depth ?? 0); level++) {
    schema = object({ a: gen.kind === 'combi' ? { anyOf: [schema, schema, schema] } : schema });
  }
  if (gen.kind !== 'wide') return schema;
  const property = { type: 'string', description: 'x'.repeat(gen.text ?? 0) };
  return object(Object.fromEntries(Array.from({ length: gen.count ?? 0 }, (_, index) => [`p${index}`, property])));
}

function generatedArgs(gen: NonNullable<Case['args_gen']>): unknown {
  if (gen.kind === 'string') return { [gen.key]: (gen.unit ?? 'x').repeat(gen.length ?? 0) + (gen.tail ?? '') };
  let value: Record<string, unknown> = {};
  for (let level = 0; level < (gen.depth ?? 0); level++) value = { [gen.key]: value };
  return value;
}

function verdictOf(one: Case, got: Record<string, unknown>): Verdict {
  const expected: Record<string, unknown> = { ...one.expected };
  if (Array.isArray(expected['error_paths'])) expected['error_paths'] = [...expected['error_paths']].sort();
  const wrong = Object.keys(expected).filter((key) => canonical(expected[key]) !== canonical(got[key]));
  if ('late_ms' in got) wrong.push(`took ${String(got['late_ms'])} ms`);
  if (wrong.length === 0) return { id: one.id, ok: true };
  return { id: one.id, ok: false, expected, got, why: `differs in ${wrong.join(', ')}` };
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}
