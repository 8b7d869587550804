import { type JsonSchema, isObject, own } from './json-schema.js';
import { resolveLocal } from './schema-walk.js';

type Schema = Record<string, unknown>;

/** What the schemas of a provider's requests may not hold. */
export type ProviderRules = 'anthropic' | 'openai_strict' | 'gemini';

/** A schema for a model's eyes only; arguments are always checked against the one that was registered. */
export interface DownlevelledSchema {
  schema: Schema;
  /** OpenAI: whether strict mode can express the schema; if not, `schema` is the given one. */
  strict?: boolean;
}

/**
 * The schema as a provider takes it. One schema that it does not take fails the whole request there, so that this is
 * done per tool, before sending. The given schema is not changed.
 */
export function downlevelSchema(schema: Schema, rules: ProviderRules): DownlevelledSchema {
  switch (rules) {
    case 'anthropic':
      return { schema: withoutTopUnions(schema) };
    case 'openai_strict': {
      const strict = strictSchema(schema, true);
      return strict === undefined ? { schema, strict: false } : { schema: strict, strict: true };
    }
    case 'gemini':
      return { schema: withoutKeywords({ root: schema, left: MAX_SCHEMAS }, schema, new Set()) as Schema };
  }
}

function withoutTopUnions(schema: Schema): Schema {
  const { anyOf: _any, oneOf: _one, allOf: _all, ...rest } = schema;
  return own(rest, 'type') === 'object' ? rest : { ...rest, type: 'object' };
}

/** Keywords that strict mode refuses. */
const NOT_STRICT = [
  'allOf',
  'oneOf',
  'not',
  'if',
  'then',
  'else',
  'patternProperties',
  'dependentSchemas',
  'dependentRequired',
  'dependencies',
  'propertyNames',
  'prefixItems',
  'unevaluatedProperties',
];

/** Undefined when strict mode cannot express it. */
function strictSchema(given: unknown, isTop = false): Schema | undefined {
  if (!isObject(given) || NOT_STRICT.some((keyword) => Object.hasOwn(given, keyword))) return undefined;
  const schema: Schema = { ...given };
  for (const keyword of ['$defs', 'definitions'] as const) {
    const defs = own(schema, keyword);
    if (!isObject(defs)) continue;
    const strict = strictMap(defs);
    if (!strict) return undefined;
    schema[keyword] = strict;
  }
  const union = own(schema, 'anyOf');
  if (Array.isArray(union)) {
    if (isTop) return undefined;
    const branches = union.map((branch) => strictSchema(branch));
    if (branches.includes(undefined)) return undefined;
    schema['anyOf'] = branches;
  }
  if (Object.hasOwn(schema, 'items')) {
    const items = strictSchema(schema['items']);
    if (!items) return undefined;
    schema['items'] = items;
  }
  const types = [own(schema, 'type')].flat();
  return types.includes('object') || Object.hasOwn(schema, 'properties') ? strictObject(schema, isTop) : schema;
}

function strictObject(schema: Schema, isTop: boolean): Schema | undefined {
  const extra = own(schema, 'additionalProperties');
  // A map with free keys cannot be said in strict mode; closing it would make it useless.
  if (extra !== undefined && extra !== false) return undefined;
  const declared = own(schema, 'properties');
  if (!isObject(declared))
    return isTop || extra === false
      ? { ...schema, properties: {}, required: [], additionalProperties: false }
      : undefined;
  const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
  const properties: Schema = {};
  for (const [key, value] of Object.entries(declared)) {
    const strict = strictSchema(value);
    if (!strict) return undefined;
    properties[key] = required.includes(key) ? strict : orNull(strict);
  }
  return { ...schema, properties, required: Object.keys(declared), additionalProperties: false };
}

function strictMap(schemas: Schema): Schema | undefined {
  const result: Schema = {};
  for (const [key, value] of Object.entries(schemas)) {
    const strict = strictSchema(value);
    if (!strict) return undefined;
    result[key] = strict;
  }
  return result;
}

/** Not given is said as null, since all properties are required. */
function orNull(schema: Schema): Schema {
  const type = own(schema, 'type');
  const members = own(schema, 'enum');
  if (type === undefined || Object.hasOwn(schema, 'const')) {
    const union = own(schema, 'anyOf');
    if (!Array.isArray(union)) {
      if (Array.isArray(members))
        return members.includes(null) ? schema : { ...schema, enum: [...(members as unknown[]), null] };
      return Object.keys(schema).length === 0 ? schema : { anyOf: [schema, { type: 'null' }] };
    }
    const has = union.some((branch) => isObject(branch) && own(branch, 'type') === 'null');
    return has ? schema : { ...schema, anyOf: [...(union as unknown[]), { type: 'null' }] };
  }
  const types = [type].flat() as unknown[];
  const withNull = types.includes('null') ? type : [...types, 'null'];
  if (!Array.isArray(members)) return { ...schema, type: withNull };
  return { ...schema, type: withNull, enum: members.includes(null) ? members : [...(members as unknown[]), null] };
}

const NOT_GEMINI = new Set([
  '$schema',
  '$id',
  '$defs',
  'definitions',
  'additionalProperties',
  'const',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'uniqueItems',
  'patternProperties',
  'default',
]);

/** Where the copies of a definition that uses itself many times over end. */
const MAX_SCHEMAS = 4000;

/** References are put in place, a recursive one becomes an open object; what is not understood is left out. */
function withoutKeywords(
  copy: { root: JsonSchema; left: number },
  given: unknown,
  inside: ReadonlySet<unknown>,
): unknown {
  if (--copy.left < 0 || !isObject(given)) return given === false ? { type: 'object' } : {};
  const ref = own(given, '$ref');
  if (typeof ref === 'string') {
    const target = resolveLocal(copy.root, ref)?.schema;
    if (!isObject(target) || inside.has(target) || target === copy.root) return { type: 'object' };
    const { $ref: _ref, ...beside } = given;
    return withoutKeywords(copy, { ...target, ...beside }, new Set([...inside, target]));
  }
  const result: Schema = {};
  for (const [keyword, value] of Object.entries(given)) {
    if (NOT_GEMINI.has(keyword)) continue;
    if (keyword === 'properties' && isObject(value)) {
      result[keyword] = Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, withoutKeywords(copy, item, inside)]),
      );
    } else if (['anyOf', 'oneOf', 'allOf', 'prefixItems'].includes(keyword) && Array.isArray(value)) {
      result[keyword] = value.map((item) => withoutKeywords(copy, item, inside));
    } else result[keyword] = keyword === 'items' ? withoutKeywords(copy, value, inside) : value;
  }
  const constant = own(given, 'const');
  if (typeof constant === 'string') Object.assign(result, { type: 'string', enum: [constant] });
  return result;
}
