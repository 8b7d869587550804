import type { ErrorObject } from 'ajv';
import { pointerTo } from './json-pointer.js';
import { type JsonSchema, isObject, own } from './json-schema.js';
import { resolveLocal, walkSchema } from './schema-walk.js';

/** One thing that is wrong with arguments. */
export interface SchemaIssue {
  /** JSON pointer of the value; of the property itself when one is missing or not allowed. */
  path: string;
  /** The keyword of JSON Schema that failed (`type`, `required`, …), or `forbidden_key`, `too_large` and the like. */
  keyword: string;
  /** For the model: what was expected and what it sent. */
  message: string;
}

/** Keywords whose branches report errors that only confuse: the failure of the value as a whole is what counts. */
const BRANCHING = new Set(['anyOf', 'oneOf', 'contains']);

/** No model reads the failures of more unions than this; further ones keep the errors of their branches. */
const MAX_UNIONS = 50;

/** Turns the errors of ajv (with `verbose`) into issues, each place and reason once; `schema` is what ajv compiled. */
export function issuesOf(errors: readonly ErrorObject[], schema: JsonSchema): SchemaIssue[] {
  const noise = branchErrors(errors, schema);
  const issues: SchemaIssue[] = [];
  const seen = new Set<string>();
  for (const error of errors) {
    // `if` only repeats that its `then` or `else` failed; `propertyNames` says more than the errors it collects.
    if (noise.has(error) || error.keyword === 'if' || error.propertyName !== undefined) continue;
    const issue = issueOf(error);
    const key = `${issue.path} ${issue.message}`;
    if (seen.has(key)) continue;
    seen.add(key);
    issues.push(issue);
  }
  return issues;
}

function branchErrors(errors: readonly ErrorObject[], schema: JsonSchema): Set<ErrorObject> {
  const noise = new Set<ErrorObject>();
  // Outermost first: what it swallows needs no look of its own, which keeps thousands of errors cheap.
  const unions = errors
    .filter((error) => BRANCHING.has(error.keyword))
    .sort((a, b) => a.instancePath.length - b.instancePath.length || a.schemaPath.length - b.schemaPath.length);
  let left: readonly ErrorObject[] = errors;
  let looked = 0;
  for (const union of unions) {
    if (noise.has(union)) continue;
    if (++looked > MAX_UNIONS) break;
    const inside = branchSchemas(union, schema);
    for (const error of left) {
      if (error === union || !isWithin(error.instancePath, union.instancePath)) continue;
      if (inside.has(error.parentSchema) || isWithin(error.schemaPath, union.schemaPath)) noise.add(error);
    }
    left = left.filter((error) => !noise.has(error));
  }
  return noise;
}

/**
 * All schemas that the branches of a union consist of or refer to. By object, since the errors of a reference's target
 * do not say in their path how the validation came there.
 */
function branchSchemas(union: ErrorObject, root: JsonSchema): Set<unknown> {
  const found = new Set<unknown>();
  const open: unknown[] = [union.schema].flat();
  for (let branch = open.pop(); branch !== undefined; branch = open.pop()) {
    if (!isObject(branch) || found.has(branch)) continue;
    for (const { schema } of walkSchema(branch)) {
      if (typeof schema === 'boolean') continue;
      found.add(schema);
      for (const ref of [own(schema, '$ref'), own(schema, '$dynamicRef')]) {
        if (typeof ref === 'string') open.push(resolveLocal(root, ref)?.schema ?? true);
      }
    }
  }
  return found;
}

function isWithin(path: string, base: string): boolean {
  return path === base || path.startsWith(`${base}/`);
}

