import { parseExactJson } from '@yardmaster/contracts';
import {
  MAX_ARGUMENT_BYTES,
  MAX_ARGUMENT_DEPTH,
  forbiddenKey,
  mayHoldForbiddenKey,
  nestingOf,
} from './argument-limits.js';
import { type CompiledSchema, UnusableSchema, compiledSchema } from './compiled-schema.js';
import { type CoercionChange, coerceCompiled, integerPaths } from './coerce.js';
import { type SchemaIssue, clip } from './issues.js';
import { type Dialect, type JsonSchema, isObject } from './json-schema.js';
import { isInexactInteger, numberLiterals } from './number-literals.js';
import { repairText } from './repair-text.js';
import { verdictOf } from './validate.js';

/** What has to be known of a tool to check a call; `inputSchema` absent means that any object will do. */
export interface CheckedTool {
  name: string;
  inputSchema?: JsonSchema;
  dialect?: Dialect;
}

export type ArgumentsError =
  'bad_json' | 'not_object' | 'too_large' | 'too_deep' | 'forbidden_key' | 'invalid' | 'unusable_schema';

export type ArgumentsVerdict =
  | { ok: true; args: Record<string, unknown>; changes: CoercionChange[] }
  | { ok: false; code: ArgumentsError; errors: SchemaIssue[]; text: string };

export interface CheckOptions {
  /** Repeat the schema in the error text: the model has not seen the tool, or not in this form. */
  showSchema?: boolean;
}

/**
 * Checks the arguments of a call as the model wrote them: parse, limits, forbidden keys, coerce, validate. Blank text
 * means no arguments; anything else that is no JSON object is refused, never taken for an empty call. Never throws.
 */
export function checkArguments(tool: CheckedTool, argumentsText: string, options: CheckOptions = {}): ArgumentsVerdict {
  const fail = (code: ArgumentsError, errors: SchemaIssue[]): ArgumentsVerdict => {
    const text = repairText(tool.name, errors, options.showSchema ? tool.inputSchema : undefined);
    return { ok: false, code, errors, text };
  };
  const refuse = (code: ArgumentsError, path: string, message: string) =>
    fail(code, [{ path, keyword: code, message }]);

  if (argumentsText.length > MAX_ARGUMENT_BYTES || Buffer.byteLength(argumentsText) > MAX_ARGUMENT_BYTES) {
    return refuse('too_large', '', `more than ${MAX_ARGUMENT_BYTES} bytes of arguments`);
  }
  let value: unknown;
  try {
    value = argumentsText.trim() === '' ? {} : parseExactJson(argumentsText);
  } catch (error) {
    return refuse('bad_json', '', `the arguments are no valid JSON (${clip((error as Error).message, 160)})`);
  }
  if (!isObject(value)) return refuse('not_object', '', 'the arguments must be one JSON object');
  if (nestingOf(value).tooDeep) return refuse('too_deep', '', `nested over ${MAX_ARGUMENT_DEPTH} levels`);
  const forbidden = mayHoldForbiddenKey(argumentsText) ? forbiddenKey(value) : undefined;
  if (forbidden !== undefined) return refuse('forbidden_key', forbidden, 'a key of this name is not allowed');

  let compiled: CompiledSchema;
  try {
    compiled = compiledSchema(tool.inputSchema ?? true, tool.dialect);
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error;
    return refuse('unusable_schema', '', error.message);
  }
  const lossy = /[0-9]{16}/.test(argumentsText);
  const verdict = verdictOf(compiled, value);
  if (verdict.ok && !compiled.touchesValid && !lossy) return { ok: true, args: value, changes: [] };

  let known: ReadonlyMap<string, string> | undefined;
  const literals = () => (known ??= numberLiterals(argumentsText));
  const inexact = lossy ? inexactIntegers(compiled, value, literals()) : [];
  if (inexact.length > 0) return fail('invalid', inexact);
  const changes: CoercionChange[] = [];
  const coerced = coerceCompiled(compiled, value, { changes, literals });
  if (verdict.ok || changes.length > 0) return { ok: true, args: coerced as Record<string, unknown>, changes };
  const unusable = verdict.errors.some((issue) => issue.keyword === 'unusable_schema');
  return fail(unusable ? 'unusable_schema' : 'invalid', verdict.errors);
}

/** JSON.parse has rounded these already: running the tool on the wrong id would be worse than asking again. */
function inexactIntegers(
  compiled: CompiledSchema,
  value: unknown,
  literals: ReadonlyMap<string, string>,
): SchemaIssue[] {
  const inexact = new Set([...literals].filter(([, literal]) => isInexactInteger(literal)).map(([path]) => path));
  if (inexact.size === 0) return [];
  const message = 'this whole number is too large to be exact';
  const wrong = integerPaths(compiled, value).filter((path) => inexact.has(path));
  return wrong.map((path) => ({ path, keyword: 'type', message }));
}
