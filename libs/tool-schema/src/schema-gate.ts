import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { FairQueue } from './fair-queue.js';
import { type Dialect, type JsonSchema, dialectOf, isObject, own } from './json-schema.js';
import { jsonSize } from './json-size.js';
import { walkSchema } from './schema-walk.js';
import type { GateJob, GateReply } from './gate-worker.js';

/** Limits of a schema that is offered for registration. */
export const SCHEMA_LIMITS = {
  bytes: 64 * 1024,
  levels: 32,
  subschemas: 2000,
  compileMs: 2000,
  compileCpuMs: 500,
} as const;

/** Why a definition is refused. */
export type GateCode =
  | 'bad_name'
  | 'top_not_object'
  | 'too_deep'
  | 'too_many_subschemas'
  | 'too_large'
  | 'bad_dialect'
  | 'remote_ref'
  | 'bad_pattern'
  | 'unsafe_pattern'
  | 'bad_schema'
  | 'bad_ref';

export type GateVerdict = { accepted: true; dialect: Dialect } | { accepted: false; code: GateCode; message: string };

export interface GateOptions {
  /** Checked when given; names that start with `__` are closed to tenants. */
  name?: string;
  /** True for the platform's own meta tools. */
  builtIn?: boolean;
  /** The dialect when the schema itself names none. */
  dialect?: Dialect;
  /** Who offers it. What takes long is decided in turns, so that nobody waits for all that another has brought. */
  party?: string;
}

/**
 * Decides whether a schema from outside may be registered, in at most about 2.5 s once it is its turn and without holding
 * up the event loop: what is slow runs in a worker that is ended when it takes too long. Never throws.
 */
export async function gateSchema(schema: unknown, options: GateOptions = {}): Promise<GateVerdict> {
  const early = earlyRefusal(schema, options);
  if (early) return early;
  const dialect = dialectFor(schema as JsonSchema, options);
  if (dialect === undefined) {
    return refuse('bad_dialect', 'only JSON Schema 2020-12 and draft-07 are supported; change or leave out $schema');
  }
  const remote = remoteReference(schema as JsonSchema);
  if (remote !== undefined) {
    return refuse(
      'remote_ref',
      `"${remote}" points outside the schema; copy its target into $defs and use "#/$defs/…"`,
    );
  }
  const job: GateJob = { schema: schema as JsonSchema, dialect, patterns: patternsOf(schema as JsonSchema) };
  const reply = await queue.run(options.party ?? '', () => compileInWorker(job));
  return reply.ok ? { accepted: true, dialect } : refuse(reply.code, reply.message);
}

function refuse(code: GateCode, message: string): GateVerdict & { accepted: false } {
  return { accepted: false, code, message };
}

function dialectFor(schema: JsonSchema, options: GateOptions): Dialect | undefined {
  const named = isObject(schema) && Object.hasOwn(schema, '$schema');
  return named ? dialectOf(schema) : (options.dialect ?? '2020-12');
}

/** The cheap checks, in the order in which they are reported. */
function earlyRefusal(
  schema: unknown,
  { name, builtIn = false }: GateOptions,
): (GateVerdict & { accepted: false }) | undefined {
  const nameProblem = name === undefined ? undefined : problemOfName(name, builtIn);
  if (nameProblem !== undefined) return refuse('bad_name', nameProblem);
  if (!isObject(schema) || own(schema, 'type') !== 'object') {
    return refuse('top_not_object', 'the schema of a tool must be an object with "type": "object" at the top');
  }
  let count = 0;
  let many = false;
  for (const { level } of walkSchema(schema)) {
    if (level > SCHEMA_LIMITS.levels)
      return refuse('too_deep', `schemas are nested over ${SCHEMA_LIMITS.levels} levels`);
    // Depth is reported before number, so the walk goes on, up to where even walking costs too much.
    many ||= ++count > SCHEMA_LIMITS.subschemas;
    if (count > 5 * SCHEMA_LIMITS.subschemas) break;
  }
  if (many) return refuse('too_many_subschemas', `more than ${SCHEMA_LIMITS.subschemas} subschemas`);
  const size = jsonSize(schema, SCHEMA_LIMITS.bytes);
  if (size === 'too_deep') return refuse('too_deep', 'values inside the schema are nested too deeply');
  if (size > SCHEMA_LIMITS.bytes) return refuse('too_large', `more than ${SCHEMA_LIMITS.bytes} bytes of JSON`);
  return undefined;
}

