import { failpoint, HandBack } from '@yardmaster/bus';
import type { PendingCall, RunError, TerminalState } from '@yardmaster/conversation';
import {
  type ChatEnd,
  type ConversationMessage,
  type Effect,
  type ModelList,
  parseExactJson,
  type StoredEventType,
  type ToolResults,
  YardError,
} from '@yardmaster/contracts';
import {
  decideRepair,
  NO_REPAIRS,
  NO_ROUNDS,
  noteRound,
  type ParseNotes,
  providerParseError,
  toToolResults,
  type ToolCallError,
} from '@yardmaster/tool-calls';
import type { DispatcherConfig } from '../config.js';
import { interpret, type Reading } from './answer.js';
import type { ApprovalPolicy } from './approval-policy.js';
import type { HookedRun, Hooks } from './hooks.js';
import { limitReached, type RunUsage } from './limits.js';
import type { ModelCall } from './model-call.js';
import { exposedName, type RunPlan } from './run-plan.js';
import type { RunSession } from './run-session.js';
import type { ToolFront } from './tool-front.js';
import { type CallOutcome, pause, type ToolRound } from './tool-round.js';

export interface LoopParts {
  config: DispatcherConfig;
  model: ModelCall;
  round: ToolRound;
  approvals: ApprovalPolicy;
  front: ToolFront;
  hooks: Hooks;
}

/** The registry as a run follows it. */
export interface FollowedTools {
  readonly revision: number;
  /** The plan with the tools of now. Throws when the agent is gone. */
  replan(): RunPlan;
}

/** How the work on a run ended here. */
export type LoopEnd = { kind: 'ended'; next: string | undefined } | { kind: 'parked' };

/** Tries of a model request that nobody served (a router that restarts), before the run is handed to the queue again. */
const ROUTER_TRIES = 20;
const LONGEST_ROUTER_WAIT_MS = 1_000;

/**
 * The agent loop of one run: ask the model, run what it calls, tell it the results, until it calls nothing or a limit
 * says stop. Every write goes through the session, in an order in which any of them may be the last one: who takes the
 * run up again reads the record and goes on after it.
 */
export class RunLoop {
  /** Names the pinned set of tools; empty where there is none, undefined before it was looked at. */
  private frontKey: string | undefined;
  /** Revision of the registry that the plan was made at. */
  private planned: number;

  constructor(
    private readonly parts: LoopParts,
    private readonly session: RunSession,
    private plan: RunPlan,
    private readonly resumed: boolean,
    private readonly tools: FollowedTools,
  ) {
    this.planned = tools.revision;
  }

  async run(): Promise<LoopEnd> {
    const { session } = this;
    const deadline = setTimeout(
      () => session.interrupt('deadline'),
      Math.max(0, this.plan.limits.deadlineMs - Date.now()),
    );
    deadline.unref();
    // One that was parked past its deadline ends before anything else is looked at.
    if (this.plan.limits.deadlineMs <= Date.now()) session.interrupt('deadline');
    try {
      if (session.record.startedMs === undefined || session.record.state === 'queued') await this.start();
      session.events.emit('run.started', { conversation_id: session.conversation, model: this.plan.model });
      let resumed = this.resumed;
      for (;;) {
        this.checkOwnership();
        const stopped = this.stopped();
        if (stopped !== undefined) return await stopped;
        if (session.record.pending.length > 0) {
          const end = await this.toolRound(resumed);
          if (end !== undefined) return end;
        } else {
          const end = await this.modelStep();
          if (end !== undefined) return end;
        }
        resumed = false;
      }
    } finally {
      clearTimeout(deadline);
    }
  }

  private async start(): Promise<void> {
    const { spec } = this.session;
    const content = spec.inputIsParts
      ? (JSON.parse(spec.input) as ConversationMessage & { type: 'chat' })['content']
      : spec.input;
    await this.session.append([{ type: 'chat', role: 'user', content }], { state: 'running' });
    failpoint('dispatcher.user.appended');
  }

  /** After every durable step: does somebody want this process, or this run, to stop? */
  private checkOwnership(): void {
    if (this.session.stopReason === 'lost')
      throw new YardError('CONFLICT', 'YM-FENCED', 'Another dispatcher has taken the conversation.');
    if (this.session.stopReason === 'shutdown') throw new HandBack();
  }

