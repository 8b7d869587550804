import { Injectable } from '@nestjs/common';
import { ConversationStore, type Decision, type PendingCall } from '@yardmaster/conversation';
import { parseExactJson, type Tool } from '@yardmaster/contracts';
import { type ApprovalGrant, argumentsHash, decideApproval, type GrantScope, hostsIn } from '@yardmaster/tool-schema';
import { DispatcherConfig } from '../config.js';
import { Audit } from './audit.js';
import { Grants } from './grants.js';
import type { RunSession } from './run-session.js';
import { subjectOf, TenantPolicies } from './tenant-policies.js';

export interface Settled {
  calls: PendingCall[];
  waiting: PendingCall[];
  changed: boolean;
}

type Answers = Record<string, { output: string; reason: string }>;
type Tools = ReadonlyMap<string, Tool>;

/** Timer of a parked run: the leader wakes it when nobody has decided in time. */
export const approvalTimer = (tenant: string, conversation: string, run: string) =>
  `approval|${tenant}|${conversation}|${run}`;

/**
 * Whether a call needs a person. The policy of platform and tenant decides, a grant for this very definition lets a call
 * through, what an administrator forbids stands above all. What cannot be read, or is not decided in time, is denied.
 */
@Injectable()
export class ApprovalPolicy {
  constructor(
    private readonly policies: TenantPolicies,
    private readonly config: DispatcherConfig,
    private readonly grants: Grants,
    private readonly store: ConversationStore,
    private readonly audit: Audit,
  ) {}

  /** Marks the calls that must be asked about; denied ones get their answer. */
  async apply(
    calls: readonly PendingCall[],
    answers: Answers,
    tools: Tools,
    session: RunSession,
  ): Promise<PendingCall[]> {
    const decided: PendingCall[] = [];
    for (const call of calls) decided.push(await this.one(call, answers, tools, session));
    return decided;
  }

  private async one(call: PendingCall, answers: Answers, tools: Tools, session: RunSession): Promise<PendingCall> {
    // Tools about tools show what the run may call anyway.
    if (answers[call.call] !== undefined || call.kind === 'meta') return call;
    const tool = toolOf(call, tools);
    const { decision, level, reason, grant } = this.decide(call, tool, session);
    if (level !== 'auto' || decision !== 'allow')
      await this.note(session, call, 'policy', decision, grant === undefined ? reason : `${reason}: ${grant}`);
    if (decision === 'allow') return call;
    if (decision === 'ask')
      return {
        ...call,
        approval: 'waiting',
        approvalReason: reason,
        approvalExpiresMs: Date.now() + this.config.approvalTimeoutMs,
      };
    answers[call.call] = { output: `Not approved: ${reason}. Nothing was run.`, reason: 'refused' };
    return call;
  }

  private decide(call: PendingCall, tool: Tool | undefined, session: RunSession) {
    const { policy, denied, canAsk } = this.policies.of(session.tenant);
    if (tool === undefined || this.policies.forbids(tool))
      return {
        decision: 'deny' as const,
        level: 'deny' as const,
        reason:
          tool === undefined
            ? 'the tool is not known any more'
            : `this platform does not allow tools of the category ${tool.category}`,
        grant: undefined,
      };
    return {
      grant: undefined,
      ...decideApproval({
        tool: subjectOf(tool),
        args: parseExactJson(call.argumentsJson) as Record<string, unknown>,
        tenant: session.tenant,
        principal: principalOf(session),
        session: session.conversation,
        policy,
        denied,
        grants: this.grants.of(session.tenant),
        canAsk,
        now: Date.now(),
      }),
    };
  }

  /** Carries decisions over into the pending calls; a denial or an expiry is the call's answer. */
  async settle(session: RunSession, tools: Tools, now = Date.now()): Promise<Settled> {
    const answers = (session.notes.answers ??= {});
    const waiting: PendingCall[] = [];
    const calls: PendingCall[] = [];
    let changed = false;
    for (const call of session.record.pending) {
      if (call.approval !== 'waiting') {
        calls.push(call);
        continue;
      }
      const decision = session.record.decisions[call.call];
      const made = decision !== undefined && decision.argsHash === call.argsHash ? decision : undefined;
      const expired = call.approvalExpiresMs !== undefined && call.approvalExpiresMs <= now;
      if (made === undefined && !expired) {
        waiting.push(call);
        calls.push(call);
        continue;
      }
      changed = true;
      calls.push(
        made === undefined
          ? await this.expired(call, answers, session)
          : made.decision === 'approve'
            ? await this.approved(call, made, answers, session, tools)
            : await this.denied(call, made, answers, session),
      );
    }
    return { calls, waiting, changed };
  }

