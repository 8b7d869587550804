import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ordinaryUser, until } from '@yardmaster/testkit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startRunner } from '../runner-client/start-runner.js';
import { type Stage } from '../runner-protocol.js';
import { FifoPool } from './collect/fifo-pool.js';
import { readRunnerConfig } from './config.js';
import { type AtFaultPoint, type FaultPoint } from './fault-points.js';
import { Pipeline } from './pipeline.js';
import { Cgroups } from './sandbox/cgroups.js';
import { BwrapLauncher } from './sandbox/launcher.js';
import { treeUsage } from '@yardmaster/guard';

/** Every border between two stages and within the third, with the stage that a fault there is told as. */
const POINTS: Readonly<Record<FaultPoint, Stage>> = {
  validated: 'validate',
  intercepted: 'intercept',
  admitted: 'execute',
  prepared: 'execute',
  'pipes-open': 'execute',
  spawned: 'execute',
  output: 'execute',
  exited: 'execute',
  collected: 'collect',
  installing: 'install',
  installed: 'install',
  answering: 'track',
};
const points = Object.keys(POINTS) as FaultPoint[];
const t = { tenant: 'one', workspace: 'w' };
const folders: string[] = [];
afterAll(() => folders.splice(0).forEach((dir) => rmSync(dir, { recursive: true, force: true })));

function newFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'yardmaster-faults-'));
  folders.push(dir);
  mkdirSync(join(dir, 'workspaces'));
  return dir;
}
const marker = (): string => `ym-fault-${process.pid}-${Math.random().toString(36).slice(2)}`;
/** Leaves a daemon behind, writes, and ends by itself. */
const script = (mark: string): string =>
  `(setsid bash -c 'exec -a ${mark} sleep 300' &) ; until grep -qsa ${mark} /proc/[0-9]*/cmdline; do sleep 0.02; done; echo begun; sleep 0.3; exit 3`;

const commandLines = (): string[] =>
  readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      return [readFileSync(`/proc/${name}/cmdline`, 'utf8')];
    } catch {
      return [];
    }
  });
const running = (text: string): boolean => commandLines().some((line) => line.includes(text));
/** Mounts of this machine that have to do with a folder; others may come and go. */
const mounts = (dir: string): string[] =>
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(dir) || line.includes('/newroot'));
const descriptors = (): number => readdirSync('/proc/self/fd').length;

