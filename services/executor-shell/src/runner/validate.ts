import { lstat, mkdir, readlink, realpath } from 'node:fs/promises';
import { isAbsolute, join, relative, sep } from 'node:path';
import { type CommandRequest, type Limits } from '../runner-protocol.js';
import { type RunnerConfig } from './config.js';
import { WORKSPACE } from './sandbox/bwrap-arguments.js';
import { type RunLimits } from './sandbox/run-sandboxed.js';

/** A request that may not run: `rule` is stable, `message` says what to do instead. */
export class Refusal extends Error {
  readonly rule: string;
  constructor(rule: string, message: string) {
    super(message);
    this.rule = rule;
  }
}

/** What stage 1 makes of a request. */
export interface Validated {
  tenant: string;
  workspace: string;
  command: string;
  /** The workspace on the machine, without links. */
  hostPath: string;
  /** The working directory inside the sandbox. */
  cwd: string;
  env: Record<string, string>;
  droppedEnv: string[];
  limits: RunLimits;
}

const TENANT = /^[a-z0-9][a-z0-9-]{0,39}$/;
const WORKSPACE_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const ENV_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
/** Names that change how the shell, the loader or a tool starts; a caller has no business with them. */
const FORBIDDEN_ENV =
  /^(LD_.*|DYLD_.*|GLIBC_.*|MALLOC_.*|BASH_.*|BASHOPTS|SHELLOPTS|ENV|PS[0-4]|PROMPT_COMMAND|IFS|PATH|CDPATH|GLOBIGNORE|HOME|SHELL|USER|LOGNAME|TMPDIR|GIT_.*|SSH_.*|NODE_OPTIONS|NODE_PATH|NODE_REPL.*|PYTHON(STARTUP|PATH|HOME|INSPECT|BREAKPOINT|WARNINGS|EXECUTABLE|USERBASE)|PERL5?(OPT|LIB|DB)|PERL.*|RUBY(OPT|LIB)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|LUA_.*|AWK(PATH|LIBPATH)|EDITOR|VISUAL|PAGER|LESS(OPEN|CLOSE)|MANPAGER|BROWSER|npm_config_.*|NPM_CONFIG_.*|PIP_.*|UV_.*|CARGO_.*|RUSTC_WRAPPER|GOFLAGS|GCONV_PATH|LOCPATH|NLSPATH|HOSTALIASES|RESOLV_HOST_CONF|RES_OPTIONS|.*_PROXY|.*_proxy|YM_.*|KUBERNETES_.*|(AWS|AZURE|GOOGLE|GCP)_.*)$/;
const LONGEST_ENV_VALUE = 32_768;
const MOST_ENV = 64;

/** Stage 1: which workspace, which folder, which environment, which limits. @throws Refusal */
export async function validateRequest(request: CommandRequest, config: RunnerConfig): Promise<Validated> {
  if (typeof request.tenant !== 'string' || !TENANT.test(request.tenant))
    throw new Refusal('tenant', 'The tenant id is not valid.');
  if (typeof request.workspace !== 'string' || !WORKSPACE_ID.test(request.workspace))
    throw new Refusal(
      'workspace',
      'The workspace id is not valid: letters, digits, dot, underscore and hyphen, 64 at most.',
    );
  if (typeof request.command !== 'string') throw new Refusal('command', 'A command is needed.');
  const hostPath = await workspaceFolder(config.workspaces, request.tenant, request.workspace);
  const { env, dropped } = allowedEnvironment(request.env ?? {});
  return {
    tenant: request.tenant,
    workspace: request.workspace,
    command: request.command,
    hostPath,
    cwd: await resolveCwd(hostPath, request.cwd),
    env,
    droppedEnv: dropped,
    limits: clampLimits(request.limits ?? {}, config),
  };
}

/** `<root>/<tenant>/<workspace>`, made when missing; a link in its place is refused, wherever it points. */
async function workspaceFolder(root: string, tenant: string, workspace: string): Promise<string> {
  let path = await realpath(root).catch(() => {
    throw new Refusal('workspace', 'The folder of all workspaces does not exist: check YM_WORKSPACES.');
  });
  for (const part of [tenant, workspace]) {
    path = join(path, part);
    // Nearly always it is there: asking first costs one call less than making it first.
    let entry = await lstat(path).catch(() => null);
    if (entry === null) {
      await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw new Refusal('workspace', `The workspace could not be made (${error.code}).`);
      });
      entry = await lstat(path);
    }
    if (!entry.isDirectory()) throw new Refusal('workspace', 'The workspace is not a folder.');
  }
  return path;
}