  private stopped(): Promise<LoopEnd> | undefined {
    if (this.session.stopReason === 'cancel' || this.session.record.cancelRequestedMs !== undefined)
      return this.finish('cancelled', {});
    if (this.session.stopReason === 'deadline') return this.finish('incomplete', { reason: 'timeout' });
    return undefined;
  }

  private hooked(step: number): HookedRun {
    const { tenant, run, conversation } = this.session;
    return { tenant, run, conversation, step };
  }

  private get usage(): RunUsage {
    const { steps, promptTokens, completionTokens, cachedTokens, costUsd } = this.session.record;
    return { steps, promptTokens, completionTokens, cachedTokens, costUsd };
  }

  private async modelStep(): Promise<LoopEnd | undefined> {
    const { session } = this;
    const limit = limitReached(this.usage, this.plan.limits, Date.now());
    if (limit !== undefined) return this.finish('incomplete', { reason: limit.reason, message: limit.message });
    await this.readSteering();
    await this.followTools();
    const { plan } = this;
    const step = session.record.steps + 1;
    session.events.emit('step.started', { step });

    let end: ChatEnd;
    let reading: Reading;
    try {
      end = await this.ask(step);
      failpoint('dispatcher.llm.answered');
      reading = interpret(end, {
        step,
        historySeq: session.seq + 1,
        tools: plan.tools,
        toolSet: plan.toolSet,
        repair: session.notes.repair ?? NO_REPAIRS,
      });
    } catch (error) {
      if (session.signal.aborted) return undefined; // the loop's head says what that means
      return this.modelFailed(error);
    }
    const used = this.addUsage(end, step);
    const served = { provider: end.provider, model: end.model, dialect: end.dialect };
    this.parts.hooks.step(this.hooked(step), served);
    this.parts.hooks.answer(this.hooked(step), served, reading.found);
    session.events.emit('usage', {
      step,
      prompt_tokens: end.usage?.promptTokens ?? 0,
      completion_tokens: end.usage?.completionTokens ?? 0,
      cost_usd: end.usage?.costUsd ?? 0,
      provider: end.provider,
      model: end.model,
      dialect: end.dialect,
      attempts: (end.marks?.attempts ?? []).map(({ provider, model, outcome, status, durationMs }) => ({
        provider,
        model,
        outcome,
        status,
        duration_ms: durationMs,
      })),
    });

    if (reading.kind === 'final') {
      if (end.finishReason === 'length')
        return this.finish('incomplete', { ...used, reason: 'max_output_tokens', output: reading.text }, [
          reading.message,
        ]);
      if (end.finishReason === 'content_filter')
        return this.finish('incomplete', { ...used, reason: 'content_filter', output: reading.text }, [
          reading.message,
        ]);
      return this.finish('completed', { ...used, output: reading.text }, [reading.message]);
    }
    if (reading.kind === 'gave_up')
      return this.finish('incomplete', { ...used, reason: reading.reason, output: reading.text }, [reading.message]);
    session.notes.repair = reading.repair;
    if (reading.kind === 'repair') {
      await session.append([reading.message, { type: 'chat', role: 'user', content: reading.feedback }], used);
      return undefined;
    }
    const looping = this.looping(reading.calls);
    if (looping !== undefined) {
      const message: ConversationMessage = { type: 'chat', role: 'assistant', content: reading.message.text ?? '' };
      const why = `The model goes in circles: ${looping}.`;
      return this.finish('incomplete', { ...used, reason: 'loop_detected', message: why }, [message]);
    }
    await this.requestCalls(reading, used, step);
    return undefined;
  }

  /** Stores the assistant's message with its pending calls, and only then says so. */
  private async requestCalls(
    reading: Extract<Reading, { kind: 'calls' }>,
    used: UsageUpdate,
    step: number,
  ): Promise<void> {
    const { session, plan } = this;
    const calls = await this.parts.approvals.apply(reading.calls, reading.answers, plan.tools, session);
    session.notes.answers = reading.answers;
    if (reading.feedback === undefined) delete session.notes.feedback;
    else session.notes.feedback = reading.feedback;
    await session.append([reading.message], { ...used, pending: calls });
    failpoint('dispatcher.assistant.appended');
    if (reading.message.text !== null && reading.message.text !== '')
      session.events.emit('message.completed', { step, text: reading.message.text });
    this.announce(calls, step);
  }

