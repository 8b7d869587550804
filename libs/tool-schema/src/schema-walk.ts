import { pointerKeys, pointerTo } from './json-pointer.js';
import { type JsonSchema, isObject, isSchema, own } from './json-schema.js';

/** One place where a schema stands inside a schema. */
export interface SchemaPosition {
  schema: JsonSchema;
  /** JSON pointer inside the whole schema. */
  pointer: string;
  /** Levels of schemas, 1 at the top. */
  level: number;
}

const SINGLE = new Set([
  'items',
  'additionalItems',
  'additionalProperties',
  'unevaluatedItems',
  'unevaluatedProperties',
  'contains',
  'propertyNames',
  'not',
  'if',
  'then',
  'else',
  'contentSchema',
]);
const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']);
const MAPS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependencies']);

/** The schemas directly below a schema, with the steps that lead to each. */
export function* childSchemas(schema: Record<string, unknown>): Generator<[keyword: string, key: string, JsonSchema]> {
  for (const keyword of Object.keys(schema)) {
    const value = schema[keyword];
    if (LISTS.has(keyword) && Array.isArray(value)) {
      for (const [index, item] of value.entries()) if (isSchema(item)) yield [keyword, String(index), item];
    } else if (SINGLE.has(keyword)) {
      if (isSchema(value)) yield [keyword, '', value];
    } else if (MAPS.has(keyword) && isObject(value)) {
      for (const key of Object.keys(value)) {
        const item = value[key];
        if (isSchema(item)) yield [keyword, key, item];
      }
    }
  }
}

/**
 * All schema positions, the top first. Only schema positions are walked: a property that is called `$ref` is data.
 * Without recursion, so that ten thousand levels do not end the process; the caller stops when it has seen enough.
 */
export function* walkSchema(schema: JsonSchema): Generator<SchemaPosition> {
  const open: SchemaPosition[] = [{ schema, pointer: '', level: 1 }];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    yield at;
    if (typeof at.schema === 'boolean') continue;
    const below: SchemaPosition[] = [];
    for (const [keyword, key, child] of childSchemas(at.schema)) {
      const base = pointerTo(at.pointer, keyword);
      below.push({
        schema: child,
        pointer: SINGLE.has(keyword) && key === '' ? base : pointerTo(base, key),
        level: at.level + 1,
      });
    }
    while (below.length > 0) open.push(below.pop() as SchemaPosition);
  }
}

/** What a local reference points to, or undefined: `#`, `#/pointer` and `#anchor`. */
export function resolveLocal(root: JsonSchema, ref: string): { schema: JsonSchema; pointer: string } | undefined {
  if (!ref.startsWith('#')) return undefined;
  if (ref === '#') return { schema: root, pointer: '' };
  let fragment: string;
  try {
    fragment = decodeURIComponent(ref.slice(1));
  } catch {
    return undefined;
  }
  if (fragment.startsWith('/')) {
    let schema: unknown = root;
    for (const key of pointerKeys(fragment)) {
      if (Array.isArray(schema))
        schema = /^(0|[1-9][0-9]*)$/.test(key) ? (schema as unknown[])[Number(key)] : undefined;
      else schema = isObject(schema) ? own(schema, key) : undefined;
    }
    return isSchema(schema) ? { schema, pointer: fragment } : undefined;
  }
  for (const { schema, pointer } of walkSchema(root)) {
    if (typeof schema === 'boolean') continue;
    if ([own(schema, '$anchor'), own(schema, '$dynamicAnchor')].includes(fragment)) return { schema, pointer };
    if (own(schema, '$id') === ref) return { schema, pointer };
  }
  return undefined;
}
