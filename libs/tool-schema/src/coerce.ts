import { type CompiledSchema, UnusableSchema, compiledSchema } from './compiled-schema.js';
import { coerceToType, fitsTypes, typesOf } from './coerce-type.js';
import { pointerTo } from './json-pointer.js';
import { type Dialect, type JsonSchema, isObject, isSchema, own } from './json-schema.js';
import { neutralise, realText } from './control-tokens.js';
import { restartSteps } from './step-budget.js';
import { resolveLocal } from './schema-walk.js';

/** The rule that changed a value; S1 maps a neutralised control token back. */
export type CoercionRule = 'K1' | 'K2' | 'K3' | 'K4' | 'K5' | 'K6' | 'K7' | 'K8' | 'S1';

/** One change, for the audit record. */
export interface CoercionChange {
  path: string;
  rule: CoercionRule;
  from: unknown;
  to: unknown;
}

/** Source texts of numbers by JSON pointer, or how to get them: only few calls need any. */
export type Literals = ReadonlyMap<string, string> | (() => ReadonlyMap<string, string>);

export interface CoerceOptions {
  dialect?: Dialect;
  /** Source texts of numbers by JSON pointer, so that a number asked for as text keeps its digits (K6). */
  literals?: Literals;
  /** Receives every change that was kept. */
  changes?: CoercionChange[];
}

/**
 * Makes arguments fit their schema where there is one meaning only (text for a number, null for an absent option, a
 * missing default, …) and gives back a changed copy, or the very value it got when nothing can be changed or the whole
 * would still not be valid. Never invents, cuts or drops what the model said, and never throws.
 */
export function coerceArguments(schema: JsonSchema, value: unknown, options: CoerceOptions = {}): unknown {
  let compiled: CompiledSchema;
  try {
    compiled = compiledSchema(schema, options.dialect);
  } catch (error) {
    if (error instanceof UnusableSchema) return value;
    throw error;
  }
  return coerceCompiled(compiled, value, options);
}