  private announce(calls: readonly PendingCall[], step: number): void {
    for (const call of calls) {
      this.parts.hooks.toolCall(this.hooked(step), call);
      this.session.events.emit('tool.requested', {
        step,
        call: call.call,
        name: call.name,
        arguments: parseExactJson(call.argumentsJson),
        args_hash: call.argsHash,
      });
    }
  }

  private async toolRound(resumed: boolean): Promise<LoopEnd | undefined> {
    const { session } = this;
    const step = session.record.steps;
    if (resumed) this.announce(session.record.pending, step);
    const parked = await this.settleApprovals(step);
    if (parked !== undefined) return parked;
    const calls = session.record.pending;
    const onOutcome = (call: PendingCall, outcome: CallOutcome) => {
      this.parts.hooks.toolResult(this.hooked(step), call, outcome);
      session.events.emit('tool.completed', {
        step,
        call: call.call,
        name: call.name,
        ok: outcome.ok,
        ...(outcome.ok ? {} : { reason: outcome.reason }),
        duration_ms: outcome.durationMs,
        output: outcome.output.slice(0, 2000),
        ...(outcome.output.length > 2000 ? { output_chars: outcome.output.length + (outcome.cutChars ?? 0) } : {}),
        ...(outcome.verdictJson === '' ? {} : { verdict: JSON.parse(outcome.verdictJson) as unknown }),
      });
    };
    const outcomes = await this.parts.round.run(
      calls,
      {
        tenant: session.tenant,
        run: session.run,
        conversation: session.conversation,
        workspace: this.plan.workspace,
        tools: this.plan.tools,
        answers: session.notes.answers ?? {},
        signal: session.waiting,
        onOutcome,
      },
      resumed,
    );
    this.checkOwnership();
    if (outcomes.includes(undefined)) return undefined; // cancelled, or out of time: `finish` closes the open calls
    await this.storeResults(calls, outcomes as CallOutcome[]);
    failpoint('dispatcher.results.appended');
    return undefined;
  }

  /** All results of the round together, in call order: the history is never without an answer to a call. */
  private async storeResults(calls: readonly PendingCall[], outcomes: readonly CallOutcome[]): Promise<void> {
    const { session } = this;
    const items: ConversationMessage[] = [resultsOf(calls, outcomes)];
    if (session.notes.feedback !== undefined)
      items.push({ type: 'chat', role: 'user', content: session.notes.feedback });
    delete session.notes.answers;
    delete session.notes.feedback;
    await session.append(items, { pending: [] });
  }

  /** Calls that wait for a person park the run, unless all of them are decided by now. */
  private async settleApprovals(step: number): Promise<LoopEnd | undefined> {
    const { session } = this;
    const settled = await this.parts.approvals.settle(session, this.plan.tools);
    for (const call of settled.waiting)
      session.events.emit('tool.approval_required', {
        step,
        call: call.call,
        name: call.name,
        arguments: parseExactJson(call.argumentsJson),
        args_hash: call.argsHash,
        reason: call.approvalReason ?? null,
        expires_at: call.approvalExpiresMs === undefined ? null : new Date(call.approvalExpiresMs).toISOString(),
      });
    if (settled.waiting.length === 0) {
      if (settled.changed) {
        await session.append([], { pending: settled.calls, state: 'running' });
      }
      return undefined;
    }
    await session.events.flush();
    await session.park({ pending: settled.calls, state: 'waiting_approval' });
    await this.parts.approvals.parked(session, settled.waiting, this.plan.limits.deadlineMs);
    return { kind: 'parked' };
  }

  /** Tools that came, went or changed since the last answer: callable from now on, and told at the tail. */
  private async followTools(): Promise<void> {
    const { session, tools } = this;
    const { revision } = tools;
    if (this.frontKey !== undefined && this.planned === revision) return;
    if (this.planned !== revision) {
      try {
        this.plan = tools.replan();
      } catch {
        // Its agent was taken out of the configuration: the run goes on with what it had.
      }
      this.planned = revision;
    }
    const { key, notice } = await this.parts.front.look(session, this.plan, session.knownTools);
    if (notice !== undefined) {
      await session.append([{ type: 'chat', role: 'user', content: notice }], {});
      await this.parts.front.told(session, this.plan);
    }
    this.frontKey = key;
  }

