import { type JsonSchema, resolveLocal } from '@yardmaster/tool-schema';

type Schema = Record<string, unknown>;

const MAPS = new Set(['properties', 'patternProperties']);
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const SINGLE = new Set(['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains']);

/** Where the copies of a definition that uses itself many times over end. */
const MAX_SCHEMAS = 4000;

/**
 * Puts a schema into the few forms that the type text of Harmony can express: references replaced by their targets
 * (N1), anyOf as oneOf (N2), constants as enums (N3), null variants as `nullable` (N4), comments on one line (N5).
 */
export function normaliseForHarmony(schema: Schema): Schema {
  return new Normaliser(schema).schema(schema, [], false) as Schema;
}

class Normaliser {
  private count = 0;

  constructor(private readonly root: JsonSchema) {}

  /** `inside` are the targets that are being put in place just now. */
  schema(given: unknown, inside: readonly unknown[], isProperty: boolean): unknown {
    if (!isObject(given)) return given;
    if (++this.count > MAX_SCHEMAS) return {};
    const { schema, within } = this.replaceReference(given, inside);
    if (!schema) return {};
    const result: Schema = {};
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === '$defs' || keyword === 'definitions') continue;
      result[keyword] = this.keyword(keyword, value, within);
    }
    constantAsEnum(result);
    if (Array.isArray(result['anyOf']) && !Array.isArray(result['oneOf'])) result['oneOf'] = result['anyOf'];
    delete result['anyOf'];
    const flat = withoutNullVariant(result);
    if (isProperty) for (const keyword of ['title', 'description']) oneLine(flat, keyword);
    return flat;
  }

  private keyword(keyword: string, value: unknown, within: readonly unknown[]): unknown {
    if (LISTS.has(keyword) && Array.isArray(value)) return value.map((item) => this.schema(item, within, true));
    if (MAPS.has(keyword) && isObject(value)) {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.schema(item, within, true)]));
    }
    return SINGLE.has(keyword) ? this.schema(value, within, true) : value;
  }

  private replaceReference(given: Schema, inside: readonly unknown[]): { schema?: Schema; within: readonly unknown[] } {
    let schema = given;
    let within = inside;
    while (typeof schema['$ref'] === 'string') {
      const target = resolveLocal(this.root, schema['$ref'])?.schema;
      if (within.includes(target) || target === this.root) return { within };
      const { $ref: _ref, ...beside } = schema;
      schema = isObject(target) ? { ...target, ...beside } : beside;
      within = [...within, target];
    }
    return { schema, within };
  }
}

function constantAsEnum(schema: Schema): void {
  if (typeof schema['const'] === 'string') {
    schema['type'] = 'string';
    schema['enum'] = [schema['const']];
    delete schema['const'];
  }
  const members = schema['enum'];
  const onlyText =
    Array.isArray(members) && members.length > 0 && members.every((member) => typeof member === 'string');
  if (onlyText && schema['type'] === undefined) schema['type'] = 'string';
}

function withoutNullVariant(schema: Schema): Schema {
  const union = schema['oneOf'];
  if (!Array.isArray(union)) return schema;
  let variants = union as unknown[];
  const rest = variants.filter((variant) => !(isObject(variant) && variant['type'] === 'null'));
  if (rest.length < variants.length && rest.length > 0) {
    const last = rest.at(-1);
    variants = [...rest.slice(0, -1), { ...(isObject(last) ? last : {}), nullable: true }];
  }
  const [only] = variants;
  if (variants.length === 1 && isObject(only)) {
    const { oneOf: _union, ...outer } = schema;
    return { ...only, ...outer };
  }
  return { ...schema, oneOf: variants };
}

/** A second line of a comment would stand in the type text without its mark. */
function oneLine(schema: Schema, keyword: string): void {
  const text = schema[keyword];
  if (typeof text === 'string') schema[keyword] = text.replace(/\s*[\r\n]\s*/g, ' ');
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
