import {
  type CommandRequest,
  type CommandResult,
  type JobAction,
  type JobView,
  type Verdict,
} from './runner-protocol.js';
import { type RunnerClient } from './runner-client/runner-client.js';

/** What the model reads and what the platform records of one call. */
export interface ShellOutcome {
  ok: boolean;
  output: string;
  /** Set when not ok: refused, timeout, killed, cancelled, failed. */
  reason?: string;
  verdict: Record<string, unknown>;
  outputCutChars?: number;
}

/** Where and for whom a call runs. */
export interface ShellCall {
  tenant: string;
  workspace: string;
  /** Identifies the command in the audit log. */
  id?: string;
  /** Time that the call has, in milliseconds; a command never gets more. */
  timeoutMs?: number;
  signal?: AbortSignal;
  onOutput?: (stream: 'stdout' | 'stderr', text: string) => void;
}

export interface ShellRunArguments {
  command: string;
  cwd?: string;
  timeout_s?: number;
  background?: boolean;
}

export interface ShellJobArguments {
  job: string;
  action: JobAction;
  /** Read on from here. */
  after?: number;
}

/** A deadline of the call ends the command a little earlier, so that its partial output still gets back in time. */
const RESULT_MARGIN_MS = 750;

/** Runs `shell_run`. @throws YardError when the runner takes no command now. */
export async function runShell(client: RunnerClient, args: ShellRunArguments, call: ShellCall): Promise<ShellOutcome> {
  const asked = typeof args.timeout_s === 'number' && args.timeout_s > 0 ? args.timeout_s * 1000 : undefined;
  const most = call.timeoutMs === undefined ? undefined : Math.max(100, call.timeoutMs - RESULT_MARGIN_MS);
  const timeoutMs = asked !== undefined && most !== undefined ? Math.min(asked, most) : (asked ?? most);
  const request: CommandRequest = {
    tenant: call.tenant,
    workspace: call.workspace,
    command: args.command,
    ...(args.cwd === undefined ? {} : { cwd: args.cwd }),
    ...(call.id === undefined ? {} : { id: call.id }),
    ...(timeoutMs === undefined ? {} : { limits: { timeout_ms: timeoutMs } }),
  };
  if (args.background === true) return jobOutcome(await client.start(request));
  const result = await client.run(request, {
    ...(call.signal === undefined ? {} : { signal: call.signal }),
    ...(call.onOutput === undefined ? {} : { onOutput: call.onOutput }),
  });
  return commandOutcome(result);
}

/** Runs `shell_job`. @throws YardError NOT_FOUND for a job that the tenant does not have. */
export async function shellJob(
  client: RunnerClient,
  args: ShellJobArguments,
  call: Pick<ShellCall, 'tenant'>,
): Promise<ShellOutcome> {
  return jobOutcome(await client.job(call.tenant, args.job, args.action, args.after));
}

/** A finished command as a tool result; it is ok when the command ended by itself with exit code 0. */
export function commandOutcome({ stdout, stderr, verdict }: CommandResult): ShellOutcome {
  const parts: string[] = [];
  if (stdout !== '') parts.push(stdout.replace(/\n$/, ''));
  if (stderr !== '') parts.push(`[stderr]\n${stderr.replace(/\n$/, '')}`);
  const note = verdictNote(verdict);
  if (note !== '') parts.push(note);
  const ok = verdict.status === 'ok' && verdict.exit_code === 0;
  return {
    ok,
    output: parts.length === 0 ? '(no output)' : parts.join('\n'),
    ...(ok ? {} : { reason: failureReason(verdict) }),
    verdict: { ...verdict },
    ...(verdict.truncated
      ? {
          outputCutChars: Math.max(
            0,
            verdict.bytes.stdout + verdict.bytes.stderr - Buffer.byteLength(stdout) - Buffer.byteLength(stderr),
          ),
        }
      : {}),
  };
}

function jobOutcome(view: JobView): ShellOutcome {
  const { job, state, output, skipped, next, verdict } = view;
  const lines = [`job ${job}: ${state}`];
  if (state === 'running')
    lines.push(
      `Read its output with shell_job {"job": "${job}", "action": "output", "after": ${next}}. It is stopped at ${view.lease_expires_at} unless it is asked about before.`,
    );
  else lines.push(verdictNote(verdict) || `[exit code ${verdict.exit_code}]`);
  if (skipped > 0) lines.push(`[${skipped} earlier bytes are no longer kept]`);
  if (output !== '') lines.push(output.replace(/\n$/, ''));
  const ok = state === 'running' || verdict.status === 'ok' || verdict.killed_reason === 'stopped';
  return {
    ok,
    output: lines.join('\n'),
    ...(ok ? {} : { reason: failureReason(verdict) }),
    verdict: { ...verdict, job, state, next },
  };
}

/** One line that says how a command ended, where that is not plain success. */
function verdictNote(verdict: Verdict): string {
  const { status, exit_code: exit, signal, reason, dropped_env: dropped, install } = verdict;
  const notes: string[] = [];
  if (status === 'blocked') notes.push(`Refused (${verdict.rule}): ${reason}`);
  else if (status === 'ok') {
    if (exit !== 0) notes.push(signal === null ? `[exit code ${exit}]` : `[exit code ${exit}, ${signal}]`);
  } else
    notes.push(
      `[${status}${verdict.killed_reason === null || verdict.killed_reason === status ? '' : `: ${verdict.killed_reason}`}] ${reason ?? ''}`.trim(),
    );
  if (dropped.length > 0) notes.push(`[environment not passed on: ${dropped.join(', ')}]`);
  if (install !== undefined) {
    const said = {
      reported: 'is missing and cannot be installed by a command',
      installed: 'was missing and has been installed; the command was run again',
      failed: 'is missing and could not be installed',
    };
    notes.push(
      `[${install.manager} package ${install.package} ${said[install.outcome]}${install.detail === undefined ? '' : `: ${install.detail}`}]`,
    );
  }
  return notes.join('\n');
}

function failureReason({ status, exit_code: exit }: Verdict): string {
  switch (status) {
    case 'blocked':
      return 'refused';
    case 'timeout':
    case 'killed':
    case 'cancelled':
      return status;
    case 'ok':
      return `exit ${exit}`;
    default:
      return 'failed';
  }
}
