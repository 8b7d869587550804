import { randomBytes } from 'node:crypto';
import { constants } from 'node:os';
import { join } from 'node:path';
import { intercept } from '../intercept/intercept.js';
import {
  type CommandRequest,
  type CommandResult,
  type InstallReport,
  type Status,
  type Verdict,
} from '../runner-protocol.js';
import { fitStreams } from './collect/stream-collector.js';
import { type FifoPool } from './collect/fifo-pool.js';
import { type RunnerConfig } from './config.js';
import { FairQueue, QueueFull } from './fair-queue.js';
import { HOME, WORKSPACE } from './sandbox/bwrap-arguments.js';
import { type Cgroups } from './sandbox/cgroups.js';
import { type AtFaultPoint } from './fault-points.js';
import { type Bind, type Launcher } from './sandbox/launcher.js';
import { type Outcome, type RunHandle, runSandboxed } from './sandbox/run-sandboxed.js';
import { CpuBudget } from './track/cpu-budget.js';
import { DiskGuard } from './track/disk-guard.js';
import { Refusal, type Validated, validateRequest } from './validate.js';

export type OutputListener = (stream: 'stdout' | 'stderr', text: string) => void;

/** Starts a command of stage 5 like any other: counted, watched, ended with the rest; `extraBinds` are its way out. */
export type StartInstall = (validated: Validated, extraBinds: readonly Bind[]) => Promise<Outcome>;

/** Stage 5 as the pipeline sees it: null = nothing to do. */
export type Installer = (
  validated: Validated,
  outcome: Outcome,
  start: StartInstall,
) => Promise<{ report: InstallReport; runAgain: boolean } | null>;

export interface PipelineParts {
  config: RunnerConfig;
  launcher: Launcher;
  fifos: FifoPool;
  cgroups: Cgroups | null;
  install?: Installer | undefined;
  /** One line for every command; never its text. */
  audit: (entry: Record<string, unknown>) => void;
  /** For tests alone. */
  at?: AtFaultPoint | undefined;
}

interface Running {
  tenant: string;
  background: boolean;
  /** Null until it has been started. */
  handle: RunHandle | null;
}

const CPU_CHECK_MS = 500;
/** Bytes in twice a megabyte. */
const OVER_MB = 2 * 1024 * 1024;

/** The six stages, one command at a time through all of them. */
export class Pipeline {
  readonly #parts: PipelineParts;
  readonly queue: FairQueue;
  readonly #disk: DiskGuard;
  readonly #cpu: CpuBudget;
  /** Stage 6: everything that was started and has not ended. */
  readonly #running = new Map<string, Running>();
  readonly #cpuTimer: NodeJS.Timeout;
  /** Foreground commands that hold a slot, between their processes too. */
  #foreground = 0;
  /** Why everything ends, once it does. */
  #ending: string | null = null;

  constructor(parts: PipelineParts) {
    this.#parts = parts;
    const { config } = parts;
    this.queue = new FairQueue(config.concurrency, config.tenantConcurrency, config.tenantWaiting);
    this.#disk = new DiskGuard(config.workspaces);
    this.#cpu = new CpuBudget(config.tenantCpuSeconds, config.tenantCpuWindowS);
    this.#cpuTimer = setInterval(() => this.#checkCpu(), CPU_CHECK_MS).unref();
  }

  get running(): number {
    return this.#foreground + [...this.#running.values()].filter(({ background }) => background).length;
  }

