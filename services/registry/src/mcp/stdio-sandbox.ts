import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { promisify } from 'node:util';
import { type TenantId, YardError } from '@yardmaster/contracts';
import {
  isolationArguments,
  limitVariables,
  privateArguments,
  SANDBOX_ENVIRONMENT,
  SANDBOX_HOME,
  sealArguments,
  SECCOMP_FILE,
  systemArguments,
} from '@yardmaster/guard';
import type { McpDefinition } from './mcp-definition.js';

type StdioTransport = Extract<McpDefinition['transport'], { kind: 'stdio' }>;

/** A program to start, its arguments, and the little environment that is not inherited. */
export interface StdioCommand {
  command: string;
  args: string[];
  env: Record<string, string>;
}

/** What runs where a path names no tenant: the platform's own listing. */
const NOBODY = '_';
/** Of bubblewrap itself and of the shells around it; the server's own comes through the arguments. */
const OUTER_ENVIRONMENT = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/',
  USER: 'agent',
  LOGNAME: 'agent',
  TERM: 'dumb',
};
const SECCOMP_FD = 9;
// bubblewrap takes its filter on a descriptor, and whoever starts servers here hands on three only.
const WITH_FILTER = `exec ${SECCOMP_FD}<"$1"; shift; exec "$@"`;
// The first bash has read the limits; the second word is the server.
const SERVER = 'exec "$@"';
const LEAST_DATA_MB = 704;
const DEFAULTS = { memory_mb: 512, pids: 64, open_files: 512, tmp_mb: 64 } as const;
const LARGEST_FILE_MB = 1024;

/**
 * The command that runs a stdio server in a sandbox of its own: no network, a read-only system, private /tmp and home,
 * only the environment that its configuration names, bounded memory, processes and files. A credential is not among the
 * arguments, which everybody on the machine can read; it comes through the environment.
 */
export function sandboxed(
  bwrap: string,
  transport: StdioTransport,
  tenant: TenantId | undefined,
  secretEnv: Readonly<Record<string, string>>,
): StdioCommand {
  const { sandbox } = transport;
  const limits = { ...DEFAULTS, ...sandbox };
  const [command, args] = commandOf(transport, tenant);
  const write = (sandbox.write ?? []).map((path) => forTenant(path, tenant));
  // A folder of each tenant's own is made when it is first needed; one without is the operator's to make.
  for (const [index, path] of write.entries())
    if (sandbox.write![index]!.includes('{tenant}')) mkdirSync(path, { recursive: true, mode: 0o700 });
  const read = (sandbox.read ?? []).map((path) => forTenant(path, tenant));
  if (command === process.execPath) read.push(command);
  const environment = {
    ...SANDBOX_ENVIRONMENT,
    ...limitVariables({
      // Not below what a Node process reserves to begin with; whoever started it watches what it really uses.
      memoryMb: Math.max(limits.memory_mb, LEAST_DATA_MB),
      pids: limits.pids,
      openFiles: limits.open_files,
      diskMb: LARGEST_FILE_MB,
    }),
    ...envOf(transport, tenant),
  };
  return {
    command: '/bin/sh',
    args: [
      ...['-c', WITH_FILTER, 'start', SECCOMP_FILE, bwrap],
      ...isolationArguments(),
      ...(sandbox.network === true ? ['--share-net'] : []),
      ...Object.entries(environment).flatMap(([name, value]) => ['--setenv', name, value]),
      ...systemArguments([]),
      ...(sandbox.network === true ? ['--ro-bind-try', '/etc/resolv.conf', '/etc/resolv.conf'] : []),
      ...privateArguments(limits.tmp_mb),
      // After the private folders: what is under /tmp outside may be let in too.
      ...read.flatMap((path) => ['--ro-bind', path, path]),
      ...write.flatMap((path) => ['--bind', path, path]),
      ...sealArguments(SANDBOX_HOME),
      ...['--seccomp', String(SECCOMP_FD), '--', '/bin/bash', '--noprofile', '--norc', '-c', SERVER, 'server'],
      command,
      ...args,
    ],
    env: { ...OUTER_ENVIRONMENT, ...secretEnv },
  };
}

/** Memory that the processes of a server may use together, in bytes. */
export const memoryBytes = ({ sandbox }: StdioTransport) => (sandbox.memory_mb ?? DEFAULTS.memory_mb) * 1024 * 1024;

/** The same server without a sandbox, for whoever has turned it off: still with nothing of this process's environment. */
export function unsandboxed(
  transport: StdioTransport,
  tenant: TenantId | undefined,
  secretEnv: Readonly<Record<string, string>>,
): StdioCommand {
  const [command, args] = commandOf(transport, tenant);
  return {
    command,
    args,
    env: { ...SANDBOX_ENVIRONMENT, HOME: '/tmp', ...envOf(transport, tenant), ...secretEnv },
  };
}

function commandOf(transport: StdioTransport, tenant: TenantId | undefined): [string, string[]] {
  // The Node that Yardmaster runs with, wherever it is: it need not be on any path.
  const command = transport.command === 'node' ? process.execPath : transport.command;
  return [command, transport.args.map((argument) => forTenant(argument, tenant))];
}

const envOf = ({ env }: StdioTransport, tenant: TenantId | undefined) =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [name, forTenant(value, tenant)]));

/** A tenant's id has no character that means anything in a path. */
const forTenant = (text: string, tenant: TenantId | undefined) => text.replaceAll('{tenant}', tenant ?? NOBODY);

const PROBE_MS = 10_000;
const KNOWN_MS = 60_000;
const run = promisify(execFile);

/** Tries whether a sandbox can be made here; what it found counts for a minute. */
export class SandboxProbe {
  private found: Promise<string | undefined> | undefined;
  private at = 0;

  constructor(private readonly bwrap: string) {}

  /** Throws UNAVAILABLE `YM-MCP-SANDBOX` with what is missing. */
  async assertPossible(id: string): Promise<void> {
    if (Date.now() - this.at > KNOWN_MS) {
      this.at = Date.now();
      this.found = this.probe();
    }
    const problem = await this.found;
    if (problem === undefined) return;
    this.at = 0;
    throw new YardError(
      'UNAVAILABLE',
      'YM-MCP-SANDBOX',
      `The MCP server "${id}" is not started: it cannot be put into a sandbox here (${problem}). ` +
        'Run it elsewhere with streamable HTTP and give its url; or install bubblewrap 0.8 or newer and allow user ' +
        'namespaces; or let servers over stdio run with the rights of the registry: YM_REGISTRY_MCP_SANDBOX=off.',
    );
  }

  private async probe(): Promise<string | undefined> {
    const { command, args, env } = sandboxed(
      this.bwrap,
      { kind: 'stdio', command: '/bin/true', args: [], env: {}, credentialEnv: undefined, sandbox: {} },
      undefined,
      {},
    );
    try {
      await run(command, args, { env, timeout: PROBE_MS });
      return undefined;
    } catch (error) {
      const { stderr = '', message } = error as Error & { stderr?: string };
      const words = (stderr.trim() || message).split('\n').at(-1)!.slice(0, 200);
      return /not found|ENOENT/.test(words) ? `${this.bwrap} is not installed` : words;
    }
  }
}
