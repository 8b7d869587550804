import { UnusableSchema, compileFresh } from './compiled-schema.js';
import type { GateJob, GateReply } from './gate-worker.js';
import { isObject, own } from './json-schema.js';
import { linearPattern } from './linear-pattern.js';
import { metaSchemaError } from './ajv-instance.js';
import { resolveLocal, walkSchema } from './schema-walk.js';

/** The checks that may take long, in the order in which they are reported; runs in the worker of the gate. */
export function decide(job: GateJob): GateReply {
  const began = process.threadCpuUsage();
  for (const pattern of job.patterns) {
    if (!isJavaScriptPattern(pattern))
      return { ok: false, code: 'bad_pattern', message: `${quote(pattern)} is no pattern` };
  }
  for (const pattern of job.patterns) {
    try {
      linearPattern(pattern);
    } catch {
      const message = `${quote(pattern)} cannot run in linear time: no look-around, no backreferences, no repeats over 1000`;
      return { ok: false, code: 'unsafe_pattern', message };
    }
  }
  const wrong = metaSchemaError(job.schema, job.dialect);
  if (wrong !== undefined) return { ok: false, code: 'bad_schema', message: `not valid JSON Schema: ${wrong}` };
  const dangling = danglingReference(job);
  if (dangling !== undefined) return { ok: false, code: 'bad_ref', message: dangling };
  try {
    compileFresh(job.schema, job.dialect);
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error;
    const code = /resolve reference|missingRef/.test(error.message) ? 'bad_ref' : 'bad_schema';
    return { ok: false, code, message: error.message };
  }
  const used = process.threadCpuUsage(began);
  return { ok: true, cpuMs: (used.user + used.system) / 1000 };
}

function isJavaScriptPattern(pattern: string): boolean {
  for (const flags of ['u', '']) {
    try {
      return new RegExp(pattern, flags) instanceof RegExp;
    } catch {
      // `\-` and the like are only allowed without the flag.
    }
  }
  return false;
}

/** A reference without a target, or one that leads back to itself without ever coming to a schema. */
function danglingReference({ schema }: GateJob): string | undefined {
  for (const { schema: part } of walkSchema(schema)) {
    if (!isObject(part)) continue;
    for (const keyword of ['$ref', '$dynamicRef']) {
      const ref = own(part, keyword);
      if (typeof ref !== 'string') continue;
      const target = resolveLocal(schema, ref);
      if (!target) return `${quote(ref)} has no target in the schema`;
      const seen = new Set<unknown>([part]);
      let at: unknown = target.schema;
      while (isObject(at) && typeof own(at, '$ref') === 'string') {
        if (seen.has(at)) return `${quote(ref)} leads back to itself`;
        seen.add(at);
        at = resolveLocal(schema, own(at, '$ref') as string)?.schema;
      }
    }
  }
  return undefined;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
