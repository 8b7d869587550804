import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type Limits, type Probe } from '../runner-protocol.js';
import { type FifoPool } from './collect/fifo-pool.js';
import { type RunnerConfig } from './config.js';
import { type Cgroups } from './sandbox/cgroups.js';
import { type Launcher } from './sandbox/launcher.js';
import { endLeftovers, strangers } from './sandbox/pod-launcher.js';
import { isAlive } from '@yardmaster/guard';
import { type Outcome, runSandboxed } from './sandbox/run-sandboxed.js';
import { clampLimits, type Validated } from './validate.js';

/** What a start-up message of bubblewrap means, and what to change. The first match counts. */
const START_FAILURES: readonly [RegExp, string][] = [
  [
    /ENOENT|not found/i,
    'bubblewrap is not installed (EXIT 127/ENOENT): install the package "bubblewrap" (0.8 or newer), or set YM_EXECUTOR_SHELL_BWRAP to its path.',
  ],
  [/unrecognized|Unknown option|disable-userns.*option/i, 'this bubblewrap is too old: 0.8 or newer is needed.'],
  [
    /mount proc/i,
    'a new /proc cannot be mounted (EPERM): the container needs procMount: Unmasked and hostUsers: false.',
  ],
  [
    /No permissions to creat|Operation not permitted.*namespace|clone/i,
    'user namespaces are refused (EPERM): allow them in the seccomp profile (Localhost profile of the chart), or set kernel.unprivileged_userns_clone=1.',
  ],
  [
    /ENOSPC|No space left|nesting depth/i,
    'no further user namespace is allowed (ENOSPC): raise user.max_user_namespaces.',
  ],
  [
    /RTM_NEWADDR|uid map|uid_map|apparmor/i,
    'AppArmor refuses user namespaces (EPERM/EACCES): load a profile that allows "userns", or set kernel.apparmor_restrict_unprivileged_userns=0.',
  ],
  [
    /pivot_root|remount|mount/i,
    'mounting inside a user namespace is refused: the AppArmor and seccomp profiles of the container must allow mount, umount and pivot_root.',
  ],
];

interface Context {
  config: RunnerConfig;
  launcher: Launcher;
  fifos: FifoPool;
  cgroups: Cgroups | null;
}

/**
 * Proves each guarantee of the sandbox with a canary before anything is served: what must be out of reach is put in
 * place, and a command goes for it. A probe that is not `ok` says what was seen and which setting to change.
 */
export async function selfTest(context: Context): Promise<Probe[]> {
  const { config, launcher } = context;
  const id = randomBytes(6).toString('hex');
  const dir = join(config.stateDir, `self-test-${id}`);
  const workspace = join(dir, 'workspace');
  const secret = `canary-${id}`;
  const socketName = `\0yardmaster-${id}`;
  let connections = 0;
  const listener = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  try {
    await mkdir(workspace, { recursive: true, mode: 0o700 });
    await writeFile(join(dir, 'outside'), secret);
    await new Promise<void>((resolve, reject) => listener.once('error', reject).listen(socketName, () => resolve()));
    // Before anything of ours runs: a pod that holds anything else is no sandbox for a session.
    if (launcher.mode === 'pod') await endLeftovers();
    const foreign = launcher.mode === 'pod' ? strangers().length : 0;
    const run = (script: string, limits: Limits = {}): Promise<Outcome> => once(context, workspace, script, limits);
    const [reach, tree, pids, memory] = await Promise.all([
      run(launcher.mode === 'pod' ? POD_SCRIPT : reachScript(join(dir, 'outside'), socketName.slice(1)), {
        timeout_ms: 10_000,
      }),
      run('(setsid sleep 61 >/dev/null 2>&1 &); trap "" TERM INT; sleep 61', { timeout_ms: 300 }),
      forkedUnder16(run),
      run('head -c 400000000 /dev/zero | tail -n 1 | wc -c', { timeout_ms: 10_000, memory_mb: 32 }),
    ]);
    const reached = launcher.mode === 'pod' ? podProbes(reach, foreign) : reachProbes(reach, secret, () => connections);
    return [...reached, treeProbe(tree), pidsProbe(pids), memoryProbe(memory, context)];
  } catch (error) {
    return [{ name: 'start', ok: false, detail: startDetail((error as Error).message) }];
  } finally {
    listener.close();
    await rm(dir, { recursive: true, force: true });
  }
}

/** How far a command gets that starts 64 processes where 16 are allowed; again with more time where it did not begin. */
async function forkedUnder16(run: (script: string, limits: Limits) => Promise<Outcome>): Promise<Outcome> {
  // bash tries a refused fork again and again, so the deadline ends this one; the last number counts.
  const script = 'echo pids=0; for i in {1..64}; do sleep 61 & echo "pids=$i"; done; sleep 61';
  const first = await run(script, { timeout_ms: 500, pids: 16 });
  return first.bytes.stdout > 0 || first.failure !== null ? first : run(script, { timeout_ms: 4000, pids: 16 });
}