  private async ask(step: number): Promise<ChatEnd> {
    const { session, plan } = this;
    const { spec } = session;
    const request = {
      conversationId: session.conversation,
      upToSeq: BigInt(session.seq),
      system: plan.system,
      model: plan.model,
      providers: plan.agent.providers ?? [],
      modelFallbacks: Object.fromEntries(
        Object.entries(plan.agent.model_fallbacks ?? {}).map(([model, models]) => [model, { models } as ModelList]),
      ),
      tools: [...plan.named],
      toolSetKey: this.frontKey ?? '',
      toolsRevision: BigInt(this.planned),
      toolChoiceJson: spec.toolChoiceJson ?? '',
      responseFormatJson: spec.responseFormatJson ?? '',
      temperature: spec.temperature ?? plan.agent.temperature,
      maxOutputTokens: spec.maxOutputTokens ?? plan.agent.max_output_tokens,
      toolDispatcher: spec.toolDispatcher ?? plan.agent.tool_dispatcher ?? 'auto',
      render: spec.render ?? plan.agent.render ?? '',
    };
    const timeoutMs = Math.max(1, Math.min(this.parts.config.modelTimeoutMs, plan.limits.deadlineMs - Date.now()));
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.parts.model.ask(
          { ...request, temperature: request.temperature!, maxOutputTokens: request.maxOutputTokens! },
          { tenant: session.tenant, run: session.run, step, signal: session.signal, timeoutMs },
        );
      } catch (error) {
        const failure = YardError.from(error);
        // No answer was given yet, so asking again is safe: the router restarts, or its pod is gone.
        const again = failure.class === 'UNAVAILABLE' && ROUTER_GONE.has(failure.code) && attempt < ROUTER_TRIES;
        if (!again || session.signal.aborted) throw failure;
        await pause(Math.min(LONGEST_ROUTER_WAIT_MS, 50 * 2 ** attempt) * (0.5 + Math.random()), session.waiting);
        this.checkOwnership();
        if (session.signal.aborted) throw failure;
      }
    }
  }

  private async modelFailed(error: unknown): Promise<LoopEnd | undefined> {
    const failure = YardError.from(error);
    if (ROUTER_GONE.has(failure.code) || failure.code === 'YM-STATE-LOST' || failure.code === 'YM-FENCED')
      throw failure;
    const unread =
      failure.code === 'YM-LLM-MODEL-OUTPUT' ? (providerParseError(failure.message) ?? UNREAD_BY_SERVER) : undefined;
    if (unread !== undefined) {
      // The server could not read the call that its model wrote: the model hears so, within the budget of repairs.
      const nothing = { text: '', calls: [], errors: [unread], notes: NOTHING_NOTED };
      const asked = { provider: '', model: this.plan.model, dialect: 'native' };
      this.parts.hooks.answer(this.hooked(this.session.record.steps + 1), asked, nothing);
      const decision = decideRepair(this.session.notes.repair ?? NO_REPAIRS, nothing);
      if (decision.action !== 'repair')
        return this.finish('incomplete', {
          reason: decision.action === 'stop' ? decision.reason : 'repair_budget_exhausted',
        });
      this.session.notes.repair = decision.state;
      const steps = this.session.record.steps + 1;
      await this.session.append([{ type: 'chat', role: 'user', content: decision.text }], { steps });
      return undefined;
    }
    if (failure.class === 'INTERNAL')
      this.session.log.error({ run: this.session.run, err: failure.cause ?? failure }, 'a step failed');
    return this.finish('failed', {
      error: {
        class: failure.class,
        code: failure.code,
        message: failure.message,
        ...(failure.details ? { details: failure.details } : {}),
      },
    });
  }

  private addUsage(end: ChatEnd, step: number): UsageUpdate {
    const before = this.usage;
    return {
      steps: step,
      promptTokens: before.promptTokens + (end.usage?.promptTokens ?? 0),
      completionTokens: before.completionTokens + (end.usage?.completionTokens ?? 0),
      cachedTokens: before.cachedTokens + (end.usage?.cachedTokens ?? 0),
      costUsd: before.costUsd + (end.usage?.costUsd ?? 0),
    };
  }

  /** Why the run must end, when the model goes in circles. */
  private looping(calls: readonly PendingCall[]): string | undefined {
    const { notes } = this.session;
    const noted = noteRound(
      notes.rounds ?? NO_ROUNDS,
      calls.map((call) => ({ name: call.name, arguments: call.argsHash })),
      { limit: this.parts.config.maxRepeats },
    );
    notes.rounds = [...noted.state];
    return noted.looping ? noted.reason : undefined;
  }

  /** What the caller said to the running agent becomes part of the conversation before the next answer. */
  private async readSteering(): Promise<void> {
    const { session } = this;
    const waiting = session.record.steering;
    if (waiting.length === 0) return;
    await session.append(
      waiting.map(({ text }) => ({ type: 'chat', role: 'user', content: text })),
      { steerDone: waiting.at(-1)!.n },
    );
    session.record.steering = [];
  }

  /** The last write, then the terminal event. Open calls are closed first, so the history stays well-formed. */
  private async finish(
    state: TerminalState,
    update: Partial<UsageUpdate> & { reason?: string; message?: string; output?: string; error?: RunError },
    items: ConversationMessage[] = [],
  ): Promise<LoopEnd> {
    const { session } = this;
    const { message, ...record } = update;
    const open = session.record.pending;
    const closing: ConversationMessage[] =
      open.length === 0
        ? []
        : [
            resultsOf(
              open,
              open.map((call) => closedBy(state, call.effect)),
            ),
          ];
    const step = record.steps ?? session.record.steps;
    for (const call of open)
      session.events.emit('tool.completed', {
        step,
        call: call.call,
        name: call.name,
        ok: false,
        reason: state === 'cancelled' ? 'cancelled' : 'not_finished',
        duration_ms: 0,
      });
    const written = await session.finish([...closing, ...items], {
      ...record,
      state,
      pending: [],
    });
    failpoint('dispatcher.final.appended');
    sayEnd(session, written.state as TerminalState, step, { ...record, ...(message === undefined ? {} : { message }) });
    await session.events.flush();
    failpoint('dispatcher.terminal.published');
    return { kind: 'ended', next: written.next };
  }
}

