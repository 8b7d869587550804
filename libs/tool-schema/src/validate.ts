import { type CompiledSchema, UnusableSchema, compiledSchema } from './compiled-schema.js';
import { type SchemaIssue, issuesOf } from './issues.js';
import { restartSteps } from './step-budget.js';
import type { Dialect, JsonSchema } from './json-schema.js';

export type Verdict = { ok: true } | { ok: false; errors: SchemaIssue[] };

/**
 * Whether a value fits a schema, with every reason why not. Nothing is coerced or changed. Never throws: a schema that
 * cannot be compiled is itself the error, with the keyword `unusable_schema`.
 */
export function validateArguments(schema: JsonSchema, value: unknown, options: { dialect?: Dialect } = {}): Verdict {
  let compiled: CompiledSchema;
  try {
    compiled = compiledSchema(schema, options.dialect);
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error;
    return { ok: false, errors: [unusable(error.message)] };
  }
  return verdictOf(compiled, value);
}

/** The same for a schema that is compiled already. */
export function verdictOf(compiled: CompiledSchema, value: unknown): Verdict {
  try {
    restartSteps();
    if (compiled.validate(value)) return { ok: true };
    restartSteps();
    return { ok: false, errors: issuesOf(compiled.explain(value), compiled.source) };
  } catch (error) {
    // A stack overflow or a spent budget: a recursive schema on a value made for it.
    return { ok: false, errors: [unusable(`the arguments cannot be checked: ${(error as Error).message}`)] };
  }
}

function unusable(message: string): SchemaIssue {
  return { path: '', keyword: 'unusable_schema', message };
}
