import { create, fromJsonString } from '@bufbuild/protobuf';
import { Inject, Injectable } from '@nestjs/common';
import { Abandon, type Bus, failpoint, HandBack, type WorkContext } from '@yardmaster/bus';
import {
  ConversationStore,
  type ConversationTools,
  type RunRef,
  type RunRecord,
  type TerminalState,
} from '@yardmaster/conversation';
import {
  Runs,
  type RunCommand,
  type RunMessage,
  type StartRun,
  StartRunSchema,
  subjects,
  type TenantId,
  YardError,
} from '@yardmaster/contracts';
import { BUS, LOGGER, type Logger, PlatformConfigFile } from '@yardmaster/service-kit';
import { DispatcherConfig } from '../config.js';
import { ApprovalPolicy } from './approval-policy.js';
import { Hooks } from './hooks.js';
import { ModelCall } from './model-call.js';
import { RunCommands } from './commands.js';
import { RunEvents } from './run-events.js';
import { RunLoop, sayEnd } from './run-loop.js';
import { planRun, type RunPlan } from './run-plan.js';
import { TenantPolicies } from './tenant-policies.js';
import { ToolFront } from './tool-front.js';
import { RunSession } from './run-session.js';
import { ToolRound } from './tool-round.js';
import { ToolSnapshot } from './tool-snapshot.js';