const NOTHING_NOTED: ParseNotes = {
  repairs: {},
  callsInReasoning: 0,
  quotedCallsIgnored: 0,
  fabricatedResult: false,
  errorsDropped: 0,
};
const UNREAD_BY_SERVER: ToolCallError = {
  kind: 'malformed_json',
  message: 'the server could not read the tool call in your answer',
};

type UsageUpdate = Pick<RunUsage, 'steps' | 'promptTokens' | 'completionTokens' | 'cachedTokens' | 'costUsd'>;

/** Codes that say that no router answered: the run goes back to the queue, it does not fail. */
const ROUTER_GONE = new Set([
  'YM-NO-RESPONDERS',
  'YM-STREAM-GAP',
  'YM-STREAM-CUT',
  'YM-STREAM-SILENT',
  'YM-SHUTDOWN',
  'YM-READER-GONE',
]);

/** The terminal events of a run; also said again when a dispatcher died between the last write and its event. */
export function sayEnd(
  session: Pick<RunSession, 'events' | 'record'>,
  state: TerminalState,
  step: number,
  end: { reason?: string; message?: string; output?: string; error?: RunError },
): void {
  if (end.output !== undefined && state !== 'failed')
    session.events.emit('message.completed', { step, text: end.output, final: true });
  const { steps, promptTokens, completionTokens, costUsd } = session.record;
  const type: StoredEventType = `run.${state}`;
  session.events.emit(type, {
    usage: { prompt_tokens: promptTokens, completion_tokens: completionTokens, cost_usd: costUsd },
    steps,
    ...(end.output === undefined ? {} : { output: end.output }),
    ...(end.reason === undefined ? {} : { reason: end.reason }),
    ...(end.message === undefined ? {} : { message: end.message }),
    ...(end.error === undefined ? {} : { error: end.error }),
  });
}

/** The results of a round in canonical form: well-formed text, capped with the exact count of what was cut. */
function resultsOf(calls: readonly PendingCall[], outcomes: readonly CallOutcome[]): ToolResults {
  return toToolResults(
    calls.map((call, index) => ({
      tool_call_id: call.providerId,
      name: exposedName(call.name),
      output: outcomes[index]!.output,
      cut_chars: outcomes[index]!.cutChars ?? 0,
      success: outcomes[index]!.ok,
    })),
  );
}

function closedBy(state: TerminalState, effect: Effect): CallOutcome {
  const text =
    state === 'cancelled'
      ? 'Cancelled by the caller before a result arrived.'
      : 'The run ended before a result arrived.';
  const unsure = effect === 'read' ? '' : ' It may have been carried out in part.';
  return {
    ok: false,
    output: text + unsure,
    reason: state,
    durationMs: 0,
    verdictJson: '',
    outcomeUnknown: effect !== 'read',
  };
}
