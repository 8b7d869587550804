import { isObject, tryParse } from './json-value.js';

/** Keywords whose values are schemas by name. */
const MAPS = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
/** Keywords whose values are examples of data, in which nothing is a keyword. */
const DATA = new Set(['default', 'const', 'enum', 'examples', 'example', 'required', 'dependentRequired']);
/** Keywords whose `true` or `false` is a rule and no schema. */
const RULES = new Set([
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'uniqueItems',
  'deprecated',
]);

/**
 * A schema that llama.cpp can make a grammar of. It refuses the whole request over a `pattern` that it cannot translate
 * (one that is not anchored, `\d`, `\w`, look-ahead) and over `true` in place of a schema; patterns become words in the
 * description, and arguments are checked against the tool's own schema anyway.
 */
export function grammarSchema(schema: unknown): unknown {
  if (schema === true) return {};
  if (Array.isArray(schema)) return schema.map(grammarSchema);
  if (!isObject(schema)) return schema;
  const out: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key === 'pattern' && typeof value === 'string') continue;
    if (MAPS.has(key) && isObject(value))
      out[key] = Object.fromEntries(Object.entries(value).map(([name, one]) => [name, grammarSchema(one)]));
    else if (DATA.has(key) || (RULES.has(key) && typeof value === 'boolean')) out[key] = value;
    else out[key] = isObject(value) || Array.isArray(value) || isSchemaPlace(key, value) ? grammarSchema(value) : value;
  }
  if (typeof schema['pattern'] === 'string') {
    const { description } = schema;
    const words = `Must match ${schema['pattern']}`;
    out['description'] = typeof description === 'string' && description !== '' ? `${description} (${words})` : words;
  }
  return out;
}

const SCHEMAS = new Set(['items', 'prefixItems', 'anyOf', 'oneOf', 'allOf', 'contains', 'propertyNames', 'if', 'then']);

const isSchemaPlace = (key: string, value: unknown): boolean => value === true && SCHEMAS.has(key);

/** The same for the JSON of a list of tools. Lists that hold nothing of the kind stay byte for byte. */
export function grammarTools(tools: string): string {
  if (!/"pattern"\s*:\s*"|:\s*true\b|[[,]\s*true\b/.test(tools)) return tools;
  const list = tryParse(tools);
  if (!Array.isArray(list)) return tools;
  return JSON.stringify(
    list.map((tool: unknown) => {
      const definition = isObject(tool) ? tool['function'] : undefined;
      if (!isObject(tool) || !isObject(definition) || definition['parameters'] === undefined) return tool;
      return { ...tool, function: { ...definition, parameters: grammarSchema(definition['parameters']) } };
    }),
  );
}