  /** Runs a foreground command through all stages; rejects only when the runner takes no command now. @throws QueueFull */
  async run(
    request: CommandRequest,
    options: { signal?: AbortSignal; onStarted?: (id: string) => void; onOutput?: OutputListener } = {},
  ): Promise<CommandResult> {
    const id = request.id ?? newId('cmd');
    const startedAt = performance.now();
    const at: AtFaultPoint | undefined = this.#parts.at;
    const refused = await this.admit(request, id, startedAt);
    if ('verdict' in refused) return this.#account(request, refused);
    const validated = refused;
    let stage: Verdict['stage'] = 'execute';
    let release: (() => void) | undefined;
    try {
      release = await this.queue.take(validated.tenant, options.signal);
      this.#foreground++;
      at?.('admitted', id);
      options.onStarted?.(id);
      let outcome = await (await this.start(id, validated, options)).done;
      stage = 'collect';
      at?.('collected', id);
      let report: InstallReport | undefined;
      if (
        this.#parts.install !== undefined &&
        outcome.failure === null &&
        outcome.killedReason === null &&
        options.signal?.aborted !== true
      ) {
        stage = 'install';
        at?.('installing', id);
        // Once for a command, never again for its repetition.
        const step = await this.#parts.install(validated, outcome, async (inner, extraBinds) => {
          const started = await this.start(`${id}-install`, inner, { signal: options.signal, extraBinds });
          return started.done;
        });
        report = step?.report;
        at?.('installed', id);
        if (step?.runAgain === true) {
          stage = 'execute';
          outcome = await (await this.start(id, validated, options)).done;
        }
      }
      stage = 'collect';
      const result = this.result(id, validated, outcome, report);
      stage = 'track';
      at?.('answering', id);
      return this.#account(request, result);
    } catch (error) {
      if (error instanceof QueueFull) throw error;
      const unrun = (status: Status, reason: string, killedReason: string | null): CommandResult =>
        this.#account(request, this.#unrun(id, status, stage, null, reason, startedAt, validated, killedReason));
      if (options.signal?.aborted === true)
        return unrun('cancelled', 'Cancelled while it waited for its turn.', 'cancelled');
      if (this.#ending !== null) return unrun('cancelled', 'The runner is shutting down.', this.#ending);
      const told = (error as Error).message;
      return unrun(
        'error',
        stage === 'execute'
          ? `The command could not be run to its end: ${told}`
          : `The command ended, but its result was lost (stage ${stage}): ${told}`,
        null,
      );
    } finally {
      if (release !== undefined) this.#foreground--;
      release?.();
    }
  }

  /** Stages 1 and 2: what to run, or the verdict that refuses it. */
  async admit(request: CommandRequest, id: string, startedAt = performance.now()): Promise<Validated | CommandResult> {
    let validated: Validated | null = null;
    let stage: Verdict['stage'] = 'validate';
    try {
      validated = await validateRequest(request, this.#parts.config);
      this.#parts.at?.('validated', id);
      stage = 'intercept';
      const refused = this.#judge(validated, id, startedAt) ?? (await this.#overQuota(validated, id, startedAt));
      if (refused !== null) return refused;
      this.#parts.at?.('intercepted', id);
      return validated;
    } catch (error) {
      if (error instanceof Refusal)
        return this.#unrun(id, 'blocked', 'validate', error.rule, error.message, startedAt, null);
      return this.#unrun(
        id,
        'error',
        stage,
        null,
        `The command could not be checked, and was not started: ${(error as Error).message}`,
        startedAt,
        validated,
      );
    }
  }

  /** Stage 2, and whether the tenant has CPU time left. */
  #judge(validated: Validated, id: string, startedAt: number): CommandResult | null {
    const found = intercept(validated.command, {
      workspace: WORKSPACE,
      hostWorkspace: validated.hostPath,
      cwd: validated.cwd,
      home: HOME,
    });
    if (found !== null) return this.#unrun(id, 'blocked', 'intercept', found.rule, found.reason, startedAt, validated);
    if (this.#cpu.left(validated.tenant) <= 0) {
      const seconds = Math.ceil(this.#cpu.retryAfterMs(validated.tenant) / 1000);
      return this.#unrun(
        id,
        'blocked',
        'validate',
        'cpu-quota',
        `The CPU time of this tenant is used up: try again in ${seconds} s.`,
        startedAt,
        validated,
      );
    }
    return null;
  }

  async #overQuota(validated: Validated, id: string, startedAt: number): Promise<CommandResult | null> {
    // Twice the limit is reached only by starting again and again while over it.
    for (const [path, limitMb] of [
      [validated.hostPath, validated.limits.diskMb],
      [join(validated.hostPath, '..'), this.#parts.config.tenantDiskMb],
    ] as const) {
      if (this.#disk.known(path) > limitMb * OVER_MB && (await this.#disk.usage(path, limitMb)) > limitMb * OVER_MB)
        return this.#unrun(
          id,
          'blocked',
          'validate',
          'disk-quota',
          `The workspace or the tenant holds more than twice its ${limitMb} MB of disk: delete files with the file tools first.`,
          startedAt,
          validated,
        );
    }
    return null;
  }

  /** Stage 3: registered before anything is spawned; when `done` settles no process, mount or cgroup is left. */
  async start(
    id: string,
    validated: Validated,
    options: {
      signal?: AbortSignal | undefined;
      onOutput?: OutputListener | undefined;
      /** A job: nobody waits for it, and all of its output is handed on. */
      background?: boolean;
      extraBinds?: readonly Bind[];
    },
  ): Promise<{ handle: RunHandle; done: Promise<Outcome> }> {
    const { config, launcher, fifos, cgroups, at } = this.#parts;
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.#ending !== null) throw new Error('The runner is shutting down.');
    const key = `${id}-${randomBytes(3).toString('hex')}`;
    const entry: Running = { tenant: validated.tenant, background: options.background ?? false, handle: null };
    this.#running.set(key, entry);
    // Newest first; every one runs, whatever the others come to.
    const undo: (() => unknown)[] = [() => this.#running.delete(key)];
    const cleanUp = async (): Promise<void> => {
      let failure: unknown;
      for (const step of undo.splice(0)) {
        try {
          await step();
        } catch (error) {
          failure ??= error;
        }
      }
      if (failure !== undefined) this.note({ event: 'clean-up-failed', id, error: (failure as Error).message });
    };
    try {
      const cgroup = cgroups?.create(key, { memoryMb: validated.limits.memoryMb, pids: validated.limits.pids }) ?? null;
      if (cgroup !== null) undo.unshift(() => cgroup.remove());
      const launched = await launcher.prepare(key, validated, options.extraBinds);
      undo.unshift(launched.cleanUp);
      at?.('prepared', id);
      const handle = await runSandboxed({
        launch: launched.launch,
        script: validated.command,
        limits: validated.limits,
        fifos,
        cgroup,
        onOutput: options.onOutput,
        streamAll: options.background ?? false,
        sweep: launched.sweep,
        at: at === undefined ? undefined : (point, pid) => at(point, id, pid),
      });
      entry.handle = handle;
      // It may have been told to end while it was being started.
      if (this.#ending !== null) handle.kill(this.#ending);
      const onAbort = (): void => handle.kill('cancelled');
      signal?.addEventListener('abort', onAbort);
      undo.unshift(() => signal?.removeEventListener('abort', onAbort));
      if (signal?.aborted === true) onAbort();
      for (const [path, limitMb] of [
        [validated.hostPath, validated.limits.diskMb],
        [join(validated.hostPath, '..'), config.tenantDiskMb],
      ] as const)
        undo.unshift(this.#disk.watch(path, limitMb, () => handle.kill('disk')));
      const done = handle.done.finally(cleanUp);
      void done.then(
        (outcome) => this.#cpu.add(validated.tenant, outcome.cpuMs ?? 0),
        () => undefined,
      );
      return { handle, done };
    } catch (error) {
      entry.handle?.kill('fault');
      await entry.handle?.done.catch(() => undefined);
      await cleanUp();
      throw error;
    }
  }

  /** Stage 4's last step: an outcome as the caller sees it. */
  result(id: string, validated: Validated, outcome: Outcome, install?: InstallReport): CommandResult {
    const text = fitStreams(outcome.stdout, outcome.stderr, validated.limits.outputBytes);
    const exit = outcome.exitCode;
    const status = statusOf(outcome);
    return {
      id,
      stdout: text.stdout,
      stderr: text.stderr,
      verdict: {
        ...this.#blank(),
        stage: outcome.failure !== null ? 'execute' : install === undefined ? 'collect' : 'install',
        status,
        exit_code: exit,
        signal: outcome.signal ?? (exit !== null && exit > 128 ? signalName(exit - 128) : null),
        killed_reason: outcome.killedReason,
        truncated: text.truncated,
        bytes: outcome.bytes,
        peak_rss: outcome.peakRss,
        cpu_ms: outcome.cpuMs === null ? null : Math.round(outcome.cpuMs),
        duration_ms: Math.round(outcome.durationMs),
        dropped_env: validated.droppedEnv,
        reason: outcome.failure ?? explain(outcome.killedReason, validated),
        ...(install === undefined ? {} : { install }),
      },
    };
  }

  /** The verdict of a job that still runs. */
  runningVerdict(validated: Validated, bytes: { stdout: number; stderr: number }, durationMs: number): Verdict {
    return {
      ...this.#blank(),
      stage: 'track',
      status: 'running',
      bytes,
      duration_ms: Math.round(durationMs),
      dropped_env: validated.droppedEnv,
    };
  }

  /** The verdict of a job whose runner ended while it ran. */
  lostVerdict(): Verdict {
    return {
      ...this.#blank(),
      stage: 'track',
      status: 'cancelled',
      killed_reason: 'runner-ended',
      reason: 'The runner ended while the job ran, and the job with it. Start it again.',
    };
  }

  /** Ends everything that runs, for a shutdown. */
  killAll(reason: string): void {
    this.#ending ??= reason;
    for (const { handle } of this.#running.values()) handle?.kill(reason);
  }

  close(): void {
    clearInterval(this.#cpuTimer);
    this.queue.close();
  }

  audit(request: CommandRequest, result: CommandResult): void {
    this.#account(request, result);
  }

  /** A line beside the audit lines, for the operator. */
  note(entry: Record<string, unknown>): void {
    this.#parts.audit(entry);
  }

  #account(request: CommandRequest, result: CommandResult): CommandResult {
    this.#parts.audit({
      event: 'command',
      id: result.id,
      tenant: request.tenant,
      workspace: request.workspace,
      ...result.verdict,
    });
    return result;
  }

  #blank(): Verdict {
    return {
      stage: 'validate',
      status: 'error',
      exit_code: null,
      signal: null,
      killed_reason: null,
      truncated: false,
      bytes: { stdout: 0, stderr: 0 },
      peak_rss: null,
      cpu_ms: null,
      duration_ms: 0,
      dropped_env: [],
      rule: null,
      reason: null,
      profile_hash: this.#parts.launcher.profileHash,
      mode: this.#parts.launcher.mode,
    };
  }

  #unrun(
    id: string,
    status: Status,
    stage: Verdict['stage'],
    rule: string | null,
    reason: string,
    startedAt: number,
    validated: Validated | null,
    killedReason: string | null = null,
  ): CommandResult {
    const verdict: Verdict = {
      ...this.#blank(),
      stage,
      status,
      rule,
      reason,
      killed_reason: killedReason,
      duration_ms: Math.round(performance.now() - startedAt),
      dropped_env: validated?.droppedEnv ?? [],
    };
    return { id, stdout: '', stderr: '', verdict };
  }

  #checkCpu(): void {
    const byTenant = new Map<string, { ms: number; handles: RunHandle[] }>();
    for (const { tenant, handle } of this.#running.values()) {
      if (handle === null) continue;
      const entry = byTenant.get(tenant) ?? { ms: 0, handles: [] };
      entry.ms += handle.cpuMs();
      entry.handles.push(handle);
      byTenant.set(tenant, entry);
    }
    for (const [tenant, { ms, handles }] of byTenant)
      if (this.#cpu.left(tenant, ms) < 0) for (const handle of handles) handle.kill('cpu');
  }
}