/** Most links that a path may go through, as in the kernel. */
const MOST_LINKS = 40;

/**
 * The folder inside the sandbox for a requested one. Every component is looked at without following it; links are
 * followed as the sandbox would see them, so a link to anything outside the workspace is refused. bwrap enters the
 * folder from inside, so a swap after this check still leads nowhere else.
 */
export async function resolveCwd(hostPath: string, requested: string | undefined): Promise<string> {
  if (requested === undefined || requested === '' || requested === '.') return WORKSPACE;
  const outside = (): Refusal =>
    new Refusal(
      'cwd',
      `The working directory ${JSON.stringify(requested.slice(0, 200))} is outside the workspace: use a path relative to the workspace.`,
    );
  if (requested.includes('\0') || requested.length > 4096)
    throw new Refusal('cwd', 'The working directory is not a valid path.');
  const within = (path: string): string | null => {
    for (const base of [WORKSPACE, hostPath]) {
      const rest = relative(base, path);
      if (path === base || (rest !== '' && rest !== '..' && !rest.startsWith(`..${sep}`) && !isAbsolute(rest)))
        return rest;
    }
    return null;
  };
  let start = requested;
  if (isAbsolute(requested)) {
    const rest = within(requested);
    if (rest === null) throw outside();
    start = rest;
  }
  const todo = start.split('/').reverse();
  const at: string[] = [];
  let links = 0;
  for (let part = todo.pop(); part !== undefined; part = todo.pop()) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (at.pop() === undefined) throw outside();
      continue;
    }
    const path = join(hostPath, ...at, part);
    const entry = await lstat(path).catch((error: NodeJS.ErrnoException) => {
      throw new Refusal(
        'cwd',
        `The working directory ${JSON.stringify(requested.slice(0, 200))} does not exist in the workspace (${error.code}).`,
      );
    });
    if (entry.isSymbolicLink()) {
      if (++links > MOST_LINKS) throw new Refusal('cwd', 'The working directory goes through too many links.');
      let target = await readlink(path);
      if (isAbsolute(target)) {
        if (target !== WORKSPACE && !target.startsWith(`${WORKSPACE}/`)) throw outside();
        at.length = 0;
        target = target.slice(WORKSPACE.length);
      }
      todo.push(...target.split('/').reverse());
    } else if (entry.isDirectory()) at.push(part);
    else throw new Refusal('cwd', `The working directory ${JSON.stringify(requested.slice(0, 200))} is not a folder.`);
  }
  return [WORKSPACE, ...at].join('/');
}

/** Splits a requested environment into what is passed on and the names that are not. */
export function allowedEnvironment(requested: Record<string, unknown>): {
  env: Record<string, string>;
  dropped: string[];
} {
  const env: Record<string, string> = {};
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(requested)) {
    const allowed =
      ENV_NAME.test(name) &&
      !FORBIDDEN_ENV.test(name) &&
      typeof value === 'string' &&
      value.length <= LONGEST_ENV_VALUE &&
      !value.includes('\0') &&
      // Old shells take a value of this form for a function.
      !value.startsWith('() {') &&
      Object.keys(env).length < MOST_ENV;
    if (allowed) env[name] = value;
    else dropped.push(name.slice(0, 128));
  }
  return { env, dropped };
}

/** Fills in and clamps what was asked for; a model's `-1` or `1e9` is no way to run for ever. */
export function clampLimits(asked: Limits, config: RunnerConfig): RunLimits {
  const pick = (value: number | undefined, limit: { default: number; max: number }, least: number): number =>
    typeof value === 'number' && Number.isFinite(value) && value > 0
      ? Math.max(least, Math.min(Math.floor(value), limit.max))
      : limit.default;
  return {
    timeoutMs: pick(asked.timeout_ms, config.timeoutMs, 100),
    silenceMs: pick(asked.silence_ms, { default: config.silenceMs, max: config.timeoutMs.max }, 0),
    outputBytes: pick(asked.output_bytes, config.outputBytes, 256),
    outputTotalBytes: config.outputTotalBytes,
    memoryMb: pick(asked.memory_mb, config.memoryMb, 16),
    pids: pick(asked.pids, config.pids, 8),
    diskMb: pick(asked.disk_mb, config.diskMb, 1),
    openFiles: config.openFiles,
  };
}
