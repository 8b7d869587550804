import { execFileSync, spawn } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { type LocalRunner, startRunner } from '../runner-client/start-runner.js';

const ENTRY = new URL('../../dist/runner/main.js', import.meta.url).pathname;
const UID = 12_345;
const folders: string[] = [];
const runners: LocalRunner[] = [];

/** Whether this process can start the runner as a user without privileges. */
const drops = ((): boolean => {
  if (process.getuid?.() !== 0) return false;
  try {
    execFileSync(
      'setpriv',
      [
        '--reuid',
        String(UID),
        '--regid',
        String(UID),
        '--clear-groups',
        process.execPath,
        '-e',
        `require('node:fs').accessSync(${JSON.stringify(ENTRY)})`,
      ],
      { stdio: 'ignore' },
    );
    return true;
  } catch {
    return false;
  }
})();

async function start(
  settings: Record<string, string> = {},
  dir = mkdtempSync(join(tmpdir(), 'yardmaster-runner-')),
): Promise<{ runner: LocalRunner; dir: string; log: string[] }> {
  if (!folders.includes(dir)) folders.push(dir);
  const workspaces = join(dir, 'workspaces');
  if (!existsSync(workspaces)) mkdirSync(workspaces);
  if (drops) for (const path of [dir, workspaces]) chownSync(path, UID, UID);
  const log: string[] = [];
  const runner = await startRunner(
    { YM_EXECUTOR_SHELL_SOCKET: join(dir, 'runner.sock'), YM_WORKSPACES: workspaces, ...settings },
    {
      entry: ENTRY,
      command: [
        ...(drops ? ['setpriv', '--reuid', String(UID), '--regid', String(UID), '--clear-groups'] : []),
        process.execPath,
      ],
      onLog: (line) => log.push(line),
    },
  );
  runners.push(runner);
  return { runner, dir, log };
}

