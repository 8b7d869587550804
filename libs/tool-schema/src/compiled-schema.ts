import { createHash } from 'node:crypto';
import type { Ajv, ValidateFunction } from 'ajv';
import { freshAjv, metaSchemaError } from './ajv-instance.js';
import { type Pattern, linearPattern } from './linear-pattern.js';
import { pointerKeys } from './json-pointer.js';
import { type Dialect, type JsonSchema, dialectOf, isObject } from './json-schema.js';
import { walkSchema } from './schema-walk.js';
import { withStepCounts } from './step-budget.js';

const CACHE_LIMIT = 2000;
const ROOT = 'tool';

/** A schema that cannot be used; `message` says why. Registered schemas never cause it, since the gate refused them. */
export class UnusableSchema extends Error {
  override name = 'UnusableSchema';
}

/** A schema with its validator, and validators of its parts on demand. */
export class CompiledSchema {
  readonly validate: ValidateFunction;
  /** Whether a valid value may still have to be changed: defaults to fill in, neutralised control tokens to map back. */
  readonly touchesValid: boolean;
  private readonly ajv: Ajv;
  private readonly parts = new Map<string, (value: unknown) => boolean>();
  private readonly patterns = new Map<string, Pattern>();

  readonly schema: JsonSchema;
  readonly dialect: Dialect;
  /** What ajv compiled: `schema` without its head, with counters. */
  readonly source: JsonSchema;

  constructor(schema: JsonSchema, dialect: Dialect, text: string) {
    this.schema = schema;
    this.dialect = dialect;
    const wrong = metaSchemaError(schema, dialect);
    if (wrong !== undefined) throw new UnusableSchema(`the schema is not valid JSON Schema: ${wrong}`);
    this.ajv = freshAjv(dialect);
    // `$schema` would need the meta-schemas in this instance; `$id` only serves references from elsewhere.
    const { $schema: _dialect, $id: _id, ...plain } = isObject(schema) ? schema : { allOf: [schema] };
    try {
      this.source = withStepCounts(plain);
      this.ajv.addSchema(this.source, ROOT);
      this.validate = this.ajv.getSchema(ROOT) as ValidateFunction;
    } catch (error) {
      throw new UnusableSchema(`the schema cannot be compiled: ${(error as Error).message}`);
    }
    this.touchesValid = text.includes('<|') || hasDefaults(schema);
  }

  /** Whether a value fits the part of the schema at a pointer; used where unions and lists have to be decided. */
  fits(pointer: string, part: JsonSchema, value: unknown): boolean {
    if (typeof part === 'boolean') return part;
    let validate = this.parts.get(pointer);
    if (!validate) {
      const fragment = pointerKeys(pointer)
        .map((key) => `/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`)
        .join('');
      validate = this.ajv.getSchema(pointer === '' ? ROOT : `${ROOT}#${fragment}`) ?? (() => false);
      this.parts.set(pointer, validate);
    }
    return validate(value);
  }

  /** A pattern of the schema, compiled once. */
  pattern(source: string): Pattern {
    let pattern = this.patterns.get(source);
    if (!pattern) this.patterns.set(source, (pattern = linearPattern(source)));
    return pattern;
  }
}

function hasDefaults(schema: JsonSchema): boolean {
  for (const at of walkSchema(schema)) if (isObject(at.schema) && Object.hasOwn(at.schema, 'default')) return true;
  return false;
}

/** By object first, since that costs nothing; by content for equal schemas of other objects. */
const byObject = new WeakMap<object, CompiledSchema>();
const byContent = new Map<string, CompiledSchema>();

/** The compiled form of a schema, from a cache of the 2,000 last used; throws UnusableSchema. */
export function compiledSchema(schema: JsonSchema, dialect?: Dialect): CompiledSchema {
  const known = typeof schema === 'object' ? byObject.get(schema) : undefined;
  if (known && (dialect === undefined || known.dialect === dialect)) return known;
  const wanted = dialect ?? dialectOf(schema);
  if (wanted === undefined) throw new UnusableSchema('the schema names a dialect other than 2020-12 and draft-07');
  const text = schemaText(schema);
  const key = `${wanted} ${createHash('sha256').update(text).digest('base64')}`;
  let compiled = byContent.get(key);
  if (compiled) byContent.delete(key);
  else compiled = compile(schema, wanted, text);
  byContent.set(key, compiled);
  if (byContent.size > CACHE_LIMIT) byContent.delete(byContent.keys().next().value as string);
  if (typeof schema === 'object') byObject.set(schema, compiled);
  return compiled;
}

/** Compiles without the cache; throws UnusableSchema. */
export function compileFresh(schema: JsonSchema, dialect: Dialect): CompiledSchema {
  return compile(schema, dialect, schemaText(schema));
}

function compile(schema: JsonSchema, dialect: Dialect, text: string): CompiledSchema {
  try {
    return new CompiledSchema(schema, dialect, text);
  } catch (error) {
    // What is left beside UnusableSchema is a stack overflow in a schema that never passed the gate.
    throw error instanceof UnusableSchema ? error : new UnusableSchema(`the schema cannot be used: ${String(error)}`);
  }
}

function schemaText(schema: JsonSchema): string {
  try {
    return JSON.stringify(schema);
  } catch {
    throw new UnusableSchema('the schema is nested too deeply');
  }
}
