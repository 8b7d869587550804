// What the executor and its runner say to each other over the unix socket: one JSON object a line.
// One connection carries one request; a caller that goes away takes its foreground command with it.

/** Limits of one command; what is missing is filled from the runner's configuration, what is too large is clamped. */
export interface Limits {
  timeout_ms?: number;
  /** Ends a command that writes nothing for so long; 0 = never. */
  silence_ms?: number;
  /** stdout and stderr together, as UTF-8 bytes of the result. */
  output_bytes?: number;
  memory_mb?: number;
  pids?: number;
  disk_mb?: number;
}

/** A command of one tenant in one of its workspaces. */
export interface CommandRequest {
  tenant: string;
  workspace: string;
  command: string;
  /** Relative to the workspace, or absolute beneath `/workspace`. */
  cwd?: string;
  /** Extra environment; names outside the allow-list are dropped and reported. */
  env?: Record<string, string>;
  limits?: Limits;
  /** Identifies the command in the audit log and as the id of a background job; made by the runner when missing. */
  id?: string;
}

export type JobAction = 'status' | 'output' | 'stop';

export type RunnerRequest =
  | ({ op: 'run' } & CommandRequest)
  | ({ op: 'start' } & CommandRequest)
  | { op: 'job'; tenant: string; job: string; action: JobAction; after?: number }
  | { op: 'cancel' }
  | { op: 'drain'; grace_ms?: number }
  | { op: 'status' };

/** Where in the pipeline a command ended. */
export type Stage = 'validate' | 'intercept' | 'execute' | 'collect' | 'install' | 'track';
/**
 * ok = ended by itself, whatever its exit code; timeout; killed = ended by a resource limit; cancelled = stopped by
 * the caller; blocked = refused before anything ran; error = could not be run; running = a background job at work.
 */
export type Status = 'ok' | 'timeout' | 'killed' | 'cancelled' | 'blocked' | 'error' | 'running';

/** What became of a missing dependency (stage 5). */
export interface InstallReport {
  manager: 'pip' | 'npm' | 'apt';
  package: string;
  /** reported = only said; installed = and the command was run again; failed = the installer failed. */
  outcome: 'reported' | 'installed' | 'failed';
  detail?: string;
}

/** The account of one command: the same object in the result, the event and the audit log. */
export interface Verdict {
  stage: Stage;
  status: Status;
  exit_code: number | null;
  signal: string | null;
  /** timeout, silence, memory, pids, disk, cpu, output, cancelled, shutdown, lease … */
  killed_reason: string | null;
  truncated: boolean;
  /** Bytes that the command wrote, before any cut. */
  bytes: { stdout: number; stderr: number };
  /** Highest resident memory seen, in bytes; null when the command was too short to be looked at. */
  peak_rss: number | null;
  cpu_ms: number | null;
  duration_ms: number;
  /** Names from the request's environment that were not passed on. */
  dropped_env: string[];
  /** The rule that refused the command. */
  rule: string | null;
  /** Why it was refused or could not run, and what to do instead. */
  reason: string | null;
  profile_hash: string;
  mode: 'bwrap' | 'pod';
  install?: InstallReport;
}

export interface CommandResult {
  id: string;
  stdout: string;
  stderr: string;
  verdict: Verdict;
}

/** A background job as `shell_job` sees it. */
export interface JobView {
  job: string;
  state: 'running' | 'ended' | 'lost';
  started_at: string;
  /** The job is ended at this time unless somebody asks about it before. */
  lease_expires_at: string | null;
  /** stdout and stderr in the order of their arrival, from `after` on. */
  output: string;
  /** Bytes between `after` and the first byte of `output` that are no longer kept. */
  skipped: number;
  /** Pass it as `after` to read on. */
  next: number;
  verdict: Verdict;
}

/** One guarantee that the runner proved, or could not prove, when it started. */
export interface Probe {
  name: string;
  ok: boolean;
  /** What was seen, with the errno, and which setting to change. */
  detail: string;
}

export interface RunnerStatus {
  ready: boolean;
  mode: 'bwrap' | 'pod' | null;
  profile_hash: string;
  probes: Probe[];
  running: number;
  waiting: number;
  draining: boolean;
}

export type RunnerFrame =
  | { t: 'started'; id: string }
  | { t: 'output'; stream: 'stdout' | 'stderr'; text: string }
  | { t: 'result'; result: CommandResult }
  | { t: 'job'; job: JobView }
  | { t: 'status'; status: RunnerStatus }
  | { t: 'drained' }
  | {
      t: 'error';
      class: 'INVALID' | 'NOT_FOUND' | 'EXHAUSTED' | 'UNAVAILABLE' | 'INTERNAL';
      code: string;
      message: string;
      retry_after_ms?: number;
    };

/** Longest line that either side accepts. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;