export function newId(kind: string): string {
  return `${kind}_${randomBytes(9).toString('hex')}`;
}

function statusOf(outcome: Outcome): Status {
  if (outcome.failure !== null) return 'error';
  switch (outcome.killedReason) {
    case null:
      return 'ok';
    case 'timeout':
    case 'silence':
      return 'timeout';
    case 'memory':
    case 'disk':
    case 'pids':
    case 'cpu':
    case 'output':
      return 'killed';
    default:
      return 'cancelled';
  }
}

function explain(reason: string | null, { limits }: Validated): string | null {
  switch (reason) {
    case 'timeout':
      return `It was ended after ${limits.timeoutMs} ms. Ask for more time, or run it in the background.`;
    case 'silence':
      return `It was ended because it wrote nothing for ${limits.silenceMs} ms.`;
    case 'memory':
      return `It was ended because it used more than ${limits.memoryMb} MB of memory.`;
    case 'disk':
      return 'It was ended because the workspace or the tenant used up its disk space. Remove files first.';
    case 'pids':
      return `It was ended because it had more than ${limits.pids} processes.`;
    case 'cpu':
      return 'It was ended because the CPU time of the tenant is used up.';
    case 'output':
      return `It was ended because it wrote more than ${limits.outputTotalBytes} bytes. Write to a file instead.`;
    case 'shutdown':
      return 'The shell executor ended, and the command with it. Start it again when it is still needed.';
    default:
      return null;
  }
}

function signalName(number: number): string | null {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? null;
}
