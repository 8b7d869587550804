import { parseExactJson } from '@yardmaster/contracts';
import { forbiddenKey, nestingOf } from './argument-limits.js';
import { isObject, own } from './json-schema.js';

const NUMBER = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$/;
const BOOLEANS: Record<string, boolean> = { true: true, false: false, True: true, False: false };

/** The types a schema asks for: those of `type`, else the types of its `enum` or `const`; undefined = any. */
export function typesOf(schema: Record<string, unknown>): ReadonlySet<string> | undefined {
  const type = own(schema, 'type');
  if (typeof type === 'string') return new Set([type]);
  if (Array.isArray(type)) return new Set(type.filter((name): name is string => typeof name === 'string'));
  const members = own(schema, 'enum');
  if (Array.isArray(members) && members.length > 0) return new Set(members.map(typeOf));
  if (Object.hasOwn(schema, 'const')) return new Set([typeOf(schema['const'])]);
  return undefined;
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** Whether a value has one of the types. */
export function fitsTypes(types: ReadonlySet<string>, value: unknown): boolean {
  return types.has(typeOf(value)) || (types.has('integer') && Number.isInteger(value));
}

/** The one other type a value can be read as (K1, K2, K3, K6), or undefined when it fits already or no reading is certain. */
export function coerceToType(
  types: ReadonlySet<string>,
  value: unknown,
  literal: () => string | undefined = () => undefined,
): { rule: 'K1' | 'K2' | 'K3' | 'K6'; value: unknown } | undefined {
  if (fitsTypes(types, value)) return undefined;
  if (typeof value === 'number') {
    const onlyText = types.has('string') && [...types].every((type) => type === 'string' || type === 'null');
    return onlyText && Number.isFinite(value) ? { rule: 'K6', value: literal() ?? JSON.stringify(value) } : undefined;
  }
  if (typeof value !== 'string') return undefined;
  if ((types.has('number') || types.has('integer')) && NUMBER.test(value)) {
    const number = Number(value);
    const exact = types.has('number') ? Number.isFinite(number) : Number.isSafeInteger(number);
    if (exact) return { rule: 'K1', value: number };
  }
  if (types.has('boolean') && Object.hasOwn(BOOLEANS, value)) return { rule: 'K2', value: BOOLEANS[value] };
  if (types.has('object') || types.has('array')) {
    const parsed = parseNested(value);
    if ((types.has('object') && isObject(parsed)) || (types.has('array') && Array.isArray(parsed))) {
      return { rule: 'K3', value: parsed };
    }
  }
  return undefined;
}

/** JSON inside a string has to pass the checks that the outer text passed, or it stays text. */
function parseNested(text: string): unknown {
  const first = text.trimStart()[0];
  if (first !== '{' && first !== '[') return undefined;
  try {
    const parsed: unknown = parseExactJson(text);
    return nestingOf(parsed).tooDeep || forbiddenKey(parsed) !== undefined ? undefined : parsed;
  } catch {
    return undefined;
  }
}
