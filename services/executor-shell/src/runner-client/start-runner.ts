import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { YardError } from '@yardmaster/contracts';
import { type RunnerStatus } from '../runner-protocol.js';
import { RunnerClient } from './runner-client.js';

/** A runner process that belongs to this process. */
export interface LocalRunner {
  client: RunnerClient;
  pid: number;
  status: RunnerStatus;
  /** Settles when the runner has ended, wanted or not. */
  exited: Promise<number | null>;
  /** Drains and ends it. */
  stop(): Promise<void>;
}

const START_MS = 15_000;
/** Endless output is garbage at once; a small nursery keeps it from becoming memory of the process. */
const RUNNER_FLAGS = ['--max-semi-space-size=2'];

/**
 * Starts the runner beside this process and waits until it has proved its containment.
 * It gets `settings` (`YM_EXECUTOR_SHELL_*`, `YM_WORKSPACES`) and nothing else of this process's environment, and ends
 * when this process ends, however that happens.
 * @throws YardError UNAVAILABLE with the failed probes when it may not serve.
 */
export async function startRunner(
  settings: Record<string, string>,
  options: { entry?: string; command?: string[]; onLog?: (line: string) => void } = {},
): Promise<LocalRunner> {
  const socket = settings['YM_EXECUTOR_SHELL_SOCKET'];
  if (socket === undefined) throw new YardError('INVALID', 'YM-SHELL-CONFIG', 'YM_EXECUTOR_SHELL_SOCKET is needed.');
  const entry = options.entry ?? fileURLToPath(new URL('../runner/main.js', import.meta.url));
  const [program = process.execPath, ...args] = options.command ?? [process.execPath];
  const child: ChildProcess = spawn(program, [...args, ...RUNNER_FLAGS, entry], {
    env: {
      PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
      LANG: 'C.UTF-8',
      ...settings,
      YM_EXECUTOR_SHELL_LIFELINE: 'true',
    },
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4000);
    if (options.onLog !== undefined) for (const line of text.split('\n')) if (line !== '') options.onLog(line);
  });
  let ended = false;
  const exited = new Promise<number | null>((resolve) => {
    const end = (code: number | null): void => {
      ended = true;
      resolve(code);
    };
    child.once('exit', (code) => end(code));
    child.once('error', () => end(null));
  });
  const stop = async (): Promise<void> => {
    child.stdin!.destroy();
    if (!ended) child.kill('SIGTERM');
    await exited;
  };
  const client = new RunnerClient(socket);
  const deadline = Date.now() + START_MS;
  while (!ended && Date.now() < deadline) {
    if (existsSync(socket)) {
      const status = await client.status().catch(() => undefined);
      if (status?.ready === true) return { client, pid: child.pid!, status, exited, stop };
      if (status !== undefined && status.probes.some((probe) => !probe.ok)) {
        await stop();
        refuseUnproved(status);
      }
    }
    await sleep(15);
  }
  await stop();
  throw new YardError(
    'UNAVAILABLE',
    'YM-SHELL-RUNNER',
    `The shell runner did not start: ${said.trim() || 'no output'}`,
  );
}

/**
 * Waits for a runner that somebody else started (another container of the pod) until it has proved its containment.
 * @throws YardError UNAVAILABLE with the failed probes, or when it does not come up within `waitMs`
 */
export async function connectRunner(
  socket: string,
  waitMs = 60_000,
): Promise<{ client: RunnerClient; status: RunnerStatus }> {
  const client = new RunnerClient(socket);
  const deadline = Date.now() + waitMs;
  for (;;) {
    const status = await client.status().catch(() => undefined);
    if (status?.ready === true) return { client, status };
    if (status !== undefined) refuseUnproved(status);
    if (Date.now() > deadline)
      throw new YardError('UNAVAILABLE', 'YM-SHELL-RUNNER', `No shell runner answers on ${socket}.`);
    await sleep(100);
  }
}

/** @throws YardError when a probe failed */
function refuseUnproved(status: RunnerStatus): void {
  const failed = status.probes.filter((probe) => !probe.ok);
  if (failed.length === 0) return;
  const told = failed.map((probe) => `${probe.name}: ${probe.detail}`).join(' ');
  throw new YardError(
    'UNAVAILABLE',
    'YM-SHELL-CONTAINMENT',
    `The shell sandbox is not safe here, so no command is run. ${told}`,
    { details: { probes: status.probes } },
  );
}
