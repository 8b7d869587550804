import { Inject, Injectable } from '@nestjs/common';
import type { PendingCall } from '@yardmaster/conversation';
import type { TenantId } from '@yardmaster/contracts';
import { HEALTH, type Health, LOGGER, type Logger } from '@yardmaster/service-kit';
import type { ParseResult } from '@yardmaster/tool-calls';
import { Counter, Histogram } from 'prom-client';
import type { CallOutcome } from './tool-round.js';

export interface HookedRun {
  tenant: TenantId;
  run: string;
  conversation: string;
  step: number;
}

/** Who gave an answer, and how its calls were written. */
export interface Served {
  provider: string;
  model: string;
  dialect: string;
}

/** What reading an answer came to beside text and calls. */
export type Found = Pick<ParseResult, 'errors' | 'notes'> & {
  /** How long reading took; absent where there was nothing of ours to read. */
  seconds?: number;
};

/**
 * Looks on while a run goes its way. A hook can neither change nor break the run: what it throws, or rejects with, is
 * logged, and nobody waits for it.
 */
export interface RunHook {
  on_step?(run: HookedRun, served: Served): unknown;
  /** After `on_step`; also for an answer that the provider itself could not read. */
  on_answer?(run: HookedRun, served: Served, found: Found): unknown;
  on_tool_call?(run: HookedRun, call: PendingCall): unknown;
  on_tool_result?(run: HookedRun, call: PendingCall, outcome: CallOutcome): unknown;
}

export const RUN_HOOKS = Symbol('dispatcher.runHooks');

/** Calls every hook. */
@Injectable()
export class Hooks {
  constructor(
    @Inject(RUN_HOOKS) private readonly hooks: readonly RunHook[],
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  step(...args: Parameters<NonNullable<RunHook['on_step']>>): void {
    for (const hook of this.hooks) this.guard('on_step', args[0], () => hook.on_step?.(...args));
  }

  answer(...args: Parameters<NonNullable<RunHook['on_answer']>>): void {
    for (const hook of this.hooks) this.guard('on_answer', args[0], () => hook.on_answer?.(...args));
  }

  toolCall(...args: Parameters<NonNullable<RunHook['on_tool_call']>>): void {
    for (const hook of this.hooks) this.guard('on_tool_call', args[0], () => hook.on_tool_call?.(...args));
  }

  toolResult(...args: Parameters<NonNullable<RunHook['on_tool_result']>>): void {
    for (const hook of this.hooks) this.guard('on_tool_result', args[0], () => hook.on_tool_result?.(...args));
  }

  private guard(name: string, { run }: HookedRun, call: () => unknown): void {
    const failed = (error: unknown) => this.log.warn({ hook: name, run, err: error }, 'a hook failed; the run goes on');
    try {
      const result = call();
      if (result instanceof Promise) result.catch(failed);
    } catch (error) {
      failed(error);
    }
  }
}

/** Counts steps, what was wrong with the calls in them, and tool calls for /metrics. */
@Injectable()
export class MetricsHook implements RunHook {
  private readonly steps: Counter;
  private readonly calls: Counter;
  private readonly seconds: Histogram;
  private readonly errors: Counter;
  private readonly repairs: Counter;
  private readonly inReasoning: Counter;
  private readonly quoted: Counter;
  private readonly parse: Histogram;
  private readonly rounds: Counter;

  constructor(@Inject(HEALTH) { metrics }: Health) {
    this.steps = new Counter({
      name: 'yardmaster_steps_total',
      help: 'Answers of models in runs.',
      labelNames: ['dialect'],
      registers: [metrics],
    });
    this.calls = new Counter({
      name: 'yardmaster_tool_calls_total',
      help: 'Tool calls by kind of executor and outcome.',
      labelNames: ['kind', 'ok'],
      registers: [metrics],
    });
    this.seconds = new Histogram({
      name: 'yardmaster_tool_seconds',
      help: 'Duration of tool calls as their executor tells it.',
      labelNames: ['kind'],
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600],
      registers: [metrics],
    });
    this.errors = new Counter({
      name: 'yardmaster_parse_errors_total',
      help: 'Calls that models wrote and that could not be run, by what was wrong; "unlisted" is more in one answer than is told.',
      labelNames: ['kind', 'dialect', 'model'],
      registers: [metrics],
    });
    this.repairs = new Counter({
      name: 'yardmaster_repairs_total',
      help: 'Repairs of what models wrote where only one meaning was possible.',
      labelNames: ['rule'],
      registers: [metrics],
    });
    this.inReasoning = new Counter({
      name: 'yardmaster_calls_in_reasoning_total',
      help: 'Calls inside of reasoning, which are never run.',
      registers: [metrics],
    });
    this.quoted = new Counter({
      name: 'yardmaster_quoted_calls_ignored_total',
      help: 'Calls in fences and inline code beside other text: samples, which are never run.',
      registers: [metrics],
    });
    this.parse = new Histogram({
      name: 'yardmaster_parse_seconds',
      help: 'Reading one answer: its text, its calls, and the check of their arguments.',
      labelNames: ['dialect'],
      // A 4 KB answer takes a tenth of a millisecond; a megabyte a few; what takes a second is a fault of ours.
      buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2],
      registers: [metrics],
    });
    this.rounds = new Counter({
      name: 'yardmaster_malformed_answers_total',
      help: 'Answers with at least one call that could not be run, by the kind of the first.',
      labelNames: ['kind', 'dialect'],
      registers: [metrics],
    });
  }

  on_step(_run: HookedRun, { dialect }: Served): void {
    this.steps.inc({ dialect });
  }

  on_answer(_run: HookedRun, { dialect, model }: Served, { errors, notes, seconds }: Found): void {
    if (seconds !== undefined) this.parse.observe({ dialect }, seconds);
    if (errors[0] !== undefined) this.rounds.inc({ kind: errors[0].kind, dialect });
    for (const { kind } of errors) this.errors.inc({ kind, dialect, model });
    if (notes.errorsDropped > 0) this.errors.inc({ kind: 'unlisted', dialect, model }, notes.errorsDropped);
    for (const [rule, count] of Object.entries(notes.repairs)) this.repairs.inc({ rule }, count);
    this.inReasoning.inc(notes.callsInReasoning);
    this.quoted.inc(notes.quotedCallsIgnored);
  }

  on_tool_result(_run: HookedRun, { kind }: PendingCall, { ok, durationMs }: CallOutcome): void {
    this.calls.inc({ kind, ok: String(ok) });
    this.seconds.observe({ kind }, durationMs / 1000);
  }
}
