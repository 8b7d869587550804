import {
  dataLimitKb,
  isolationArguments,
  limitVariables,
  privateArguments,
  SANDBOX_ENVIRONMENT,
  SANDBOX_HOME,
  sealArguments,
  systemArguments,
} from '@yardmaster/guard';
import { type RunLimits } from './run-sandboxed.js';

/** Where the workspace is inside every sandbox. */
export const WORKSPACE = '/workspace';
/** Private to one command; a memory file system that ends with it. */
export const HOME = SANDBOX_HOME;
/** The environment that every command starts with; nothing of the runner's own is inherited. */
export const BASE_ENVIRONMENT = SANDBOX_ENVIRONMENT;
export { dataLimitKb };

export interface SandboxSpec {
  workspaceHostPath: string;
  /** Path inside the sandbox. */
  cwd: string;
  env: Readonly<Record<string, string>>;
  limits: Pick<RunLimits, 'pids' | 'openFiles' | 'diskMb' | 'memoryMb'>;
  tmpMb: number;
  readOnlyPaths: readonly string[];
  /** What it sees as /etc. */
  etc: string;
  /** File descriptors in the child: the script, the seccomp filter, the status stream. */
  fds: { script: number; seccomp: number; status: number };
  /** Read-only extras, used by the install stage for its way out. */
  extraBinds?: readonly { from: string; to: string }[];
}

/** The arguments of bubblewrap and of what runs inside it, for one command. */
export function bwrapArguments(spec: SandboxSpec): string[] {
  const args = [...isolationArguments(), '--clearenv'];
  const environment = { ...BASE_ENVIRONMENT, ...spec.env, ...limitVariables(spec.limits) };
  for (const [name, value] of Object.entries(environment)) args.push('--setenv', name, value);
  args.push(...systemArguments(spec.readOnlyPaths, spec.etc), ...privateArguments(spec.tmpMb));
  args.push('--bind', spec.workspaceHostPath, WORKSPACE);
  for (const { from, to } of spec.extraBinds ?? []) args.push('--ro-bind', from, to);
  args.push('--perms', '0444', '--ro-bind-data', String(spec.fds.script), '/run/command', ...sealArguments(spec.cwd));
  args.push('--seccomp', String(spec.fds.seccomp), '--json-status-fd', String(spec.fds.status), '--');
  args.push('/bin/bash', '--noprofile', '--norc', '/run/command');
  return args;
}
