import { availableParallelism } from 'node:os';
import { isAbsolute } from 'node:path';

export type ModeSetting = 'auto' | 'bwrap' | 'pod';

/** Everything the runner can be told; it is started with these variables and nothing else of the executor's environment. */
export interface RunnerConfig {
  socket: string;
  workspaces: string;
  stateDir: string;
  mode: ModeSetting;
  allowDowngrade: boolean;
  /** Extra read-only folders shown to commands at the same path. */
  readOnlyPaths: string[];
  bwrap: string;
  timeoutMs: { default: number; max: number };
  silenceMs: number;
  outputBytes: { default: number; max: number };
  /** A command that wrote more than this is ended. */
  outputTotalBytes: number;
  memoryMb: { default: number; max: number };
  pids: { default: number; max: number };
  diskMb: { default: number; max: number };
  tmpMb: number;
  openFiles: number;
  concurrency: number;
  tenantConcurrency: number;
  tenantWaiting: number;
  tenantCpuSeconds: number;
  tenantCpuWindowS: number;
  tenantDiskMb: number;
  jobs: { total: number; perTenant: number; leaseMs: number; maxMs: number; keepMs: number; logBytes: number };
  drainMs: number;
  install: {
    enabled: boolean;
    policyFile: string | null;
    proxySocket: string | null;
    timeoutMs: number;
    /** Run the command again after an install; its first run may have had effects, so this is off. */
    runAgain: boolean;
  };
  /** Ends the runner when its stdin closes: it must not outlive the executor that started it. */
  lifeline: boolean;
}

/** The variables that a runner reads; nothing else of an environment is handed to it. */
export const RUNNER_VARIABLES: readonly string[] = [
  ...'MODE ALLOW_DOWNGRADE READ_ONLY_PATHS BWRAP STATE_DIR SOCKET TIMEOUT_MS TIMEOUT_MAX_MS SILENCE_MS OUTPUT_BYTES OUTPUT_MAX_BYTES OUTPUT_TOTAL_BYTES MEMORY_MB MEMORY_MAX_MB PIDS PIDS_MAX DISK_MB DISK_MAX_MB TMP_MB OPEN_FILES CONCURRENCY TENANT_CONCURRENCY TENANT_WAITING TENANT_CPU_S TENANT_CPU_WINDOW_S TENANT_DISK_MB JOBS JOBS_PER_TENANT JOB_LEASE_MS JOB_MAX_MS JOB_KEEP_MS JOB_LOG_BYTES DRAIN_MS INSTALL INSTALL_POLICY_FILE INSTALL_PROXY_SOCKET INSTALL_TIMEOUT_MS INSTALL_RUN_AGAIN LIFELINE'
    .split(' ')
    .map((key) => `YM_EXECUTOR_SHELL_${key}`),
  'YM_WORKSPACES',
];

class ConfigError extends Error {}

/**
 * Reads `YM_EXECUTOR_SHELL_*` and `YM_WORKSPACES`.
 * @throws an Error whose message names the variable and its rule.
 */
