import { Inject, Injectable } from '@nestjs/common';
import { type Bus, failpoint } from '@yardmaster/bus';
import { subjects, type TenantId, type Tool, toolWork, type ToolResult, YardError } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { DispatcherConfig } from '../config.js';
import { MetaTools } from './meta-tools.js';
import type { PendingCall } from '@yardmaster/conversation';
import { ToolResults } from './tool-results.js';

/** What a call came to; always exactly one for each call. */
export interface CallOutcome {
  ok: boolean;
  output: string;
  reason: string;
  durationMs: number;
  verdictJson: string;
  outcomeUnknown: boolean;
  /** Characters of the output that its executor has cut out. */
  cutChars?: number;
}

export interface RoundContext {
  tenant: TenantId;
  run: string;
  conversation: string;
  workspace: string;
  /** The tools of this run by the name that models know, for the meta tools. */
  tools: ReadonlyMap<string, Tool>;
  /** Calls that have their answer without being run: unreadable, unknown, refused. */
  answers: Readonly<Record<string, { output: string; reason: string }>>;
  signal: AbortSignal;
  /** Told as each call ends, in the order of ending. */
  onOutcome(call: PendingCall, outcome: CallOutcome): void;
}

const QUEUE_FULL_WAIT_MS = 250;
/** An abort without a reason makes an exception with a stack, for every call. */
const DONE = 'done';

/** Runs the calls of one round: independent calls in parallel, one outcome per call, in call order. */
@Injectable()
export class ToolRound {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly results: ToolResults,
    private readonly meta: MetaTools,
    private readonly config: DispatcherConfig,
  ) {}

  /** Undefined outcomes are of calls that the signal cut off: they go on, or are closed, elsewhere. */
  async run(
    calls: readonly PendingCall[],
    context: RoundContext,
    resumed: boolean,
  ): Promise<(CallOutcome | undefined)[]> {
    const outcomes: (CallOutcome | undefined)[] = new Array<undefined>(calls.length).fill(undefined);
    let next = 0;
    const worker = async () => {
      while (next < calls.length && !context.signal.aborted) {
        const index = next++;
        const call = calls[index]!;
        const outcome = await this.runOne(call, context, resumed);
        if (outcome !== undefined) {
          outcomes[index] = outcome;
          context.onOutcome(call, outcome);
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(this.config.parallelCalls, calls.length) }, worker));
    return outcomes;
  }

  private async runOne(call: PendingCall, context: RoundContext, resumed: boolean): Promise<CallOutcome | undefined> {
    const answer = context.answers[call.call];
    if (answer !== undefined) return failed(answer.output, answer.reason);
    if (call.kind === 'meta') return this.meta.run(call, context);
    const subject = subjects.result(context.tenant, context.run, call.call, call.nonce);
    if (resumed) {
      const stored = await this.results.stored(subject);
      if (stored !== undefined) return this.accept(call, stored);
    }
    const stop = new AbortController();
    const result = this.results.wait(subject, AbortSignal.any([context.signal, stop.signal]));
    try {
      const refusal = await this.publish(call, context);
      failpoint(`dispatcher.tool.published(${Number(call.call.split('-')[1]) + 1})`);
      if (refusal !== undefined) return refusal;
      const stored = await result;
      if (stored === undefined) return undefined;
      failpoint('dispatcher.result.received');
      return this.accept(call, stored);
    } finally {
      stop.abort(DONE);
    }
  }

  /** Queues the call. A full queue makes the call wait here: it is the tenant's share that is used up, and nothing is lost. */
  private async publish(call: PendingCall, context: RoundContext): Promise<CallOutcome | undefined> {
    for (;;) {
      try {
        await this.bus.enqueue(
          subjects.tool(call.kind, context.tenant),
          toolWork(call.kind).message,
          {
            runId: context.run,
            callId: call.call,
            conversationId: context.conversation,
            name: call.name,
            argumentsJson: call.argumentsJson,
            argsHash: call.argsHash,
            historySeq: BigInt(call.historySeq),
            nonce: call.nonce,
            effect: call.effect,
            timeoutMs: call.timeoutMs ?? 0,
            workspace: context.workspace,
            toolHash: call.toolHash ?? '',
            dispatchJson: call.dispatchJson ?? '',
            tenant: context.tenant,
          },
          { msgId: `${context.run}:${call.call}:${call.nonce}`, json: wantsJson(call.dispatchJson) },
        );
        return undefined;
      } catch (error) {
        const failure = YardError.from(error);
        if (context.signal.aborted) return undefined;
        if (failure.code === 'YM-QUEUE-FULL') {
          await pause(QUEUE_FULL_WAIT_MS * (0.5 + Math.random()), context.signal);
          continue;
        }
        if (failure.code === 'YM-NO-STREAM')
          return failed(
            `No executor for tools of the kind "${call.kind}" is installed, so "${call.name}" cannot run. Nothing was run.`,
            'no_executor',
          );
        throw failure;
      }
    }
  }

  /** A stored result counts only for the very call that is pending. */
  private accept(call: PendingCall, result: ToolResult): CallOutcome {
    if (result.argsHash !== call.argsHash || result.historySeq !== BigInt(call.historySeq))
      throw new YardError(
        'INTERNAL',
        'YM-STATE-LOST',
        `The stored result of call ${call.call} belongs to another call: the history went back in time.`,
      );
    return {
      ok: result.ok,
      output: result.output,
      reason: result.reason,
      durationMs: result.durationMs,
      verdictJson: result.verdictJson,
      outcomeUnknown: result.outcomeUnknown,
      cutChars: Number(result.outputCutChars),
    };
  }
}

/** Executors that speak no protobuf say so where their tools are registered: `dispatch: {encoding: json}`. */
function wantsJson(dispatchJson: string | undefined): boolean {
  if (dispatchJson === undefined || dispatchJson === '') return false;
  return (JSON.parse(dispatchJson) as { encoding?: unknown }).encoding === 'json';
}

export function failed(output: string, reason: string): CallOutcome {
  return { ok: false, output, reason, durationMs: 0, verdictJson: '', outcomeUnknown: false };
}

/** Resolves after `ms`, or at once when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}
