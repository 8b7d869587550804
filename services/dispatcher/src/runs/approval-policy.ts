import { Injectable } from '@nestjs/common';
import { ConversationStore, type PendingCall } from '@yardmaster/conversation';
import type { Tool, ToolCategory } from '@yardmaster/contracts';
import { PlatformConfigFile } from '@yardmaster/service-kit';
import { DispatcherConfig } from '../config.js';
import { Grants } from './grants.js';
import type { RunSession } from './run-session.js';

export interface Settled {
  calls: PendingCall[];
  waiting: PendingCall[];
  changed: boolean;
}

/** Timer of a parked run: the leader wakes it when nobody has decided in time. */
export const approvalTimer = (tenant: string, conversation: string, run: string) =>
  `approval|${tenant}|${conversation}|${run}`;

/**
 * Whether a call needs a person. The platform's policy by category decides, a tool that always asks asks, a standing
 * grant for this very definition lets it through, a denial stands above all. What is not decided in time is denied.
 */
@Injectable()
export class ApprovalPolicy {
  constructor(
    private readonly platform: PlatformConfigFile,
    private readonly config: DispatcherConfig,
    private readonly grants: Grants,
    private readonly store: ConversationStore,
  ) {}

  /** Marks the calls that must be asked about; denied ones get their answer. */
  async apply(
    calls: readonly PendingCall[],
    answers: Record<string, { output: string; reason: string }>,
    tools: ReadonlyMap<string, Tool>,
    session: RunSession,
  ): Promise<PendingCall[]> {
    return calls.map((call) => {
      if (answers[call.call] !== undefined) return call;
      const tool = [...tools.values()].find((candidate) => candidate.name === call.name);
      const policy = this.platform.current.approvals[(tool?.category ?? 'execute') as ToolCategory] ?? 'allow';
      if (policy === 'deny') {
        answers[call.call] = {
          output: `The policy of this platform does not allow tools of the category "${tool?.category}". Nothing was run.`,
          reason: 'refused',
        };
        return call;
      }
      if (policy === 'allow' && tool?.alwaysAsk !== true) return call;
      if (tool !== undefined && this.grants.allows(session.tenant, session.conversation, tool.hash)) return call;
      return { ...call, approval: 'waiting' as const, approvalExpiresMs: Date.now() + this.config.approvalTimeoutMs };
    });
  }

  /** Carries decisions over into the pending calls; a denial or an expiry is the call's answer. */
  settle(session: RunSession, now = Date.now()): Settled {
    const answers = (session.notes.answers ??= {});
    const waiting: PendingCall[] = [];
    let changed = false;
    const calls = session.record.pending.map((call): PendingCall => {
      if (call.approval !== 'waiting') return call;
      const decision = session.record.decisions[call.call];
      if (decision !== undefined && decision.argsHash === call.argsHash) {
        changed = true;
        if (decision.decision === 'approve') {
          if (call.toolHash !== undefined && (decision.remember === 'session' || decision.remember === 'always'))
            void this.grants.give(
              session.tenant,
              decision.remember === 'always' ? 'all' : session.conversation,
              call.toolHash,
              decision.by,
            );
          return { ...call, approval: 'approved' };
        }
        answers[call.call] = {
          output: `A person denied this call${decision.reason === undefined ? '' : `: ${decision.reason}`}. Nothing was run.`,
          reason: 'denied',
        };
        return {
          ...call,
          approval: 'denied',
          ...(decision.reason === undefined ? {} : { approvalReason: decision.reason }),
        };
      }
      if (call.approvalExpiresMs !== undefined && call.approvalExpiresMs <= now) {
        changed = true;
        answers[call.call] = {
          output: 'Nobody approved this call in time. Nothing was run.',
          reason: 'approval_expired',
        };
        return { ...call, approval: 'denied', approvalReason: 'expired' };
      }
      waiting.push(call);
      return call;
    });
    return { calls, waiting, changed };
  }

  /** Sets the timer that wakes the run when the earliest approval expires. */
  async parked(session: RunSession, waiting: readonly PendingCall[]): Promise<void> {
    const earliest = Math.min(...waiting.map((call) => call.approvalExpiresMs ?? Number.POSITIVE_INFINITY));
    if (Number.isFinite(earliest))
      await this.store.timers.add(
        approvalTimer(session.tenant, session.conversation, session.run),
        Math.max(0, earliest - Date.now()) + 50,
      );
  }
}
