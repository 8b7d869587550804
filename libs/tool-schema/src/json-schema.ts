/** A JSON Schema as it was registered; treated as immutable everywhere, since compiled validators are kept per object. */
export type JsonSchema = boolean | Record<string, unknown>;

/** The two dialects that tools may use. */
export type Dialect = '2020-12' | 'draft-07';

const DIALECTS: Record<string, Dialect> = {
  'json-schema.org/draft/2020-12/schema': '2020-12',
  'json-schema.org/draft-07/schema': 'draft-07',
};

/** The dialect that `$schema` names, 2020-12 without one, undefined for a dialect that is not supported. */
export function dialectOf(schema: JsonSchema): Dialect | undefined {
  if (!isObject(schema) || !Object.hasOwn(schema, '$schema')) return '2020-12';
  const named = schema['$schema'];
  if (typeof named !== 'string') return undefined;
  return DIALECTS[named.replace(/^https?:\/\//, '').replace(/#$/, '')];
}

/** Whether a value is a JSON object (no list, no null). */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a value can stand where a schema is expected. */
export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'boolean' || isObject(value);
}

/** An own property, never an inherited one: schemas and arguments come from outside and may be called `toString`. */
export function own(object: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}