describe('in one process', () => {
  let dir = '';
  let pipeline: Pipeline;
  let fifos: FifoPool;
  let cgroups: Cgroups | null = null;
  let at: AtFaultPoint = () => undefined;
  const notes: Record<string, unknown>[] = [];

  beforeAll(() => {
    dir = newFolder();
    const config = readRunnerConfig({
      YM_EXECUTOR_SHELL_SOCKET: join(dir, 's'),
      YM_WORKSPACES: join(dir, 'workspaces'),
    });
    fifos = new FifoPool(join(dir, 'pipes'));
    const found = Cgroups.detect();
    cgroups = typeof found === 'string' ? null : found;
    pipeline = new Pipeline({
      config,
      launcher: new BwrapLauncher(config, dir),
      fifos,
      cgroups,
      audit: (entry) => notes.push(entry),
      at: (...where) => at(...where),
      // A stage 5 that has something to start: what it would install does not matter here.
      install: async (validated, _outcome, start) => {
        await start({ ...validated, command: 'echo installing' }, []);
        return { report: { manager: 'npm', package: 'x', outcome: 'installed' }, runAgain: false };
      },
    });
  });
  afterAll(async () => {
    pipeline.close();
    await fifos.close();
    cgroups?.close();
  });

  /** Processes, mounts, descriptors, folders and cgroups: what one command may leave nothing of. */
  const traces = (mark: string) => ({
    processes: [running(mark), running(join(dir, 'workspaces'))],
    mounts: mounts(dir),
    folders: readdirSync(dir).toSorted(),
    workspace: readdirSync(join(dir, 'workspaces', 'one', 'w')),
    cgroups: execFileSync('find', ['/sys/fs/cgroup', '-path', `*/yardmaster-shell-${process.pid}/*`, '-type', 'd'], {
      encoding: 'utf8',
    }),
    running: [pipeline.running, pipeline.queue.running, pipeline.queue.waiting],
  });

  /** Runs a command with a fault, and one after it, and looks for what the first has left. */
  async function broken(fault: (mark: string) => AtFaultPoint) {
    at = () => undefined;
    expect((await pipeline.run({ ...t, command: 'echo before' })).stdout).toBe('before\n');
    const mark = marker();
    const before = { ...traces(mark), open: descriptors() };
    at = fault(mark);
    const result = await pipeline.run({ ...t, command: script(mark) });
    at = () => undefined;
    expect(traces(mark)).toEqual({ ...before, open: undefined });
    await until(() => descriptors() <= before.open);
    expect(notes.at(-1)).toMatchObject({ event: 'command', id: result.id, ...result.verdict });
    expect((await pipeline.run({ ...t, command: 'echo after' })).stdout).toBe('after\n');
    return result;
  }

  it.each(points)('a failure at "%s" is told as an error of its stage, and leaves nothing', async (point) => {
    let hits = 0;
    const { verdict } = await broken(() => (here) => {
      if (here !== point || hits++ > 0) return;
      throw new Error('injected');
    });
    expect(hits).toBeGreaterThan(0);
    expect(verdict).toMatchObject({ status: 'error', stage: POINTS[point], exit_code: null });
    expect(verdict.reason).toContain('injected');
  });

  it.each(['prepared', 'pipes-open', 'spawned', 'output', 'exited'] as const)(
    'a failure at "%s" of an install is told as an error of that stage, and leaves nothing',
    async (point) => {
      const { verdict } = await broken(() => (here, id) => {
        if (here === point && id.endsWith('-install')) throw new Error('injected');
      });
      expect(verdict).toMatchObject({ status: 'error', stage: 'install' });
    },
  );

  it.each(['spawned', 'output'] as const)('bubblewrap killed at "%s" takes the command with it', async (point) => {
    const { verdict } = await broken(() => (here, id, pid) => {
      if (here === point && !id.endsWith('-install')) process.kill(pid!, 'SIGKILL');
    });
    expect(verdict).toMatchObject({ status: 'error', stage: 'execute' });
    expect(verdict.reason).toContain('SIGKILL');
  });

  it('a command whose own process is killed from outside says by which signal', async () => {
    const { verdict, stdout } = await broken((mark) => (here, id, pid) => {
      if (here !== 'output' || id.endsWith('-install')) return;
      // The first process of the sandbox is bubblewrap's; the shell that runs the command is the one that it waits for.
      const shell = treeUsage(pid!).pids.find((one) => {
        const line = readFileSync(`/proc/${one}/cmdline`, 'utf8');
        return line.startsWith('/bin/bash\0') && line.includes('/run/command') && !line.includes(mark);
      });
      process.kill(shell!, 'SIGKILL');
    });
    expect(stdout).toBe('begun\n');
    expect(verdict).toMatchObject({ status: 'ok', exit_code: 137, signal: 'SIGKILL' });
  });
});

/** A runner's entry that does `what` at `point` of the first command, from the built files. */
function faultyEntry(dir: string, serve: string, point: FaultPoint, what: string): string {
  const file = join(dir, 'faulty-runner.mjs');
  writeFileSync(
    file,
    `import { serveRunner } from ${JSON.stringify(serve)};
await serveRunner(process.env, (point) => { if (point === ${JSON.stringify(point)}) ${what}; });
`,
    { mode: 0o644 },
  );
  return file;
}