/** Takes run messages: owns the conversation, runs the loop, and leaves the run parked, ended, or to somebody else. */
@Injectable()
export class RunService {
  private readonly sessions = new Set<RunSession>();
  private stopping = false;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    private readonly store: ConversationStore,
    private readonly config: DispatcherConfig,
    private readonly platform: PlatformConfigFile,
    private readonly tools: ToolSnapshot,
    private readonly commands: RunCommands,
    private readonly model: ModelCall,
    private readonly round: ToolRound,
    private readonly approvals: ApprovalPolicy,
    private readonly hooks: Hooks,
    private readonly front: ToolFront,
    private readonly policies: TenantPolicies,
  ) {}

  /** From now on every run is handed back at its next durable step. */
  stop(): void {
    this.stopping = true;
    for (const session of this.sessions) session.interrupt('shutdown');
  }

  /** Works on a run until it is parked or over. Returning acknowledges the message. */
  async work(message: RunMessage, context: WorkContext): Promise<void> {
    if (this.stopping) throw new HandBack();
    const { tenant } = context;
    const ref = { tenant, conversation: message.conversationId, run: message.runId };
    failpoint('dispatcher.run.claimed');
    // Heard from before the record is read: a command that is spoken in between would otherwise be missed.
    const heard = new CommandBuffer();
    const unlisten = this.commands.listen(tenant, ref.run, (command) => heard.take(command));
    try {
      await this.take(ref, context.deliverySequence, heard);
    } finally {
      unlisten();
    }
  }

  private async take(ref: RunRef, deliverySequence: number, heard: CommandBuffer): Promise<void> {
    const { tenant } = ref;
    const taken = await this.store.acquire({
      ...ref,
      deliverySequence,
      leaseMs: this.config.leaseMs,
    });
    switch (taken.kind) {
      case 'ended':
        return this.sayEndAgain(tenant, taken.record);
      case 'busy':
        // Another run has the conversation: this one is in its queue, and its message is published when it is its turn.
        if (taken.waiting) {
          // One that was cancelled before its turn ends where it waits.
          if (taken.record?.state === 'cancelling' && (await this.store.cancelWaiting(ref)))
            await this.sayEndAgain(tenant, await this.store.getRun(tenant, ref.run));
          return;
        }
        throw new HandBack(Math.min(taken.leaseMsLeft + 50, this.config.leaseMs));
      case 'acquired':
        if (taken.record === undefined) return this.lost(ref, taken.fence, 'The record of the run is gone.');
        if (taken.started) failpoint('dispatcher.user.appended');
        return this.own(taken.record, taken, heard);
    }
  }

  private async own(
    record: RunRecord,
    taken: { fence: number; seq: number; started: boolean; tools: ConversationTools },
    heard: CommandBuffer,
  ): Promise<void> {
    const { tenant, conversation, id: run } = record;
    const { fence, seq, tools: known } = taken;
    const resumed = !taken.started && (record.startedMs !== undefined || record.attempts > 1);
    const events = resumed ? await RunEvents.resumed(this.bus, tenant, run) : RunEvents.fresh(this.bus, tenant, run);
    // The store remembers how many events were written: fewer in the stream would be a loss there, more a loss here.
    const { spec, unreadable } = readSpec(record);
    const session = new RunSession(this.store, this.log, spec, fence, seq, record, events, this.config.leaseMs, known);
    this.sessions.add(session);
    session.keepLease();
    heard.handOver((command) => {
      if (command.kind === 'cancel') session.interrupt('cancel');
      else if (command.kind === 'steer') void this.refresh(session);
    });
    try {
      if (this.stopping) session.interrupt('shutdown');
      if (unreadable !== undefined) {
        this.log.error({ run, err: unreadable }, 'the record of a run cannot be read');
        return await this.fail(
          session,
          new YardError('INTERNAL', 'YM-RUN-SPEC', 'What the run was asked to do cannot be read from its record.'),
        );
      }
      if (record.attempts > this.config.maxAttempts)
        return await this.fail(
          session,
          new YardError('INTERNAL', 'YM-RUN-GAVE-UP', `The run made no progress in ${record.attempts - 1} attempts.`),
        );
      const makePlan = (begun: boolean) =>
        planRun(
          spec,
          record,
          this.platform.current,
          this.tools,
          { maxIterations: this.config.maxIterations, runTimeoutMs: this.config.runTimeoutMs },
          (tool) => this.policies.hides(tenant, tool),
          begun,
        );
      const { tools } = this;
      let plan: RunPlan;
      try {
        plan = makePlan(!taken.started);
      } catch (error) {
        return await this.fail(session, YardError.from(error));
      }
      const loop = new RunLoop(
        {
          config: this.config,
          model: this.model,
          round: this.round,
          approvals: this.approvals,
          hooks: this.hooks,
          front: this.front,
        },
        session,
        plan,
        resumed,
        {
          get revision() {
            return tools.revision;
          },
          replan: () => makePlan(true),
        },
      );
      const end = await loop.run();
      if (end.kind === 'ended') await this.admit(tenant, conversation, end.next);
    } catch (error) {
      await this.brokenOff(session, error);
    } finally {
      session.abandon();
      this.sessions.delete(session);
    }
  }

  private async refresh(session: RunSession): Promise<void> {
    const record = await this.store.getRun(session.tenant, session.run).catch(() => undefined);
    if (record !== undefined) session.record.steering = record.steering;
  }

  /** What becomes of the message when the work on it was broken off. */
  private async brokenOff(session: RunSession, error: unknown): Promise<void> {
    if (error instanceof HandBack) {
      await session.release(true);
      throw error;
    }
    const failure = YardError.from(error);
    switch (failure.code) {
      case 'YM-FENCED':
      case 'YM-SEQ-CONFLICT':
      case 'YM-RUN-ENDED':
        this.log.warn(
          { run: session.run, code: failure.code },
          'this dispatcher lost the conversation: another one goes on with the run',
        );
        throw new Abandon();
      case 'YM-STATE-LOST':
        // The end is numbered after what was said so far.
        await session.events.flush().catch(() => undefined);
        return this.lost(
          { tenant: session.tenant, conversation: session.conversation, run: session.run },
          session.fence,
          failure.message,
        );
      case 'YM-CONVERSATION-FULL':
        return this.fail(session, failure);
      default:
        await session.release(false);
        throw failure;
    }
  }

  /** Ends the run as failed; used where the loop cannot, or must not, go on. */
  private async fail(session: RunSession, error: YardError): Promise<void> {
    const runError = {
      class: error.class,
      code: error.code,
      message: error.message,
      ...(error.details ? { details: error.details } : {}),
    };
    const open = session.record.pending;
    const closing =
      open.length === 0
        ? []
        : [
            {
              type: 'tool_results' as const,
              results: open.map((call) => ({
                tool_call_id: call.providerId,
                name: call.name,
                ok: false,
                content: 'The run ended before a result arrived.',
              })),
            },
          ];
    const written = await session.finish(closing, { state: 'failed', error: runError, pending: [] });
    session.events.emit('run.started', { conversation_id: session.conversation });
    sayEnd(session, written.state as TerminalState, session.record.steps, { error: runError });
    await session.events.flush();
    await this.admit(session.tenant, session.conversation, written.next);
  }

  /** Redis forgot what this run had written: it ends, instead of going on with a shortened history. */
  private async lost(
    ref: { tenant: TenantId; conversation: string; run: string },
    fence: number,
    message: string,
  ): Promise<void> {
    const written = await this.store.failLost({ ...ref, fence }, message);
    const record = await this.store.getRun(ref.tenant, ref.run);
    await this.sayEndAgain(ref.tenant, record);
    await this.admit(ref.tenant, ref.conversation, written.next);
  }

  /** A run that is over, whose message came again: the terminal event may be missing, nothing else can be. */
  private async sayEndAgain(tenant: TenantId, record: RunRecord): Promise<void> {
    const events = await RunEvents.resumed(this.bus, tenant, record.id);
    if (!events.hasTerminal) {
      events.emit('run.started', { conversation_id: record.conversation });
      sayEnd({ events, record } as unknown as RunSession, record.state as TerminalState, record.steps, {
        ...(record.output === undefined ? {} : { output: record.output }),
        ...(record.reason === undefined ? {} : { reason: record.reason }),
        ...(record.error === undefined ? {} : { error: record.error }),
      });
      await events.flush();
    }
  }

  /** The run that waited for this conversation, and one of the tenant's that the queue had no room for. */
  private async admit(tenant: TenantId, conversation: string, next: string | undefined): Promise<void> {
    if (next !== undefined) await this.publish(tenant, conversation, next);
    for (const ref of await this.store.admission.next(tenant)) {
      if (await this.publish(tenant, ref.conversation, ref.run)) await this.store.admission.admitted(tenant, ref.run);
    }
  }

  /** Puts a run into the queue, or into its tenant's waiting list when the queue has no room for it. */
  async publish(tenant: TenantId, conversation: string, run: string, reason = 'start'): Promise<boolean> {
    try {
      await this.bus.enqueue(
        subjects.runStart(tenant),
        Runs.work.message,
        { runId: run, conversationId: conversation, reason },
        {},
      );
      await this.store.markPublished({ tenant, conversation, run });
      return true;
    } catch (error) {
      if (!YardError.is(error) || error.code !== 'YM-QUEUE-FULL') throw error;
      await this.store.admission.wait({ tenant, conversation, run });
      return false;
    }
  }
}

/** Commands to a run that is being taken up, kept until there is a session to give them to. */
class CommandBuffer {
  private waiting: RunCommand[] = [];
  private handler: ((command: RunCommand) => void) | undefined;

  take(command: RunCommand): void {
    if (this.handler === undefined) this.waiting.push(command);
    else this.handler(command);
  }

  handOver(handler: (command: RunCommand) => void): void {
    this.handler = handler;
    for (const command of this.waiting.splice(0)) handler(command);
  }
}

/** A record that cannot be read ends its run: reading it again would fail for ever, and hold the conversation. */
function readSpec({ specJson }: RunRecord): { spec: StartRun; unreadable?: unknown } {
  try {
    return { spec: fromJsonString(StartRunSchema, specJson, { ignoreUnknownFields: true }) };
  } catch (unreadable) {
    return { spec: create(StartRunSchema), unreadable };
  }
}