function problemOfName(name: string, builtIn: boolean): string | undefined {
  if (name === '') return 'the name is empty';
  if (name.length > 128) return 'the name is longer than 128 characters';
  if (/[\u0000-\u001f\u007f]/.test(name)) return 'the name has control characters';
  if (name.startsWith('__') && !builtIn) return 'names that start with "__" belong to the platform';
  return undefined;
}

function remoteReference(schema: JsonSchema): string | undefined {
  for (const { schema: part } of walkSchema(schema)) {
    if (!isObject(part)) continue;
    for (const keyword of ['$ref', '$dynamicRef', '$recursiveRef']) {
      const ref = own(part, keyword);
      if (typeof ref === 'string' && !ref.startsWith('#')) return ref;
    }
  }
  return undefined;
}

function patternsOf(schema: JsonSchema): string[] {
  const patterns = new Set<string>();
  for (const { schema: part } of walkSchema(schema)) {
    if (!isObject(part)) continue;
    const pattern = own(part, 'pattern');
    if (typeof pattern === 'string') patterns.add(pattern);
    const named = own(part, 'patternProperties');
    if (isObject(named)) for (const key of Object.keys(named)) patterns.add(key);
  }
  return [...patterns];
}

const START_LIMIT_MS = 20_000;

type WorkerReply = { ok: true } | { ok: false; code: GateCode; message: string };

/** One worker for all, one schema at a time: starting one costs more than most schemas. */
let worker: Promise<Worker> | undefined;
const queue = new FairQueue();

/** In the source tree the worker is TypeScript, which Node runs as it is. */
const EXTENSION = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

/** Resolves when the worker has loaded what it needs: on a busy machine that alone can take longer than a compilation may. */
async function startWorker(): Promise<Worker> {
  const started = new Worker(new URL(`./gate-worker${EXTENSION}`, import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 192, stackSizeMb: 4 },
    stdout: true,
    stderr: true,
  });
  await once(started, 'message', { signal: AbortSignal.timeout(START_LIMIT_MS) });
  // Should it die between two decisions, the next one starts another.
  const current = worker;
  const forget = () => {
    if (current === worker) worker = undefined;
  };
  started.on('error', forget).on('exit', forget);
  started.unref();
  return started;
}

async function compileInWorker(job: GateJob): Promise<WorkerReply> {
  const asked = performance.now();
  let used: Worker;
  try {
    used = await (worker ??= startWorker());
  } catch (error) {
    worker = undefined;
    return { ok: false, code: 'bad_schema', message: `the schema could not be checked: ${(error as Error).message}` };
  }
  const tooSlow: WorkerReply = {
    ok: false,
    code: 'too_many_subschemas',
    message: `compiling it takes more than ${SCHEMA_LIMITS.compileMs} ms`,
  };
  return new Promise<WorkerReply>((resolve) => {
    const settle = (reply: WorkerReply, keepWorker: boolean) => {
      clearTimeout(timer);
      used.off('message', listeners.message).off('error', listeners.error).off('exit', listeners.exit);
      used.unref();
      if (!keepWorker) {
        void used.terminate();
        // At once, so that the next decision does not wait for it; that it failed is for that decision to say.
        worker = startWorker();
        worker.catch(() => undefined);
      }
      resolve(reply);
    };
    const listeners = {
      message: (reply: GateReply) => {
        if (!reply.ok) return settle({ ok: false, code: reply.code, message: reply.message }, true);
        settle(reply.cpuMs > SCHEMA_LIMITS.compileCpuMs ? tooSlowToUse(reply.cpuMs) : { ok: true }, true);
      },
      error: (error: Error) => settle({ ...tooSlow, message: `compiling it failed: ${error.message}` }, false),
      exit: () => settle({ ...tooSlow, message: 'compiling it took too much memory' }, false),
    };
    // What starting took is the schema's loss in part: a decision has to come within 2.5 s.
    const limitMs = Math.max(SCHEMA_LIMITS.compileMs / 2, SCHEMA_LIMITS.compileMs - (performance.now() - asked));
    const timer = setTimeout(() => settle(tooSlow, false), limitMs);
    used.on('message', listeners.message).on('error', listeners.error).on('exit', listeners.exit);
    // While a decision is awaited the worker may keep the process alive, between two it may not.
    used.ref();
    used.postMessage(job);
  });
}

/** Services compile it again on their own event loop, where half a second is felt by every run. */
function tooSlowToUse(cpuMs: number): WorkerReply {
  const message = `compiling it takes ${Math.round(cpuMs)} ms, more than ${SCHEMA_LIMITS.compileCpuMs}; make it simpler`;
  return { ok: false, code: 'too_many_subschemas', message };
}