describe('a runner', () => {
  const SERVE = new URL('../../dist/runner/serve-runner.js', import.meta.url).pathname;
  const user = ordinaryUser(SERVE);
  const state = (dir: string): string => join(dir, 'runner.sock.state');

  async function start(
    dir: string,
    point?: FaultPoint,
    settings: Record<string, string> = {},
  ): Promise<Awaited<ReturnType<typeof startRunner>>> {
    if (typeof user === 'string') throw new Error(user);
    const entry = faultyEntry(
      dir,
      user.entry,
      point ?? 'answering',
      point === undefined ? 'undefined' : `process.kill(process.pid, 'SIGKILL')`,
    );
    if (process.getuid?.() === 0) execFileSync('chown', ['-R', `${user.uid}:${user.uid}`, dir]);
    return startRunner(
      { YM_EXECUTOR_SHELL_SOCKET: join(dir, 'runner.sock'), YM_WORKSPACES: join(dir, 'workspaces'), ...settings },
      { entry, command: user.command },
    );
  }

  it.each(points.filter((point) => !point.startsWith('install')))(
    'killed at "%s" leaves no process, the caller is told, and its successor tidies up',
    async (point) => {
      const dir = newFolder();
      const mark = marker();
      const runner = await start(dir, point);
      await expect(runner.client.run({ ...t, command: script(mark) })).rejects.toMatchObject({
        class: 'UNAVAILABLE',
        code: 'YM-SHELL-INTERRUPTED',
      });
      await runner.exited;
      await until(() => !running(mark), { timeoutMs: 30_000 });
      const next = await start(dir);
      // Killed in the middle of its start, bubblewrap can leave a child that waits for it: that one ends here.
      expect(running(join(dir, 'workspaces'))).toBe(false);
      expect(readdirSync(state(dir)).toSorted()).toEqual(['jobs', `run-${next.pid}`]);
      expect((await next.client.run({ ...t, command: 'echo after' })).stdout).toBe('after\n');
      await next.stop();
      expect(readdirSync(state(dir))).toEqual(['jobs']);
      expect(existsSync(join(dir, 'runner.sock'))).toBe(false);
      expect(running(dir)).toBe(false);
    },
    120_000,
  );

  /** Files that fill up, one after another, whatever their writer makes of it, with a daemon that would stay. */
  const fills = (mark: string, folder: string): string =>
    `(setsid bash -c 'exec -a ${mark} sleep 300' &) ; for i in {1..400}; do head -c 1000000 /dev/zero > ${folder}/f$i || exit 7; sleep 0.02; done; echo all`;
  const left = (dir: string, mark: string) => ({
    processes: [running(mark), running(join(dir, 'workspaces'))],
    mounts: mounts(dir),
    state: readdirSync(state(dir)).toSorted(),
  });

  it.each(['workspace', 'tenant'])(
    'a %s over its disk in the middle of a command: the verdict names it, and nothing of the command is left',
    async (whose) => {
      const dir = newFolder();
      const mark = marker();
      const runner = await start(dir, undefined, whose === 'tenant' ? { YM_EXECUTOR_SHELL_TENANT_DISK_MB: '20' } : {});
      const limits = whose === 'tenant' ? {} : { disk_mb: 20 };
      await runner.client.run({ ...t, command: 'true' });
      const before = left(dir, mark);
      const { verdict, stdout } = await runner.client.run({ ...t, command: fills(mark, '.'), limits });
      expect(verdict).toMatchObject({ stage: 'collect', status: 'killed', killed_reason: 'disk' });
      expect(verdict.reason).toContain('disk space');
      expect(stdout).not.toContain('all');
      expect(left(dir, mark)).toEqual(before);
      expect((await runner.client.run({ ...t, command: 'rm -f f*; ls | wc -l', limits })).stdout).toBe('0\n');
      await runner.stop();
    },
    60_000,
  );

  it('a full /tmp of a command fails what writes there, and the next command finds it empty', async () => {
    const dir = newFolder();
    const mark = marker();
    const runner = await start(dir, undefined, { YM_EXECUTOR_SHELL_TMP_MB: '4' });
    await runner.client.run({ ...t, command: 'true' });
    const before = left(dir, mark);
    const full = await runner.client.run({ ...t, command: fills(mark, '/tmp') });
    expect(full.verdict).toMatchObject({ status: 'ok', exit_code: 7 });
    expect(full.stderr).toContain('No space left on device');
    expect(left(dir, mark)).toEqual(before);
    const next = await runner.client.run({ ...t, command: 'ls /tmp | wc -l; head -c 3000000 /dev/zero > /tmp/x' });
    expect(next).toMatchObject({ stdout: '0\n', verdict: { exit_code: 0 } });
    await runner.stop();
  }, 60_000);

  /** A file system of its own, so small that it is full at once; only root may make one. */
  const canMount = ((): boolean => {
    if (process.getuid?.() !== 0) return false;
    const dir = newFolder();
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'none', dir], { stdio: 'ignore' });
    } catch {
      return false;
    }
    execFileSync('umount', [dir]);
    return true;
  })();

  it.skipIf(!canMount)(
    'a full file system under workspaces and runner (only root can mount one): the caller is told, and it serves on',
    async () => {
      const dir = newFolder();
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m,mode=755', 'none', dir]);
      try {
        mkdirSync(join(dir, 'workspaces'));
        const mark = marker();
        const runner = await start(dir);
        await runner.client.run({ ...t, command: 'true' });
        const before = left(dir, mark);
        const full = await runner.client.run({ ...t, command: fills(mark, '.') });
        expect(full.verdict).toMatchObject({ status: 'ok', exit_code: 7 });
        expect(full.stderr).toContain('No space left on device');
        expect(left(dir, mark)).toEqual(before);
        // Not even the record of a job can be written: it is told, and nothing runs without one.
        const job = await runner.client.start({ ...t, command: `exec -a ${mark} sleep 300` });
        expect(job).toMatchObject({ state: 'ended', verdict: { status: 'error' } });
        expect(job.verdict.reason).toContain('ENOSPC');
        expect(readdirSync(join(state(dir), 'jobs'))).not.toContain(`${job.job}.new`);
        expect(left(dir, mark)).toEqual(before);
        expect((await runner.client.run({ ...t, command: 'rm -f f*; echo x > y; cat y' })).stdout).toBe('x\n');
        await runner.stop();
      } finally {
        execFileSync('umount', ['-l', dir]);
      }
    },
    60_000,
  );
});