  private async expired(call: PendingCall, answers: Answers, session: RunSession): Promise<PendingCall> {
    await this.note(session, call, 'timeout', 'expired', 'nobody decided in time');
    answers[call.call] = {
      output: 'Not approved: nobody decided in time. Nothing was run; do not try it again by yourself.',
      reason: 'approval_expired',
    };
    return { ...call, approval: 'denied', approvalReason: 'expired' };
  }

  private async denied(
    call: PendingCall,
    { by, reason }: Decision,
    answers: Answers,
    session: RunSession,
  ): Promise<PendingCall> {
    await this.note(session, call, by, 'denied', reason ?? '');
    answers[call.call] = {
      output: `A person denied this call${reason === undefined ? '' : `: ${reason}`}. Nothing was run.`,
      reason: 'denied',
    };
    return { ...call, approval: 'denied', ...(reason === undefined ? {} : { approvalReason: reason }) };
  }

  /** A yes is for the tool as it was shown, and holds only while nobody above has said no. */
  private async approved(
    call: PendingCall,
    decision: Decision,
    answers: Answers,
    session: RunSession,
    tools: Tools,
  ): Promise<PendingCall> {
    const tool = toolOf(call, tools);
    const now = this.decide(call, tool, session);
    const why =
      tool === undefined || tool.hash !== call.toolHash
        ? 'the definition of the tool has changed since it was approved'
        : now.level === 'deny'
          ? now.reason
          : undefined;
    if (why !== undefined || tool === undefined) {
      await this.note(session, call, decision.by, 'deny', why ?? '');
      answers[call.call] = { output: `Not approved: ${why}. Nothing was run.`, reason: 'refused' };
      return { ...call, approval: 'denied', ...(why === undefined ? {} : { approvalReason: why }) };
    }
    await this.note(session, call, decision.by, 'approved', decision.reason ?? '');
    if (decision.remember === 'session' || decision.remember === 'always')
      await this.remember(call, tool, decision, decision.remember, session);
    return { ...call, approval: 'approved' };
  }

  private async remember(
    call: PendingCall,
    tool: Tool,
    decision: Decision,
    how: 'session' | 'always',
    session: RunSession,
  ): Promise<void> {
    const grant: ApprovalGrant = await this.grants.give(
      {
        tenant: session.tenant,
        principal: principalOf(session),
        tool: tool.name,
        definitionHash: tool.hash,
        ...(how === 'session' ? { session: session.conversation } : {}),
        scope: scopeOf(call, tool, decision),
      },
      how,
    );
    await this.audit.write(session.tenant, `${session.run}:${call.call}:grant`, {
      action: 'grant.given',
      actor: decision.by,
      runId: session.run,
      callId: call.call,
      tool: tool.name,
      toolHash: tool.hash,
      dataJson: JSON.stringify({
        grant: grant.id,
        scope: grant.scope,
        session: grant.session,
        expires: grant.expiresAt,
      }),
    });
  }

  /** Sets the timer that wakes the run when the earliest approval expires, or the run's own time is up. */
  async parked(session: RunSession, waiting: readonly PendingCall[], deadlineMs: number): Promise<void> {
    const earliest = Math.min(deadlineMs, ...waiting.map((call) => call.approvalExpiresMs ?? Number.POSITIVE_INFINITY));
    if (Number.isFinite(earliest))
      await this.store.timers.add(
        approvalTimer(session.tenant, session.conversation, session.run),
        Math.max(0, earliest - Date.now()) + 50,
      );
  }

  private note(session: RunSession, call: PendingCall, actor: string, outcome: string, reason: string): Promise<void> {
    return this.audit.write(session.tenant, `${session.run}:${call.call}:${call.nonce}:${outcome}`, {
      action: 'tool.approval',
      actor,
      outcome,
      reason,
      runId: session.run,
      callId: call.call,
      tool: call.name,
      toolHash: call.toolHash ?? '',
      argsHash: call.argsHash,
    });
  }
}

/** Grants are given to the agent that acts: another agent of the tenant asks for itself. */
const principalOf = (session: RunSession) => `agent:${session.spec.agent ?? ''}`;

const toolOf = (call: PendingCall, tools: Tools) => [...tools.values()].find((tool) => tool.name === call.name);

/**
 * What a remembered yes covers: what the person wrote; else for tools whose calls differ in what they do, these
 * arguments or these hosts, and for others every call.
 */
function scopeOf(call: PendingCall, tool: Tool, { scope }: Decision): GrantScope {
  if (scope?.arguments !== undefined) return { kind: 'arguments', patterns: scope.arguments };
  if (scope?.hosts !== undefined) return { kind: 'hosts', hosts: scope.hosts };
  const args = parseExactJson(call.argumentsJson) as Record<string, unknown>;
  if (tool.category === 'network') {
    const hosts = hostsIn(args);
    if (hosts.length > 0) return { kind: 'hosts', hosts };
  }
  return tool.category === 'write' || tool.category === 'read'
    ? { kind: 'any' }
    : { kind: 'call', argumentsHash: argumentsHash(args) };
}