export function readRunnerConfig(env: Readonly<Record<string, string | undefined>>): RunnerConfig {
  const name = (key: string): string => `YM_EXECUTOR_SHELL_${key}`;
  const text = (key: string, otherwise: string): string => env[name(key)] ?? otherwise;
  const number = (key: string, otherwise: number, min: number, max: number): number => {
    const raw = env[name(key)];
    if (raw === undefined || raw === '') return otherwise;
    const value = Number(raw);
    if (!Number.isFinite(value) || value < min || value > max)
      throw new ConfigError(`${name(key)} must be a number from ${min} to ${max}.`);
    return value;
  };
  const flag = (key: string, otherwise: boolean): boolean => {
    const raw = env[name(key)];
    if (raw === undefined || raw === '') return otherwise;
    if (raw !== 'true' && raw !== 'false') throw new ConfigError(`${name(key)} must be true or false.`);
    return raw === 'true';
  };
  const absolute = (variable: string, value: string | undefined): string => {
    if (value === undefined || !isAbsolute(value) || value.includes('\0'))
      throw new ConfigError(`${variable} must be an absolute path.`);
    return value;
  };
  const optionalPath = (key: string): string | null => {
    const raw = env[name(key)];
    return raw === undefined || raw === '' ? null : absolute(name(key), raw);
  };
  const limit = (
    key: string,
    unit: string,
    otherwise: number,
    most: number,
    ceiling: number,
  ): { default: number; max: number } => {
    const max = number(`${key}_MAX_${unit}`, most, 1, ceiling);
    return { default: Math.min(number(`${key}_${unit}`, otherwise, 1, ceiling), max), max };
  };
  const mode = text('MODE', 'auto');
  if (mode !== 'auto' && mode !== 'bwrap' && mode !== 'pod')
    throw new ConfigError(`${name('MODE')} must be auto, bwrap or pod.`);
  const socket = absolute(name('SOCKET'), env[name('SOCKET')]);
  const pids = number('PIDS_MAX', 1024, 8, 100_000);
  if (flag('INSTALL', false) && optionalPath('INSTALL_POLICY_FILE') === null)
    throw new ConfigError(`${name('INSTALL_POLICY_FILE')} is needed when ${name('INSTALL')} is true.`);
  return {
    socket,
    workspaces: absolute('YM_WORKSPACES', env['YM_WORKSPACES']),
    stateDir: absolute(name('STATE_DIR'), text('STATE_DIR', `${socket}.state`)),
    mode,
    allowDowngrade: flag('ALLOW_DOWNGRADE', false),
    readOnlyPaths: text('READ_ONLY_PATHS', '')
      .split(':')
      .filter(Boolean)
      .map((path) => absolute(name('READ_ONLY_PATHS'), path)),
    bwrap: text('BWRAP', 'bwrap'),
    timeoutMs: limit('TIMEOUT', 'MS', 120_000, 600_000, 86_400_000),
    silenceMs: number('SILENCE_MS', 0, 0, 86_400_000),
    outputBytes: limit('OUTPUT', 'BYTES', 64 * 1024, 1024 * 1024, 16 * 1024 * 1024),
    outputTotalBytes: number('OUTPUT_TOTAL_BYTES', 256 * 1024 * 1024, 1024, Number.MAX_SAFE_INTEGER),
    memoryMb: limit('MEMORY', 'MB', 1024, 4096, 1_048_576),
    pids: { default: Math.min(number('PIDS', 256, 8, 100_000), pids), max: pids },
    diskMb: limit('DISK', 'MB', 1024, 8192, 1_048_576),
    tmpMb: number('TMP_MB', 64, 1, 65_536),
    openFiles: number('OPEN_FILES', 1024, 32, 1_048_576),
    concurrency: number('CONCURRENCY', Math.max(4, availableParallelism() * 4), 1, 1024),
    tenantConcurrency: number('TENANT_CONCURRENCY', 8, 1, 1024),
    tenantWaiting: number('TENANT_WAITING', 32, 0, 100_000),
    tenantCpuSeconds: number('TENANT_CPU_S', 1200, 0, 1e9),
    tenantCpuWindowS: number('TENANT_CPU_WINDOW_S', 600, 1, 86_400),
    tenantDiskMb: number('TENANT_DISK_MB', 16_384, 1, 1e9),
    jobs: {
      total: number('JOBS', 64, 0, 100_000),
      perTenant: number('JOBS_PER_TENANT', 8, 0, 1024),
      leaseMs: number('JOB_LEASE_MS', 900_000, 1000, 86_400_000),
      maxMs: number('JOB_MAX_MS', 3_600_000, 1000, 604_800_000),
      keepMs: number('JOB_KEEP_MS', 3_600_000, 1000, 604_800_000),
      logBytes: number('JOB_LOG_BYTES', 1024 * 1024, 1024, 64 * 1024 * 1024),
    },
    drainMs: number('DRAIN_MS', 10_000, 0, 600_000),
    install: {
      enabled: flag('INSTALL', false),
      policyFile: optionalPath('INSTALL_POLICY_FILE'),
      proxySocket: optionalPath('INSTALL_PROXY_SOCKET'),
      timeoutMs: number('INSTALL_TIMEOUT_MS', 120_000, 1000, 3_600_000),
      runAgain: flag('INSTALL_RUN_AGAIN', false),
    },
    lifeline: flag('LIFELINE', false),
  };
}