afterEach(async () => {
  for (const runner of runners.splice(0)) await runner.stop();
  for (const dir of folders.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const running = (marker: string): boolean =>
  readdirSync('/proc').some((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(marker);
    } catch {
      return false;
    }
  });

async function until(condition: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('it did not happen in time');
    await sleep(20);
  }
}

const marker = (): string => `ym-spec-${process.pid}-${Math.random().toString(36).slice(2)}`;
const t = { tenant: 'one', workspace: 'w' };

describe('runner', () => {
  it('streams output, and its verdict accounts for the command', async () => {
    const { runner, log } = await start();
    const seen: string[] = [];
    const { stdout, stderr, verdict } = await runner.client.run(
      { ...t, command: 'echo a; sleep 0.2; echo b >&2; exit 3', env: { LD_PRELOAD: 'x', MINE: '1' } },
      { onOutput: (stream, text) => seen.push(`${stream}:${text}`) },
    );
    expect([stdout, stderr]).toEqual(['a\n', 'b\n']);
    expect(seen).toEqual(['stdout:a\n', 'stderr:b\n']);
    expect(verdict).toMatchObject({
      status: 'ok',
      exit_code: 3,
      bytes: { stdout: 2, stderr: 2 },
      dropped_env: ['LD_PRELOAD'],
      truncated: false,
      mode: 'bwrap',
      rule: null,
    });
    expect(verdict.profile_hash).toBe(runner.status.profile_hash);
    // The audit line says what happened, not what was written.
    const line = log.find((text) => text.includes('"event":"command"'));
    expect(line).toContain('"tenant":"one"');
    expect(line).not.toContain('echo a');
  });

  it('ends a command when it is cancelled and when its caller goes away', async () => {
    const { runner, dir } = await start();
    const [a, b] = [marker(), marker()];
    const abort = new AbortController();
    const cancelled = runner.client.run(
      { ...t, command: `echo begun; exec -a ${a} sleep 300` },
      { signal: abort.signal },
    );
    await until(() => running(a));
    abort.abort();
    const { verdict, stdout } = await cancelled;
    expect(verdict).toMatchObject({ status: 'cancelled', killed_reason: 'cancelled' });
    expect(stdout).toBe('begun\n');
    expect(running(a)).toBe(false);
    const socket = connect(join(dir, 'runner.sock'));
    socket.write(`${JSON.stringify({ op: 'run', ...t, command: `exec -a ${b} sleep 300` })}\n`);
    await until(() => running(b));
    socket.destroy();
    await until(() => !running(b));
  });

  it('leaves no process, cgroup or folder behind when it is killed, and its successor says that the job was lost', async () => {
    const { runner, dir } = await start();
    const m = marker();
    const foreground = runner.client.run({
      ...t,
      command: `(setsid bash -c "exec -a ${m} sleep 300" &) ; exec -a ${m} sleep 300`,
    });
    const job = await runner.client.start({ ...t, command: `exec -a ${m} sleep 300` });
    await until(() => running(m));
    process.kill(runner.pid, 'SIGKILL');
    await expect(foreground).rejects.toMatchObject({ class: 'UNAVAILABLE' });
    await until(() => !running(m), 2000);
    const { runner: next } = await start({}, dir);
    expect(await next.client.job('one', job.job, 'status')).toMatchObject({
      state: 'lost',
      verdict: { killed_reason: 'runner-ended' },
    });
    const state = join(dir, 'runner.sock.state');
    expect(readdirSync(state).filter((name) => name.startsWith('run-'))).toEqual([`run-${next.pid}`]);
    await next.stop();
    expect(readdirSync(state).filter((name) => name !== 'jobs')).toEqual([]);
    expect(existsSync(join(dir, 'runner.sock'))).toBe(false);
  });

  it('runs background jobs: read on, stop, lease, and only for their tenant', async () => {
    const { runner } = await start({ YM_EXECUTOR_SHELL_JOB_LEASE_MS: '1500', YM_EXECUTOR_SHELL_JOBS_PER_TENANT: '2' });
    const { client } = runner;
    const m = marker();
    const { job } = await client.start({
      ...t,
      command: `n=0; while :; do echo line $((n=n+1)); sleep 0.1; done; # ${m}`,
    });
    await until(async () => (await client.job('one', job, 'output')).output.includes('line 3'));
    const first = await client.job('one', job, 'output');
    expect(first.state).toBe('running');
    await until(async () => (await client.job('one', job, 'output', first.next)).output !== '');
    expect((await client.job('one', job, 'output', first.next)).output).not.toContain('line 1\n');
    await expect(client.job('two', job, 'stop')).rejects.toMatchObject({ class: 'NOT_FOUND' });
    expect(await client.job('one', job, 'stop')).toMatchObject({
      state: 'ended',
      verdict: { status: 'cancelled', killed_reason: 'stopped' },
    });
    const forgotten = await client.start({ ...t, command: 'sleep 300' });
    await client.start({ ...t, command: 'sleep 300' });
    await expect(client.start({ ...t, command: 'true' })).rejects.toMatchObject({ class: 'EXHAUSTED' });
    // Nobody asks: the lease ends them. (Asking would renew it, so only the number is looked at.)
    await until(async () => (await client.status()).running === 0);
    expect(await client.job('one', forgotten.job, 'status')).toMatchObject({
      state: 'ended',
      verdict: { killed_reason: 'lease' },
    });
    expect(await client.start({ ...t, command: 'rm -rf /' })).toMatchObject({
      state: 'ended',
      verdict: { status: 'blocked', rule: 'destructive-delete' },
    });
  });

  it('shares its slots between tenants, and refuses one that has too many waiting', async () => {
    const { runner } = await start({ YM_EXECUTOR_SHELL_CONCURRENCY: '1', YM_EXECUTOR_SHELL_TENANT_WAITING: '3' });
    const done: string[] = [];
    const run = (tenant: string): Promise<unknown> =>
      runner.client.run({ tenant, workspace: 'w', command: 'sleep 1.5' }).then(() => done.push(tenant));
    const all = [run('one'), run('one'), run('one'), run('one')];
    await until(async () => (await runner.client.status()).waiting === 3);
    await expect(run('one')).rejects.toMatchObject({ class: 'EXHAUSTED', retryAfterMs: 1000 });
    all.push(run('two'));
    await Promise.all(all);
    expect(done.indexOf('two')).toBeLessThanOrEqual(2);
  });

  it('lets running commands end when it is told to end, and takes no new one', async () => {
    const { runner } = await start();
    const last = runner.client.run({ ...t, command: 'sleep 0.5; echo done' });
    await until(async () => (await runner.client.status()).running === 1);
    process.kill(runner.pid, 'SIGTERM');
    await sleep(50);
    await expect(runner.client.run({ ...t, command: 'true' })).rejects.toMatchObject({ class: 'UNAVAILABLE' });
    expect((await last).stdout).toBe('done\n');
    expect(await runner.exited).toBe(0);
  });

  it('ends what outgrows its disk, its memory or its CPU time', async () => {
    const { runner } = await start({ YM_EXECUTOR_SHELL_TENANT_CPU_S: '2' });
    const run = (tenant: string, command: string, limits = {}): ReturnType<typeof runner.client.run> =>
      runner.client.run({ tenant, workspace: 'w', command, limits: { timeout_ms: 25_000, ...limits } });
    const [disk, memory, cpu] = await Promise.all([
      run('disk', 'for i in {1..400}; do head -c 2000000 /dev/zero > f$i; sleep 0.02; done; echo all', { disk_mb: 40 }),
      run('memory', 'for i in 1 2 3 4; do (head -c 60000000 /dev/zero | tail -n 1 | sleep 20) & done; wait; echo all', {
        memory_mb: 100,
      }),
      run('cpu', 'while :; do :; done'),
    ]);
    expect(disk.verdict).toMatchObject({ status: 'killed', killed_reason: 'disk' });
    expect(memory.stdout).not.toContain('all');
    expect(cpu.verdict).toMatchObject({ status: 'killed', killed_reason: 'cpu' });
    // The window is used up for the next command too, and only for this tenant.
    expect((await run('cpu', 'true')).verdict).toMatchObject({ status: 'blocked', rule: 'cpu-quota' });
    expect((await run('disk', 'rm -f f*; echo tidy')).stdout).toBe('tidy\n');
  });

  it('does not let a workspace grow over its limit in small steps, and lets it be tidied up', async () => {
    const { runner } = await start();
    const run = (command: string): ReturnType<typeof runner.client.run> =>
      runner.client.run({ ...t, command, limits: { disk_mb: 20 } });
    const seen = [];
    for (let i = 0; i < 12; i++) seen.push((await run(`head -c 12000000 /dev/zero > g${i}; sleep 0.3`)).verdict);
    expect(seen.at(-1)).toMatchObject({ status: 'blocked', rule: 'disk-quota' });
    expect(seen.filter(({ killed_reason: reason }) => reason === 'disk').length).toBeGreaterThan(0);
    // Over its limit, but not by so much, a workspace can be tidied up by a command.
    expect((await runner.client.run({ ...t, command: 'rm -f g*; ls', limits: { disk_mb: 30 } })).verdict).toMatchObject(
      { status: 'ok', exit_code: 0 },
    );
    expect((await run('echo x > y; cat y')).stdout).toBe('x\n');
  });

  it('refuses to serve, and says what to change, where no sandbox can be made', async () => {
    await expect(start({ YM_EXECUTOR_SHELL_BWRAP: '/nonexistent/bwrap' })).rejects.toMatchObject({
      class: 'UNAVAILABLE',
      code: 'YM-SHELL-CONTAINMENT',
      message: expect.stringContaining('YM_EXECUTOR_SHELL_BWRAP') as string,
    });
    const dir = mkdtempSync(join(tmpdir(), 'yardmaster-runner-'));
    folders.push(dir);
    const fake = join(dir, 'bwrap');
    const says = async (message: string): Promise<string> => {
      writeFileSync(fake, `#!/bin/sh\necho "bwrap: ${message}" >&2\nexit 1\n`, { mode: 0o755 });
      return start({ YM_EXECUTOR_SHELL_BWRAP: fake }, dir).then(
        () => 'it served',
        (error: Error) => error.message,
      );
    };
    expect(await says("Can't mount proc on /newroot/proc: Operation not permitted")).toContain('procMount: Unmasked');
    expect(await says('No permissions to create new namespace')).toContain('unprivileged_userns_clone');
    expect(await says('setting up uid map: Permission denied')).toContain('apparmor_restrict_unprivileged_userns');
    expect(
      await says('Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)'),
    ).toContain('max_user_namespaces');
  }, 120_000);

  it('gives a result and leaves nothing behind when a stage fails under it', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'yardmaster-runner-'));
    folders.push(dir);
    const link = join(dir, 'bwrap');
    symlinkSync(execFileSync('/bin/sh', ['-c', 'command -v bwrap'], { encoding: 'utf8' }).trim(), link);
    const { runner } = await start({ YM_EXECUTOR_SHELL_BWRAP: link }, dir);
    const pipes = (): string[] => readdirSync(`/proc/${runner.pid}/fd`);
    const m = marker();
    await runner.client.run({ ...t, command: 'true' });
    const before = pipes().length;
    // The workspace goes away under a running command; the sandbox cannot be started; the workspace cannot be made.
    const moved = runner.client.run({ ...t, command: `exec -a ${m} bash -c 'sleep 0.5; ls; echo x > f'` });
    await until(() => running(m));
    rmSync(join(dir, 'workspaces', 'one', 'w'), { recursive: true });
    expect((await moved).verdict).toMatchObject({ status: 'ok', exit_code: 1 });
    rmSync(link);
    expect((await runner.client.run({ ...t, command: `exec -a ${m} sleep 60` })).verdict).toMatchObject({
      status: 'error',
      stage: 'execute',
      exit_code: null,
    });
    writeFileSync(join(dir, 'workspaces', 'two'), 'a file in its place');
    expect((await runner.client.run({ ...t, tenant: 'two', command: 'true' })).verdict).toMatchObject({
      status: 'blocked',
      rule: 'workspace',
    });
    expect(running(m)).toBe(false);
    await until(() => pipes().length <= before);
    expect(readdirSync(join(dir, 'runner.sock.state', `run-${runner.pid}`, 'pipes')).length).toBeGreaterThan(0);
  });

  it('ends with the process that started it, however that ended', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'yardmaster-runner-'));
    folders.push(dir);
    mkdirSync(join(dir, 'workspaces'));
    const m = marker();
    const client = new URL('../../dist/runner-client/start-runner.js', import.meta.url).href;
    const code = `
      const { startRunner } = await import(${JSON.stringify(client)});
      const r = await startRunner({ YM_EXECUTOR_SHELL_SOCKET: ${JSON.stringify(join(dir, 's'))}, YM_WORKSPACES: ${JSON.stringify(join(dir, 'workspaces'))} });
      console.log(r.pid);
      await r.client.run({ tenant: 't', workspace: 'w', command: 'exec -a ${m} sleep 300' });`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pid = await new Promise<number>((resolve) =>
      parent.stdout.once('data', (chunk: Buffer) => resolve(Number(chunk.toString()))),
    );
    await until(() => running(m));
    parent.kill('SIGKILL');
    await until(() => !running(m) && !existsSync(`/proc/${pid}`), 5000);
    await until(() => !existsSync(join(dir, 's')));
  });

  it('keeps its socket and state to its user', async () => {
    const { dir } = await start();
    expect(statSync(join(dir, 'runner.sock')).mode & 0o007).toBe(0);
    expect(statSync(join(dir, 'runner.sock.state')).mode & 0o077).toBe(0);
  });
});
