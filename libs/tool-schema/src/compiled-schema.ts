import { createHash } from 'node:crypto';
import type { Ajv, ErrorObject, ValidateFunction } from 'ajv';
import { freshAjv, metaSchemaError } from './ajv-instance.js';
import { type Pattern, linearPattern } from './linear-pattern.js';
import { pointerKeys } from './json-pointer.js';
import { type Dialect, type JsonSchema, dialectOf, isObject } from './json-schema.js';
import { walkSchema } from './schema-walk.js';
import { withStepCounts } from './step-budget.js';

/** Validators that are kept, and the schemas' JSON of all of them together: what is compiled takes about 40 times that. */
const CACHE_LIMIT = { schemas: 2000, characters: 1 << 20 } as const;
const ROOT = 'tool';

/** A schema that cannot be used; `message` says why. Registered schemas never cause it, since the gate refused them. */
export class UnusableSchema extends Error {
  override name = 'UnusableSchema';
}

/** A schema with its validator, and validators of its parts on demand. */
export class CompiledSchema {
  /** Whether a value fits; stops at the first reason why not. */
  readonly validate: ValidateFunction;
  /** Whether a valid value may still have to be changed: defaults to fill in, neutralised control tokens to map back. */
  readonly touchesValid: boolean;
  private readonly ajv: Ajv;
  private explaining: ValidateFunction | undefined;
  private readonly parts = new Map<string, (value: unknown) => boolean>();
  private readonly patterns = new Map<string, Pattern>();

  readonly schema: JsonSchema;
  readonly dialect: Dialect;
  readonly characters: number;
  /** What ajv compiled: `schema` without its head, with counters. */
  readonly source: JsonSchema;

  constructor(schema: JsonSchema, dialect: Dialect, text: string) {
    this.schema = schema;
    this.dialect = dialect;
    this.characters = text.length;
    const wrong = metaSchemaError(schema, dialect);
    if (wrong !== undefined) throw new UnusableSchema(`the schema is not valid JSON Schema: ${wrong}`);
    this.ajv = freshAjv(dialect);
    // `$schema` would need the meta-schemas in this instance; `$id` only serves references from elsewhere.
    const { $schema: _dialect, $id: _id, ...plain } = isObject(schema) ? schema : { allOf: [schema] };
    try {
      this.source = withStepCounts(withoutBareNullable(plain));
      this.ajv.addSchema(this.source, ROOT);
      this.validate = this.ajv.getSchema(ROOT) as ValidateFunction;
    } catch (error) {
      throw new UnusableSchema(`the schema cannot be compiled: ${(error as Error).message}`);
    }
    this.touchesValid = text.includes('<|') || hasDefaults(schema);
  }

  /**
   * Every reason why a value does not fit. By a second validator, made for the first value that needs one: most calls
   * are valid, and one that gathers all errors with their schemas is twice the code.
   */
  explain(value: unknown): ErrorObject[] {
    if (!this.explaining) {
      const ajv = freshAjv(this.dialect, 'explain');
      ajv.addSchema(this.source as Record<string, unknown>, ROOT);
      this.explaining = ajv.getSchema(ROOT) as ValidateFunction;
    }
    this.explaining(value);
    const errors = this.explaining.errors ?? [];
    this.explaining.errors = null;
    return errors;
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

/** OpenAPI's `nullable` beside `anyOf` or `$ref` says nothing in JSON Schema, and ajv refuses it there. */
function withoutBareNullable(schema: Record<string, unknown>): Record<string, unknown> {
  const isBare = (part: JsonSchema) =>
    isObject(part) && Object.hasOwn(part, 'nullable') && (part['nullable'] !== true || !Object.hasOwn(part, 'type'));
  if (![...walkSchema(schema)].some((at) => isBare(at.schema))) return schema;
  const copy = structuredClone(schema);
  for (const { schema: part } of walkSchema(copy)) if (isObject(part) && isBare(part)) delete part['nullable'];
  return copy;
}

function hasDefaults(schema: JsonSchema): boolean {
  for (const at of walkSchema(schema)) if (isObject(at.schema) && Object.hasOwn(at.schema, 'default')) return true;
  return false;
}

/** By object first, since that costs nothing; by content for equal schemas of other objects. */
const byObject = new WeakMap<object, CompiledSchema>();
const byContent = new Map<string, CompiledSchema>();

let keptCharacters = 0;

function forgetOldest(): void {
  for (const [key, { characters }] of byContent) {
    if (byContent.size <= CACHE_LIMIT.schemas && keptCharacters <= CACHE_LIMIT.characters) return;
    if (byContent.size === 1) return;
    byContent.delete(key);
    keptCharacters -= characters;
  }
}

/** The compiled form of a schema, from a cache of the last used; throws UnusableSchema. */
export function compiledSchema(schema: JsonSchema, dialect?: Dialect): CompiledSchema {
  const known = typeof schema === 'object' ? byObject.get(schema) : undefined;
  if (known && (dialect === undefined || known.dialect === dialect)) return known;
  const wanted = dialect ?? dialectOf(schema);
  if (wanted === undefined) throw new UnusableSchema('the schema names a dialect other than 2020-12 and draft-07');
  const text = schemaText(schema);
  const key = `${wanted} ${createHash('sha256').update(text).digest('base64')}`;
  let compiled = byContent.get(key);
  if (compiled) byContent.delete(key);
  else {
    compiled = compile(schema, wanted, text);
    keptCharacters += compiled.characters;
  }
  byContent.set(key, compiled);
  forgetOldest();
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
