import { type JsonSchema } from '@yardmaster/tool-schema';
import { readJsonText } from './read-json.js';

const MAX_STEPS = 32;

/**
 * Gives the text values of a dialect that has only text (qwen_xml, glm, invoke) the type that the schema asks for:
 * null, and JSON for lists and objects, where text is not allowed; numbers and booleans are left to the coercer.
 * Everything else stays text.
 */
export function typeTextValues(
  schema: JsonSchema | undefined,
  values: Record<string, unknown>,
): Record<string, unknown> {
  if (typeof schema !== 'object') return values;
  const properties = schema['properties'];
  for (const [key, value] of Object.entries(values)) {
    if (typeof value !== 'string') continue;
    const property =
      typeof properties === 'object' && properties !== null && Object.hasOwn(properties, key)
        ? (properties as Record<string, unknown>)[key]
        : undefined;
    if (property !== undefined) values[key] = typeTextValue(schema, property, value);
  }
  return values;
}

function typeTextValue(root: Record<string, unknown>, schema: unknown, text: string): unknown {
  const types = new Set<string>();
  collectTypes(root, schema, types, 0);
  if (types.size === 0 || types.has('string')) return text;
  const trimmed = text.trim();
  if (types.has('null') && (trimmed === 'null' || trimmed === 'None')) return null;
  if ((types.has('object') && trimmed.startsWith('{')) || (types.has('array') && trimmed.startsWith('['))) {
    const reading = readJsonText(trimmed);
    return reading.status === 'ok' ? reading.value : text;
  }
  return trimmed;
}

/** The types that a value may have; a schema that does not say adds `string`, so that text stays text. */
function collectTypes(root: Record<string, unknown>, schema: unknown, types: Set<string>, steps: number): void {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema) || steps > MAX_STEPS) {
    types.add('string');
    return;
  }
  const at = schema as Record<string, unknown>;
  const type = at['type'];
  if (typeof type === 'string') types.add(type);
  else if (Array.isArray(type)) for (const one of type) types.add(String(one));
  else if (typeof at['$ref'] === 'string') collectTypes(root, target(root, at['$ref']), types, steps + 1);
  else if (Array.isArray(at['enum']) || 'const' in at) {
    for (const member of Array.isArray(at['enum']) ? (at['enum'] as unknown[]) : [at['const']])
      types.add(typeOf(member));
  } else {
    const branches = [at['anyOf'], at['oneOf'], at['allOf']].find((list) => Array.isArray(list));
    if (branches === undefined) types.add('string');
    else for (const branch of branches as unknown[]) collectTypes(root, branch, types, steps + 1);
  }
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function target(root: Record<string, unknown>, ref: string): unknown {
  if (!ref.startsWith('#/')) return undefined;
  let at: unknown = root;
  for (const step of ref.slice(2).split('/')) {
    const key = safeDecode(step).replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
