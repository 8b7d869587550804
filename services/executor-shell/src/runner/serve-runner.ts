import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Probe, type RunnerStatus } from '../runner-protocol.js';
import { FifoPool } from './collect/fifo-pool.js';
import { type AtFaultPoint } from './fault-points.js';
import { closeInheritedDescriptors } from './inherited-descriptors.js';
import { readRunnerConfig, type RunnerConfig } from './config.js';
import { createInstaller, type InstallPolicyFile, readInstallPolicy } from './install/install-stage.js';
import { Pipeline } from './pipeline.js';
import { Cgroups } from './sandbox/cgroups.js';
import { endLeftovers } from './sandbox/leftovers.js';
import { BwrapLauncher, type Launcher } from './sandbox/launcher.js';
import { PodLauncher } from './sandbox/pod-launcher.js';
import { isAlive } from '@yardmaster/guard';
import { DOWNGRADABLE, selfTest } from './self-test.js';
import { RunnerServer } from './server.js';
import { Jobs } from './track/jobs.js';

// The process that starts commands. It holds no credential and speaks to nobody but the executor on its socket.

const log = (entry: Record<string, unknown>): void => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), service: 'shell-runner', ...entry })}\n`);
};

/** Folders of runners that ended without tidying up. */
function reapState(stateDir: string): void {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  for (const name of readdirSync(stateDir)) {
    const pid = /^run-(\d+)$/.exec(name)?.[1];
    if (name.startsWith('self-test-') || (pid !== undefined && !isAlive(Number(pid))))
      rmSync(join(stateDir, name), { recursive: true, force: true });
  }
}

/** Finds the mode that proves its containment; a downgrade from bwrap to pod only where it is allowed. */
async function prove(
  config: RunnerConfig,
  fifos: FifoPool,
  cgroups: Cgroups | null,
  privateDir: string,
): Promise<{ launcher: Launcher; probes: Probe[]; ready: boolean }> {
  const tryMode = async (launcher: Launcher): Promise<{ launcher: Launcher; probes: Probe[]; ready: boolean }> => {
    const probes = await selfTest({ config, launcher, fifos, cgroups });
    return {
      launcher,
      probes,
      ready: probes.every((probe) => probe.ok || (config.allowDowngrade && DOWNGRADABLE.has(probe.name))),
    };
  };
  if (config.mode === 'pod') return tryMode(new PodLauncher(config, privateDir));
  const first = await tryMode(new BwrapLauncher(config, privateDir));
  if (first.ready || config.mode === 'bwrap' || !config.allowDowngrade) return first;
  const second = await tryMode(new PodLauncher(config, privateDir));
  return second.ready
    ? second
    : {
        ...first,
        probes: [...first.probes, ...second.probes.map((probe) => ({ ...probe, name: `pod-${probe.name}` }))],
      };
}

/**
 * Serves commands until it is told to end, with the settings of `env`; ends the process when they are wrong.
 * `at` is for tests: what happens there breaks a command at a point of their choice.
 */
export async function serveRunner(env: Readonly<Record<string, string | undefined>>, at?: AtFaultPoint): Promise<void> {
  closeInheritedDescriptors();
  // Whoever read the log may be gone before us; that must not cut the tidying up short.
  process.stderr.on('error', () => undefined);
  let config: RunnerConfig;
  let policy: InstallPolicyFile | null = null;
  try {
    config = readRunnerConfig(env);
    if (config.install.enabled) policy = readInstallPolicy(config.install.policyFile!);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exit(1);
  }
  // Files of the runner are nobody else's business; commands make theirs with a mask of their own.
  process.umask(0o077);
  await endLeftovers();
  reapState(config.stateDir);
  const privateDir = join(config.stateDir, `run-${process.pid}`);
  const fifos = new FifoPool(join(privateDir, 'pipes'));
  const found = Cgroups.detect();
  const cgroups = typeof found === 'string' ? null : found;
  let status: RunnerStatus = {
    ready: false,
    mode: null,
    profile_hash: '',
    probes: [],
    running: 0,
    waiting: 0,
    draining: false,
  };
  const serving: { pipeline?: Pipeline; jobs?: Jobs } = {};
  const server = new RunnerServer(config.socket, () => ({
    ...status,
    running: serving.pipeline?.running ?? 0,
    waiting: serving.pipeline?.queue.waiting ?? 0,
  }));
  await server.listen();

  let ending: Promise<void> | undefined;
  const drain = async (graceMs: number): Promise<void> => {
    status = { ...status, ready: false, draining: true };
    serving.pipeline?.close();
    const deadline = Date.now() + graceMs;
    const foreground = (): number => (serving.pipeline?.running ?? 0) - (serving.jobs?.running ?? 0);
    while (foreground() > 0 && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
    serving.pipeline?.killAll('shutdown');
    while ((serving.pipeline?.running ?? 0) > 0) await new Promise((resolve) => setTimeout(resolve, 10));
    await serving.jobs?.close();
  };
  const end = (graceMs: number): Promise<void> => {
    ending ??= (async () => {
      await drain(graceMs);
      await server.close();
      await fifos.close();
      rmSync(privateDir, { recursive: true, force: true });
      cgroups?.close();
      log({ event: 'ended' });
      process.exit(0);
    })();
    return ending;
  };
  process.on('SIGTERM', () => void end(config.drainMs));
  process.on('SIGINT', () => void end(0));
  if (config.lifeline) {
    process.stdin.on('end', () => void end(0)).on('error', () => void end(0));
    process.stdin.resume();
  }

  const { launcher, probes, ready } = await prove(config, fifos, cgroups, privateDir);
  status = { ...status, ready, mode: launcher.mode, profile_hash: launcher.profileHash, probes };
  log({
    event: ready ? 'ready' : 'refused',
    mode: launcher.mode,
    profile_hash: launcher.profileHash,
    cgroups: cgroups === null ? found : `v${cgroups.version}`,
    probes: probes.filter((probe) => !probe.ok),
  });
  if (!ready || ending !== undefined) return;
  const install = policy !== null && launcher instanceof BwrapLauncher ? createInstaller(config, policy) : undefined;
  const pipeline = new Pipeline({ config, launcher, fifos, cgroups, install, audit: log, at });
  const jobs = new Jobs(pipeline, config);
  Object.assign(serving, { pipeline, jobs });
  server.open({ pipeline, jobs, status: () => status, drain: (graceMs) => drain(graceMs ?? config.drainMs) });
}
