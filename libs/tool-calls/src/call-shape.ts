import { type RawCall } from './types.js';

const ARGUMENT_KEYS = ['arguments', 'parameters', 'input'];
const CALL_KEYS = new Set(['name', 'function', 'id', 'type', ...ARGUMENT_KEYS]);

/** A call found in JSON, or what is wrong with its shape. */
export type ShapedCall =
  { raw: RawCall } | { problem: 'malformed_json' | 'missing_name' | 'schema'; message: string; name?: string };

/**
 * The calls that a JSON value stands for: `{name, arguments}` (also `parameters` or `input`), the OpenAI wrapper
 * `{function: {...}}`, or a list of these. With `name` known from elsewhere (an attribute) the value is the arguments.
 */
export function shapeCalls(
  value: unknown,
  literals: ReadonlyMap<string, string>,
  input: string,
  name?: string,
): ShapedCall[] {
  if (name !== undefined && !isWholeCall(value, name)) {
    return [{ raw: { name, args: value, literals, input } }];
  }
  if (!Array.isArray(value)) return [shapeCall(value, '', literals, input)];
  if (value.length === 0) return [{ problem: 'missing_name', message: 'the list of calls is empty' }];
  return value.map((entry, index) => shapeCall(entry, `/${index}`, literals, input));
}

function isWholeCall(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const call = value as Record<string, unknown>;
  const inner = ARGUMENT_KEYS.map((key) => call[key]).find((args) => args !== undefined);
  return call['name'] === name && typeof inner === 'object' && Object.keys(call).every((key) => CALL_KEYS.has(key));
}

function shapeCall(value: unknown, at: string, literals: ReadonlyMap<string, string>, input: string): ShapedCall {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { problem: 'malformed_json', message: 'a call must be a JSON object with "name" and "arguments"' };
  }
  let call = value as Record<string, unknown>;
  let path = at;
  const wrapped = own(call, 'function');
  if (typeof wrapped === 'object' && wrapped !== null && !Array.isArray(wrapped)) {
    call = wrapped as Record<string, unknown>;
    path += '/function';
  }
  const named = own(call, 'name') ?? (typeof wrapped === 'string' ? wrapped : undefined);
  if (typeof named !== 'string' || named.trim() === '') {
    return { problem: 'missing_name', message: 'the call has no "name"' };
  }
  const key = ARGUMENT_KEYS.find((candidate) => own(call, candidate) !== undefined);
  if (key === undefined) {
    const loose = Object.keys(call).filter((other) => !CALL_KEYS.has(other));
    if (loose.length > 0) {
      // Running the tool without what the model wrote beside the name would be another call.
      return { problem: 'schema', message: 'the parameters must stand inside "arguments"', name: named };
    }
    return { raw: { name: named, args: undefined, input } };
  }
  const inside = rebase(literals, `${path}/${key}`);
  return { raw: { name: named, args: call[key], input, ...(inside.size > 0 ? { literals: inside } : {}) } };
}

function rebase(literals: ReadonlyMap<string, string>, prefix: string): Map<string, string> {
  const result = new Map<string, string>();
  for (const [pointer, literal] of literals) {
    if (pointer.startsWith(`${prefix}/`)) result.set(pointer.slice(prefix.length), literal);
  }
  return result;
}

function own(object: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}
