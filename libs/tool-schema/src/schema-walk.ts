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
export function* childSchemas(
  schema: Record<string, unknown>,
): Generator<[keyword: string, key: string | undefined, JsonSchema]> {
  for (const keyword of Object.keys(schema)) {
    const value = schema[keyword];
    if (LISTS.has(keyword) && Array.isArray(value)) {
      for (const [index, item] of value.entries()) if (isSchema(item)) yield [keyword, String(index), item];
    } else if (SINGLE.has(keyword)) {
      if (isSchema(value)) yield [keyword, undefined, value];
    } else if (MAPS.has(keyword) && isObject(value)) {
      for (const key in value) {
        const item = own(value, key);
        if (isSchema(item)) yield [keyword, key, item];
      }
    }
  }
}

/**
 * All schema positions, the top first, in document order. Only schema positions are walked: a property that is called
 * `$ref` is data. Without recursion, so that ten thousand levels do not end the process, and lazily: the caller stops
 * when it has seen enough.
 */
export function* walkSchema(schema: JsonSchema): Generator<SchemaPosition> {
  yield { schema, pointer: '', level: 1 };
  if (typeof schema === 'boolean') return;
  const open = [{ children: childSchemas(schema), pointer: '' }];
  for (let at = open.at(-1); at !== undefined; at = open.at(-1)) {
    const next = at.children.next();
    if (next.done) {
      open.pop();
      continue;
    }
    const [keyword, key, child] = next.value;
    const base = pointerTo(at.pointer, keyword);
    const pointer = key === undefined ? base : pointerTo(base, key);
    yield { schema: child, pointer, level: open.length + 1 };
    if (typeof child === 'object') open.push({ children: childSchemas(child), pointer });
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
