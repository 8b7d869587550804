import type { ToolCall } from '@yardmaster/contracts';
import type { Effect, TenantId } from '@yardmaster/contracts';

/** What a tool hands back; a plain string is the output of a success. */
export interface ToolOutcome {
  /** True by default; `false` is a failure that the model reads about. */
  ok?: boolean;
  /** What the model reads. */
  output: string;
  /** With `ok: false`: what kind of failure, in one word. Default `failed`. */
  reason?: string;
  /** A structured account of what happened; must survive JSON. */
  verdict?: Record<string, unknown>;
  /** The effect may or may not have happened. */
  outcomeUnknown?: boolean;
  /** Characters that the tool itself has cut from its output. */
  outputCutChars?: number;
}

/** What a tool knows about the call that it runs. */
export interface ToolContext {
  tenant: TenantId;
  runId: string;
  callId: string;
  conversationId: string;
  workspace: string;
  /** 1 for the first try; more only for tools that may run again. */
  attempt: number;
  timeoutMs: number;
  trace: string | undefined;
  /** Aborted when the time is up or the run is cancelled; its reason is a YardError. */
  signal: AbortSignal;
  /** The whole call, as it came. */
  call: ToolCall;
  /** Shows output while the tool runs; lost if nobody listens. */
  output(stream: string, text: string): void;
}

/** A tool: what a model sees and what runs. */
export interface Tool {
  name: string;
  description: string;
  /**
   * May a call run again when nobody knows how it ended? `read`: it changes nothing; `idempotent`: twice is as once;
   * `unsafe`: it never starts twice, and the model is told that the outcome is unknown.
   */
  effect: Effect;
  /** Time for one call when the call names none, in milliseconds. */
  timeoutMs: number;
  /** JSON Schema (2020-12) of the arguments. The registry checks them before the call is made. */
  input: Record<string, unknown>;
  run(args: Record<string, unknown>, context: ToolContext): Promise<ToolOutcome | string> | ToolOutcome | string;
}

export interface ToolDefinition<A> {
  name: string;
  description: string;
  /** Has no default: whoever writes a tool decides it. */
  effect: Effect;
  timeoutMs?: number;
  input: Record<string, unknown>;
  run(args: A, context: ToolContext): Promise<ToolOutcome | string> | ToolOutcome | string;
}

export const DEFAULT_TOOL_TIMEOUT_MS = 120_000;

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const EFFECTS: readonly string[] = ['read', 'idempotent', 'unsafe'] satisfies Effect[];

/** Checks a definition and fills in its defaults. Throws when it cannot be served. */
export function defineTool<A = Record<string, unknown>>(definition: ToolDefinition<A>): Tool {
  const { name, effect, timeoutMs = DEFAULT_TOOL_TIMEOUT_MS } = definition;
  if (!NAME.test(name)) throw new TypeError(`"${name}" is no tool name: it must match ${NAME.source}.`);
  if (!EFFECTS.includes(effect)) throw new TypeError(`${name}: effect must be one of ${EFFECTS.join(', ')}.`);
  if (!(timeoutMs > 0)) throw new TypeError(`${name}: timeoutMs must be above 0, not ${timeoutMs}.`);
  // The arguments' type is what the schema says; the registry has checked them against it.
  return { ...definition, timeoutMs, run: (args, context) => definition.run(args as A, context) };
}