function issueOf(error: ErrorObject): SchemaIssue {
  const { keyword, instancePath, params } = error as ErrorObject & { params: Record<string, unknown> };
  const parent = isObject(error.parentSchema) ? error.parentSchema : {};
  switch (keyword) {
    case 'required':
    case 'dependentRequired':
    case 'dependencies': {
      if (typeof params['missingProperty'] !== 'string') break;
      const property = params['missingProperty'];
      const message = missingText(parent, property);
      return { path: pointerTo(instancePath, property), keyword, message };
    }
    case 'additionalProperties':
    case 'unevaluatedProperties': {
      const property = String(params['additionalProperty'] ?? params['unevaluatedProperty']);
      const known = isObject(parent['properties']) ? Object.keys(parent['properties']) : [];
      const allowed = known.length > 0 ? `; allowed: ${clip(known.join(', '), 160)}` : '';
      return { path: pointerTo(instancePath, property), keyword, message: `not allowed${allowed}` };
    }
    case 'type':
      return { path: instancePath, keyword, message: `expected ${typeText(error.schema)}, got ${show(error.data)}` };
    case 'enum': {
      const members = Array.isArray(error.schema) ? (error.schema as unknown[]) : [];
      const list = clip(members.map((member) => show(member)).join(', '), 200);
      return { path: instancePath, keyword, message: `expected one of ${list}, got ${show(error.data)}` };
    }
    case 'const':
      return { path: instancePath, keyword, message: `expected ${show(error.schema)}, got ${show(error.data)}` };
    case 'anyOf':
    case 'oneOf':
      return { path: instancePath, keyword, message: unionText(error) };
    case 'false schema':
      return { path: instancePath, keyword, message: 'not allowed' };
  }
  return { path: instancePath, keyword, message: `${error.message ?? 'does not fit'}, got ${show(error.data)}` };
}

function missingText(parent: Record<string, unknown>, property: string): string {
  const start = `missing ${JSON.stringify(clip(property, 80))}`;
  const schema = isObject(parent['properties']) ? own(parent['properties'], property) : undefined;
  if (!isObject(schema)) return start;
  const type = typeText(schema['type']);
  const description = typeof schema['description'] === 'string' ? clip(schema['description'], 80) : undefined;
  const what = [type === 'another type' ? undefined : type, description].filter((part) => part !== undefined);
  return what.length > 0 ? `${start} (${what.join(': ')})` : start;
}

function unionText(error: ErrorObject): string {
  const branches = Array.isArray(error.schema) ? (error.schema as unknown[]) : [];
  const matching = (error.params as { passingSchemas?: unknown }).passingSchemas;
  const names = branches.map((branch) => branchName(branch)).filter((name) => name !== undefined);
  const forms = names.length > 0 ? ` (${clip([...new Set(names)].join(' | '), 160)})` : '';
  const must = Array.isArray(matching)
    ? `must fit exactly one of the ${branches.length} forms${forms}, fits several`
    : `must fit ${error.keyword === 'oneOf' ? 'exactly one' : 'one'} of the ${branches.length} forms${forms}`;
  return `${must}, got ${show(error.data)}`;
}

/** How a branch tells itself apart: the constant that tags it, else its type. */
function branchName(branch: unknown): string | undefined {
  if (!isObject(branch)) return undefined;
  const properties = isObject(branch['properties']) ? branch['properties'] : {};
  for (const [key, schema] of Object.entries(properties)) {
    if (isObject(schema) && Object.hasOwn(schema, 'const')) return `${key}=${show(schema['const'])}`;
  }
  if (typeof branch['title'] === 'string') return branch['title'];
  return branch['type'] === undefined ? undefined : typeText(branch['type']);
}

function typeText(type: unknown): string {
  if (typeof type === 'string') return type;
  return Array.isArray(type) ? type.join(' or ') : 'another type';
}

/** A value in at most 60 characters. */
export function show(value: unknown): string {
  if (Array.isArray(value) && value.length > 8) return `a list of ${value.length} items`;
  let text: string;
  try {
    text = JSON.stringify(value) ?? 'nothing';
  } catch {
    return 'a deeply nested value';
  }
  return clip(text, 60);
}

/** The beginning of a text, with a mark where it was cut; never half of a surrogate pair. */
export function clip(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${text.slice(0, length).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