/** The same for a schema that is compiled already. */
export function coerceCompiled(compiled: CompiledSchema, value: unknown, options: CoerceOptions = {}): unknown {
  restartSteps();
  try {
    const valid = compiled.validate(value);
    if (valid && !compiled.touchesValid) return value;
    // A default that breaks the whole (too many properties, say) must not cost the other coercions.
    for (const fillDefaults of [true, false]) {
      const coercion = new Coercion(compiled, options.literals ?? new Map(), fillDefaults);
      const coerced = coercion.at('', compiled.schema, value, '', 0);
      if (coercion.changes.length === 0) return value;
      if (!compiled.validate(coerced)) continue;
      options.changes?.push(...coercion.changes);
      return coerced;
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return value;
}

/** Where the schema asks for a whole number and nothing else, among the values that are there. */
export function integerPaths(compiled: CompiledSchema, value: unknown): string[] {
  const coercion = new Coercion(compiled, new Map(), false);
  try {
    coercion.at('', compiled.schema, value, '', 0);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return coercion.integers;
}

/** Deeper values and longer chains of references are left as they are. */
const MAX_STEPS = 256;

/** Recursive unions can be tried in exponentially many ways; past this the arguments stay as they were sent. */
const MAX_VISITS = 100_000;

/** Each branch of a union needs a validator of its own to be tried; larger unions are only checked. */
const MAX_BRANCHES = 64;

class Coercion {
  changes: CoercionChange[] = [];
  readonly integers: string[] = [];
  private visits = 0;
  private readonly compiled: CompiledSchema;
  private readonly literals: Literals;
  private readonly fillDefaults: boolean;

  constructor(compiled: CompiledSchema, literals: Literals, fillDefaults: boolean) {
    this.compiled = compiled;
    this.literals = literals;
    this.fillDefaults = fillDefaults;
  }

  /** `pointer` is the place in the schema, `path` the place in the arguments. */
  at(pointer: string, schema: JsonSchema, given: unknown, path: string, steps: number): unknown {
    if (typeof schema === 'boolean' || steps > MAX_STEPS) return given;
    if (++this.visits > MAX_VISITS) throw new RangeError('too many ways to coerce');
    let value = given;
    for (const keyword of ['$ref', '$dynamicRef']) {
      const ref = own(schema, keyword);
      const target = typeof ref === 'string' ? resolveLocal(this.compiled.schema, ref) : undefined;
      if (target) value = this.at(target.pointer, target.schema, value, path, steps + 1);
    }
    value = this.scalar(pointer, schema, value, path, steps);
    if (Array.isArray(value)) value = this.items(pointer, schema, value, path, steps);
    else if (isObject(value)) value = this.properties(pointer, schema, value, path, steps);
    for (const [index, part] of schemasOf(schema, 'allOf').entries()) {
      value = this.at(`${pointer}/allOf/${index}`, part, value, path, steps + 1);
    }
    for (const keyword of ['anyOf', 'oneOf'] as const) {
      value = this.union(keyword, pointer, schema, value, path, steps);
    }
    return value;
  }

  private scalar(
    pointer: string,
    schema: Record<string, unknown>,
    given: unknown,
    path: string,
    steps: number,
  ): unknown {
    let value = given;
    const types = typesOf(schema);
    if (types?.has('integer') && !types.has('number') && typeof value === 'number') this.integers.push(path);
    const converted = types && coerceToType(types, value, () => this.literal(path));
    if (converted) value = this.changed(path, converted.rule, value, converted.value);
    else if (types?.has('array') && !fitsTypes(types, value)) value = this.wrapped(pointer, schema, value, path, steps);
    if (typeof value !== 'string') return value;
    const real = realText(schema, value);
    if (real !== undefined) return this.changed(path, 'S1', value, real);
    const members = own(schema, 'enum');
    if (Array.isArray(members) && !members.includes(value)) {
      const wanted = fold(value);
      const near = members.filter((member) => typeof member === 'string' && fold(member) === wanted);
      if (near.length === 1) return this.changed(path, 'K8', value, near[0]);
    }
    return value;
  }

  /** K5: one value where a list is asked, if it fits the items. */
  private wrapped(
    pointer: string,
    schema: Record<string, unknown>,
    value: unknown,
    path: string,
    steps: number,
  ): unknown {
    if (value === null || value === undefined || steps > MAX_STEPS) return value;
    const item = this.itemSchema(schema, 0);
    if (!item) return this.changed(path, 'K5', value, [value]);
    const mark = this.changes.length;
    const coerced = this.at(pointer + item.step, item.schema, value, path, steps + 1);
    this.changes.length = mark;
    if (!this.compiled.fits(pointer + item.step, item.schema, coerced)) return value;
    return this.changed(path, 'K5', value, [coerced]);
  }

  private items(
    pointer: string,
    schema: Record<string, unknown>,
    list: unknown[],
    path: string,
    steps: number,
  ): unknown[] {
    let result = list;
    for (const [index, value] of list.entries()) {
      const item = this.itemSchema(schema, index);
      if (!item) continue;
      const coerced = this.at(pointer + item.step, item.schema, value, pointerTo(path, index), steps + 1);
      if (coerced === value) continue;
      if (result === list) result = [...list];
      result[index] = coerced;
    }
    return result;
  }

  private itemSchema(schema: Record<string, unknown>, index: number): { step: string; schema: JsonSchema } | undefined {
    const items = own(schema, 'items');
    const draft07 = this.compiled.dialect === 'draft-07';
    const prefix = draft07 ? items : own(schema, 'prefixItems');
    const inPrefix: unknown = Array.isArray(prefix) ? prefix[index] : undefined;
    if (isSchema(inPrefix)) return { step: `/${draft07 ? 'items' : 'prefixItems'}/${index}`, schema: inPrefix };
    const restKey = draft07 && Array.isArray(items) ? 'additionalItems' : 'items';
    const rest = own(schema, restKey);
    return isSchema(rest) ? { step: `/${restKey}`, schema: rest } : undefined;
  }

  private properties(
    pointer: string,
    schema: Record<string, unknown>,
    object: Record<string, unknown>,
    path: string,
    steps: number,
  ): Record<string, unknown> {
    const declared = isObject(schema['properties']) ? schema['properties'] : {};
    const required = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
    let result = this.realKeys(object, declared, path);
    object = result;
    const edit = () => (result === object ? (result = { ...object }) : result);
    for (const key of Object.keys(object)) {
      const at = pointerTo(path, key);
      const part = own(declared, key);
      const partPointer = pointerTo(`${pointer}/properties`, key);
      if (
        object[key] === null &&
        isSchema(part) &&
        !required.includes(key) &&
        !this.compiled.fits(partPointer, part, null)
      ) {
        delete edit()[key];
        this.changed(at, 'K4', null, undefined);
        continue;
      }
      let value = object[key];
      for (const [step, property] of this.propertySchemas(schema, declared, key)) {
        value = this.at(pointer + step, property, value, at, steps + 1);
      }
      if (value !== object[key]) set(edit(), key, value);
    }
    if (this.fillDefaults) {
      for (const key of Object.keys(declared)) {
        const part = declared[key];
        if (Object.hasOwn(result, key) || !isObject(part) || !Object.hasOwn(part, 'default')) continue;
        const value = structuredClone(part['default']);
        if (!this.compiled.fits(pointerTo(`${pointer}/properties`, key), part, value)) continue;
        set(edit(), key, value);
        this.changed(pointerTo(path, key), 'K7', undefined, value);
      }
    }
    return result;
  }

  /** S1: names of properties are shown neutralised too, and come back that way. */
  private realKeys(
    object: Record<string, unknown>,
    declared: Record<string, unknown>,
    path: string,
  ): Record<string, unknown> {
    const real = (key: string) => {
      if (!key.includes('< |') || Object.hasOwn(declared, key)) return key;
      const meant = Object.keys(declared).filter((name) => neutralise(name) === key);
      return meant.length === 1 && !Object.hasOwn(object, meant[0] as string) ? (meant[0] as string) : key;
    };
    const keys = Object.keys(object);
    if (keys.every((key) => real(key) === key)) return object;
    for (const key of keys) if (real(key) !== key) this.changed(pointerTo(path, key), 'S1', key, real(key));
    return Object.fromEntries(keys.map((key) => [real(key), object[key]]));
  }

  private propertySchemas(
    schema: Record<string, unknown>,
    declared: Record<string, unknown>,
    key: string,
  ): [step: string, schema: JsonSchema][] {
    const found: [string, JsonSchema][] = [];
    const part = own(declared, key);
    if (isSchema(part)) found.push([pointerTo('/properties', key), part]);
    const patterns = own(schema, 'patternProperties');
    if (isObject(patterns)) {
      for (const [pattern, property] of Object.entries(patterns)) {
        if (isSchema(property) && this.compiled.pattern(pattern).test(key)) {
          found.push([pointerTo('/patternProperties', pattern), property]);
        }
      }
    }
    const rest = own(schema, 'additionalProperties');
    if (found.length === 0 && isSchema(rest)) found.push(['/additionalProperties', rest]);
    return found;
  }

  /** Inside a union a value is changed only if exactly one branch becomes valid by it. */
  private union(
    keyword: 'anyOf' | 'oneOf',
    pointer: string,
    schema: Record<string, unknown>,
    value: unknown,
    path: string,
    steps: number,
  ): unknown {
    const branches = own(schema, keyword);
    if (!Array.isArray(branches) || branches.length > MAX_BRANCHES || !branches.every(isSchema)) return value;
    if (branches.some((branch, index) => this.compiled.fits(`${pointer}/${keyword}/${index}`, branch, value)))
      return value;
    const before = this.changes;
    const valid: { value: unknown; changes: CoercionChange[] }[] = [];
    for (const [index, branch] of branches.entries()) {
      this.changes = [];
      const at = `${pointer}/${keyword}/${index}`;
      const coerced = this.at(at, branch, value, path, steps + 1);
      if (this.compiled.fits(at, branch, coerced)) valid.push({ value: coerced, changes: this.changes });
    }
    this.changes = before;
    const [only] = valid;
    if (only === undefined || valid.length !== 1) return value;
    this.changes.push(...only.changes);
    return only.value;
  }

  private literal(path: string): string | undefined {
    const { literals } = this;
    return (typeof literals === 'function' ? literals() : literals).get(path);
  }

  private changed<T>(path: string, rule: CoercionRule, from: unknown, to: T): T {
    this.changes.push({ path, rule, from, to });
    return to;
  }
}

function schemasOf(schema: Record<string, unknown>, keyword: string): JsonSchema[] {
  const list = own(schema, keyword);
  return Array.isArray(list) ? list.filter(isSchema) : [];
}

/** Assignment would call the setter of `__proto__`. */
function set(object: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true });
}

function fold(text: string): string {
  return text.trim().replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