/** What of the sandbox may be missing when `allow_downgrade` is set; containment itself never. */
export const DOWNGRADABLE: ReadonlySet<string> = new Set(['pids', 'memory', 'kernel']);

async function once(context: Context, workspace: string, script: string, asked: Limits): Promise<Outcome> {
  const { config, launcher, fifos, cgroups } = context;
  const limits = clampLimits(asked, config);
  const key = `self-test-${randomBytes(4).toString('hex')}`;
  const validated: Validated = {
    tenant: 'self-test',
    workspace: 'self-test',
    command: script,
    hostPath: workspace,
    cwd: '/workspace',
    env: {},
    droppedEnv: [],
    limits,
  };
  const cgroup = cgroups?.create(key, { memoryMb: limits.memoryMb, pids: limits.pids }) ?? null;
  const { launch, sweep, cleanUp } = await launcher.prepare(key, validated);
  try {
    const handle = await runSandboxed({ launch, script, limits, fifos, cgroup, sweep });
    return await handle.done;
  } finally {
    await cleanUp();
    await cgroup?.remove();
  }
}

/** Prints one line `name=what was seen` for each guarantee; only bash and what every image with bash has. */
function reachScript(outside: string, socketName: string): string {
  return `
echo "files=$(cat ${outside} /proc/self/root${outside} /proc/1/root${outside} 2>/dev/null)"
w=; for d in / /usr /etc /usr/bin; do (: > $d/ym_probe) 2>/dev/null && w="$w $d"; done; echo "readonly=$w"
echo "workspace=$(echo x > ws_probe && rm ws_probe && echo writable)"
echo "environment=$(tr '\\0' '\\n' < /proc/self/environ | grep -c -E '^(YM_|NATS|REDIS)') $(cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c '^YM_')"
echo "processes=$(cat /proc/[0-9]*/cmdline 2>/dev/null | grep -a -c 'runner[/]main') $(ls -d /proc/[0-9]* | wc -l)"
echo "network=$(tail -n +3 /proc/net/dev | grep -vc '^ *lo:') $(tail -n +2 /proc/net/route | grep -vc '^lo') $(grep -c '@${socketName}' /proc/net/unix)"
echo "privileges=$(grep -c 'NoNewPrivs:.1' /proc/self/status) $(grep -E '^Cap(Eff|Prm|Bnd|Amb)' /proc/self/status | grep -vc 0000000000000000) $(grep -c '^Seccomp:.2' /proc/self/status)"
echo "namespaces=$(unshare -U true 2>/dev/null && echo made)"
echo "mounts=$(mount -t tmpfs none /tmp 2>/dev/null && echo made)"
`;
}

