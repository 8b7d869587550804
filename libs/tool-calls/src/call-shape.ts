import { isDeepStrictEqual } from 'node:util';
import { type RawCall } from './types.js';

const ARGUMENT_KEYS = ['arguments', 'parameters', 'input'];
const CALL_KEYS = new Set(['name', 'function', 'id', 'type', ...ARGUMENT_KEYS]);

/** A call found in JSON, or what is wrong with its shape. */
export type ShapedCall =
  { raw: RawCall } | { problem: 'malformed_json' | 'missing_name' | 'schema'; message: string; name?: string };

/**
 * The calls that a JSON value stands for: `{name, arguments}` (also `parameters` or `input`), the OpenAI wrapper
 * `{function: {...}}`, or a list of these. With `name` known from elsewhere (an attribute) the value is the arguments,
 * or the whole call once more: then under the same name, unless the tool has a parameter `name` of its own
 * (`parameters`).
 */
export function shapeCalls(
  value: unknown,
  literals: ReadonlyMap<string, string>,
  input: string,
  name?: string,
  parameters?: ReadonlySet<string>,
): ShapedCall[] {
  if (name !== undefined) {
    const again = parameters?.has('name') ? undefined : wholeCallName(value);
    if (again === undefined) return [{ raw: { name, args: value, literals, input } }];
    if (plainName(again) !== plainName(name)) {
      return [{ problem: 'malformed_json', message: 'the tag and its JSON name different tools', name }];
    }
  }
  if (!Array.isArray(value)) return [shapeCall(value, '', literals, input)];
  if (value.length === 0) return [{ problem: 'missing_name', message: 'the list of calls is empty' }];
  return value.map((entry, index) => shapeCall(entry, `/${index}`, literals, input));
}

function wholeCallName(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const call = value as Record<string, unknown>;
  const inner = ARGUMENT_KEYS.map((key) => own(call, key)).find((args) => args !== undefined);
  const named = own(call, 'name');
  const whole = (typeof inner === 'object' || typeof inner === 'string') && typeof named === 'string';
  return whole && Object.keys(call).every((key) => CALL_KEYS.has(key)) ? named : undefined;
}

/** A name without what does not tell tools apart. */
function plainName(name: string): string {
  return name
    .trim()
    .replace(/^functions\./, '')
    .toLowerCase()
    .replaceAll('-', '_');
}

function shapeCall(value: unknown, at: string, literals: ReadonlyMap<string, string>, input: string): ShapedCall {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { problem: 'malformed_json', message: 'a call must be a JSON object with "name" and "arguments"' };
  }
  const outer = value as Record<string, unknown>;
  const wrapped = own(outer, 'function');
  const inner = typeof wrapped === 'object' && wrapped !== null && !Array.isArray(wrapped);
  const call = inner ? (wrapped as Record<string, unknown>) : outer;
  const names = [
    own(call, 'name'),
    typeof wrapped === 'string' ? wrapped : undefined,
    inner ? own(outer, 'name') : undefined,
  ].filter((name) => name !== undefined && name !== null);
  const [named] = names;
  if (typeof named !== 'string' || named.trim() === '') {
    return { problem: 'missing_name', message: 'the call has no "name"' };
  }
  if (names.some((name) => typeof name !== 'string' || plainName(name) !== plainName(named))) {
    return { problem: 'malformed_json', message: 'the call names two different tools' };
  }
  // `null` gives no arguments, so it does not contradict others.
  const given = [...argumentsIn(call, inner ? `${at}/function` : at), ...(inner ? argumentsIn(outer, at) : [])];
  const [first, ...others] = given;
  if (first === undefined) {
    const loose = Object.keys(call).filter((other) => !CALL_KEYS.has(other));
    const empty = ARGUMENT_KEYS.some((key) => own(call, key) === null);
    if (loose.length > 0 && !empty) {
      // Running the tool without what the model wrote beside the name would be another call.
      return { problem: 'schema', message: 'the parameters must stand inside "arguments"', name: named };
    }
    return { raw: { name: named, args: undefined, input } };
  }
  const inside = rebase(literals, first.path);
  for (const other of others) {
    if (isDeepStrictEqual(other.args, first.args) && isDeepStrictEqual(rebase(literals, other.path), inside)) continue;
    const message = `"${first.key}" and "${other.key}" hold different arguments`;
    return { problem: 'malformed_json', message, name: named };
  }
  return { raw: { name: named, args: first.args, input, ...(inside.size > 0 ? { literals: inside } : {}) } };
}

function argumentsIn(call: Record<string, unknown>, at: string): { key: string; args: unknown; path: string }[] {
  return ARGUMENT_KEYS.map((key) => ({ key, args: own(call, key), path: `${at}/${key}` })).filter(
    ({ args }) => args !== undefined && args !== null,
  );
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