function reachProbes(outcome: Outcome, secret: string, connections: () => number): Probe[] {
  const text = Buffer.concat([outcome.stdout.head, outcome.stdout.tail]).toString();
  const errors = Buffer.concat([outcome.stderr.head, outcome.stderr.tail]).toString().trim().slice(-300);
  if (outcome.failure !== null || !text.includes('workspace=')) {
    return [
      {
        name: 'start',
        ok: false,
        detail: startDetail(
          outcome.failure ?? `the probe command ended with ${outcome.exitCode} (${outcome.killedReason ?? errors})`,
        ),
      },
    ];
  }
  const seen = new Map(
    text.split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  const probe = (name: string, good: (value: string) => boolean, bad: string): Probe => {
    const value = seen.get(name);
    const ok = value !== undefined && good(value);
    return {
      name,
      ok,
      detail: ok ? `seen: ${value === '' ? 'nothing' : value}` : `${bad} Seen: ${JSON.stringify(value ?? errors)}.`,
    };
  };
  return [
    { name: 'start', ok: true, detail: 'a command ran in the sandbox' },
    probe('files', (value) => !value.includes(secret), 'A file outside the workspace could be read.'),
    probe('readonly', (value) => value === '', 'A system folder could be written.'),
    probe(
      'workspace',
      (value) => value === 'writable',
      'The workspace cannot be written: check the owner of YM_WORKSPACES and of the state folder.',
    ),
    probe('environment', (value) => value === '0 0', 'Environment of the service could be read.'),
    probe(
      'processes',
      (value) => value.startsWith('0 ') && Number(value.slice(2)) < 40,
      'Processes outside could be seen: the pid namespace is missing.',
    ),
    probe(
      'network',
      (value) => value === '0 0 0' && connections() === 0,
      'A network other than an empty loopback is there: the network namespace is missing.',
    ),
    probe(
      'privileges',
      (value) => value === '1 0 1',
      'no_new_privs, an empty capability set or the seccomp filter is missing.',
    ),
    probe(
      'namespaces',
      (value) => value === '',
      'A new user namespace could be made (EPERM expected): bubblewrap 0.8 with --disable-userns is needed.',
    ),
    probe('mounts', (value) => value === '', 'Something could be mounted (EPERM expected).'),
  ];
}

/** In a pod the walls are the pod's own; what can be seen from inside is whether it is what it claims to be. */
const POD_SCRIPT = `
echo "workspace=$(echo x > ws_probe && rm ws_probe && echo writable)"
echo "environment=$(tr '\\0' '\\n' < /proc/self/environ | grep -c -E '^(YM_|NATS|REDIS|KUBERNETES_)')"
echo "token=$(ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null | head -1)"
echo "privileges=$(grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | grep -vc 0000000000000000) $(id -u)"
`;

function podProbes(outcome: Outcome, foreign: number): Probe[] {
  const text = outcome.stdout.head.toString();
  if (!text.includes('workspace='))
    return [
      {
        name: 'start',
        ok: false,
        detail: startDetail(
          outcome.failure ?? `exit ${outcome.exitCode}: ${outcome.stderr.head.toString().slice(-300)}`,
        ),
      },
    ];
  const value = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1] ?? '';
  const kernel = podKernel();
  const [capabilities, uid] = value('privileges').split(' ');
  const probe = (name: string, ok: boolean, good: string, bad: string): Probe => ({
    name,
    ok,
    detail: ok ? good : bad,
  });
  return [
    { name: 'start', ok: true, detail: 'a command ran' },
    probe(
      'workspace',
      value('workspace') === 'writable',
      'writable',
      'The workspace cannot be written: check the owner of YM_WORKSPACES.',
    ),
    probe('environment', value('environment') === '0', 'clean', 'Environment of the service could be read.'),
    probe(
      'token',
      value('token') === '',
      'none',
      'The pod has a service-account token: set automountServiceAccountToken: false.',
    ),
    probe(
      'privileges',
      capabilities === '0' && uid !== '0',
      'no capabilities',
      'The pod gives capabilities or root: set runAsNonRoot: true and drop ALL.',
    ),
    probe(
      'alone',
      foreign === 0,
      'the pod holds nothing else',
      `The pod holds ${foreign} other processes of this user: one pod for one session, without a shared process namespace.`,
    ),
    probe(
      'kernel',
      kernel !== null,
      kernel ?? '',
      'The pod shares the kernel of the node: set runtimeClassName to gvisor or kata.',
    ),
  ];
}

/** The kernel of its own that the pod has, if it tells. */
function podKernel(): string | null {
  const read = (path: string): string => {
    try {
      return readFileSync(path, 'utf8');
    } catch {
      return '';
    }
  };
  // gVisor answers with a fixed version of its own and has no modules; Kata passes its agent's settings to the guest kernel.
  if (/gvisor/i.test(read('/proc/version')) || /^Linux version 4\.4\.0 .*Jan 10 15:06:54/.test(read('/proc/version')))
    return 'gVisor';
  if (/\bagent\.log|kata/.test(read('/proc/cmdline'))) return 'Kata';
  return null;
}

function treeProbe(outcome: Outcome): Probe {
  const ended =
    outcome.killedReason === 'timeout' && outcome.durationMs < 3000 && outcome.pids.every((pid) => !isAlive(pid));
  return {
    name: 'timeout',
    ok: ended,
    detail: ended
      ? `the whole tree ended ${Math.round(outcome.durationMs - 300)} ms after the deadline`
      : `Processes outlived the deadline (${outcome.killedReason ?? outcome.failure}).`,
  };
}

function pidsProbe(outcome: Outcome): Probe {
  const started = Number(/(\d+)\n$/.exec(outcome.stdout.head.toString())?.[1] ?? Number.NaN);
  const ok = started < 24;
  if (Number.isNaN(started))
    return {
      name: 'pids',
      ok,
      detail: `The probe could not be run (${outcome.failure ?? outcome.killedReason}): the machine is too busy.`,
    };
  const bad = `The number of processes is not limited (EAGAIN expected, ${started} of 64 started under a limit of 16): do not run the runner as root, or give it writable cgroups.`;
  return { name: 'pids', ok, detail: ok ? `fork was refused after ${started} processes` : bad };
}

function memoryProbe(outcome: Outcome, { cgroups }: Context): Probe {
  const text = outcome.stdout.head.toString();
  const ok = outcome.failure === null && !text.includes('400000000');
  return {
    name: 'memory',
    ok,
    detail: ok
      ? `a command over its limit was ended (${cgroups === null ? 'watchdog and rlimit' : `cgroup v${cgroups.version}`})`
      : 'A command could use more memory than its limit.',
  };
}

function startDetail(message: string): string {
  const known = START_FAILURES.find(([pattern]) => pattern.test(message));
  return `${known === undefined ? 'The sandbox cannot be started here.' : known[1]} (${message.slice(0, 400)})`;
}
