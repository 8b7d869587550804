import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { newId, subjects, tenantId, ToolCallSchema, type ToolResult, ToolResultSchema } from '@yardmaster/contracts';
import { argsHash } from '@yardmaster/executor-kit';
import { ordinaryUser, type Servers, startServers, until } from '@yardmaster/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';

// The real executor with its runner, from the built files, behind a real NATS; it is killed at the borders of a call.
const TENANT = tenantId('acme');
const ACK_WAIT_MS = 1_000;
const user = ordinaryUser(new URL('../dist/main.js', import.meta.url).pathname);
let servers: Servers;
let setup: Bus;
let dispatcher: Bus;
/** Holds the workspaces, the password and, as the executor's `tmp`, whatever it makes for itself. */
let dir = '';
const children: ChildProcess[] = [];

beforeAll(async () => {
  servers = await startServers({ executors: ['shell'] });
  const login = (name: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(name) });
  [setup, dispatcher] = (await Promise.all([login('setup'), login('dispatcher')])) as [Bus, Bus];
  await ensureTopology(setup, { kinds: ['shell'], ackWaitMs: ACK_WAIT_MS });
});
afterAll(async () => {
  await Promise.all([setup, dispatcher].map((bus) => bus.close()));
  await servers.stop();
});
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'yardmaster-kills-'));
  for (const name of ['workspaces', 'tmp']) mkdirSync(join(dir, name));
  writeFileSync(join(dir, 'password'), servers.nats.login('executor-shell').pass, { mode: 0o600 });
  if (typeof user !== 'string' && process.getuid?.() === 0)
    execFileSync('chown', ['-R', `${user.uid}:${user.uid}`, dir]);
});
afterEach(async () => {
  for (const child of children.splice(0)) await end(child, 'SIGTERM');
  rmSync(dir, { recursive: true, force: true });
});

/** Starts an executor and waits until it is ready. */
async function start(failpoint = ''): Promise<ChildProcess> {
  if (typeof user === 'string') throw new Error(user);
  const [program, ...args] = user.command;
  const child = spawn(program!, [...args, user.entry], {
    env: {
      PATH: process.env['PATH'],
      TMPDIR: join(dir, 'tmp'),
      YM_NATS_URL: servers.natsUrl,
      YM_NATS_USER: 'executor-shell',
      YM_NATS_PASSWORD_FILE: join(dir, 'password'),
      YM_WORKSPACES: join(dir, 'workspaces'),
      YM_EXECUTOR_SHELL_ACK_WAIT_MS: String(ACK_WAIT_MS),
      YM_PARENT_PID: String(process.pid),
      ...(failpoint === '' ? {} : { YM_FAILPOINT: failpoint }),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  let said = '';
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-8_000)));
  await until(() => said.includes('"msg":"ready"') || child.exitCode !== null, { timeoutMs: 30_000 });
  if (child.exitCode !== null) throw new Error(`the executor did not start: ${said}`);
  return child;
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

async function send(name: string, args: object, tenant = TENANT) {
  const argumentsJson = JSON.stringify(args);
  const call = {
    ...{ name, argumentsJson, runId: newId(), callId: '1-0', nonce: newId(), argsHash: argsHash(argumentsJson) },
    ...{ historySeq: 7n, tenant: tenant as string, workspace: 'main', effect: '' },
  };
  await dispatcher.enqueue(subjects.tool('shell', tenant), ToolCallSchema, call);
  return call;
}

/** The result of a call as its dispatcher gets it; there is one at most. */
function resultOf({ tenant, runId, callId, nonce }: Awaited<ReturnType<typeof send>>): Promise<ToolResult> {
  const subject = subjects.result(tenantId(tenant), runId, callId, nonce);
  return until(async () => (await dispatcher.getStored('YM_RES', subject, ToolResultSchema))?.message, {
    timeoutMs: 30_000,
    everyMs: 50,
    why: 'the call got no result',
  });
}
const ask = async (name: string, args: object, tenant = TENANT) => resultOf(await send(name, args, tenant));

const marker = (): string => `ym-kill-${process.pid}-${Math.random().toString(36).slice(2)}`;
const running = (text: string): boolean =>
  readdirSync('/proc').some((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes(text);
    } catch {
      return false;
    }
  });
/** Processes in whose mounts a folder of ours is shown: a sandbox's mounts last as long as somebody is in them. */
const sandboxed = (): string[] =>
  readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/mountinfo`, 'utf8').includes(dir);
    } catch {
      return false;
    }
  });
const folders = (): string[] => readdirSync(join(dir, 'tmp')).filter((name) => name.startsWith('ym-shell-'));
const workspace = (): string[] => {
  try {
    return readdirSync(join(dir, 'workspaces', TENANT, 'main')).toSorted();
  } catch {
    return [];
  }
};
/** Leaves a daemon behind and says so in a file; ends after a second. */
const script = (mark: string): string =>
  `(setsid bash -c 'exec -a ${mark} sleep 300' &) ; echo begun >> log; sleep 1; echo ended >> log`;

const UNKNOWN = { ok: false, reason: 'interrupted', outcomeUnknown: true };

/** Every border of a call, and what is then known of a command: its result, and how far it has come. */
const BORDERS = {
  // Claimed, and nothing given to the runner.
  'executor.claimed': { result: UNKNOWN, log: '' },
  'executor.command.running': { result: UNKNOWN, log: 'begun\n' },
  // The runner has answered, and nobody was told.
  'executor.effect.done': { result: UNKNOWN, log: 'begun\nended\n' },
  // Told, and the call is still in the queue.
  'executor.result.published': { result: { ok: true, reason: '', outcomeUnknown: false }, log: 'begun\nended\n' },
} as const;

it.each(Object.entries(BORDERS))(
  'killed at %s: the call gets its one result, the command is not run again, and nothing of it is left',
  async (border, { result, log }) => {
    const first = await start(border);
    const died = once(first, 'exit');
    const mark = marker();
    const call = await send('shell_run', { command: script(mark) });
    expect(await died).toEqual([null, 'SIGKILL']);
    // With no other executor there: the runner sees that its executor is gone.
    await until(() => !running(mark) && !running(join(dir, 'tmp')) && sandboxed().length === 0, { timeoutMs: 15_000 });

    const next = await start();
    expect(await resultOf(call)).toMatchObject(result);
    // An answered call leaves the queue, or it would be run by whoever comes next.
    await until(async () => {
      const answer = await setup.nc.request('$JS.API.STREAM.INFO.YM_TOOL_SHELL', '');
      return answer.json<{ state: { messages: number } }>().state.messages === 0;
    });
    // Its own folder, and none of the dead.
    expect(folders()).toHaveLength(1);
    expect(statSync(join(dir, 'tmp', folders()[0]!, 'runner.sock')).isSocket()).toBe(true);
    // Another command finds the workspace as the first has left it, which has not been run again meanwhile.
    expect(await ask('shell_run', { command: 'cat log 2>/dev/null; true' })).toMatchObject({
      ok: true,
      output: log === '' ? '(no output)' : log.trimEnd(),
    });
    expect(workspace()).toEqual(log === '' ? [] : ['log']);
    await end(next, 'SIGTERM');
    expect([running(mark), readdirSync(join(dir, 'tmp'))]).toEqual([false, []]);
  },
  120_000,
);

it('a call goes to the executor that is left when the other one is killed', async () => {
  const first = await start('executor.command.running');
  const died = once(first, 'exit');
  const mark = marker();
  const call = await send('shell_run', { command: script(mark) });
  const second = start();
  expect(await died).toEqual([null, 'SIGKILL']);
  await second;
  expect(await resultOf(call)).toMatchObject(UNKNOWN);
  await until(() => !running(mark));
  expect(await ask('shell_run', { command: 'cat log' })).toMatchObject({ ok: true, output: 'begun' });
}, 120_000);

const jobOf = ({ output }: ToolResult): string => /job_[0-9a-f]+/.exec(output)![0];

it('a background job of a killed executor is told as lost, with what it had written, and only to its tenant', async () => {
  const first = await start();
  const mark = marker();
  const started = await ask('shell_run', {
    command: `echo line one; exec -a ${mark} sleep 300`,
    background: true,
  });
  expect(started).toMatchObject({ ok: true });
  const job = jobOf(started);
  await until(() => running(mark));
  await until(async () => (await ask('shell_job', { job, action: 'output' })).output.includes('line one'));
  expect(sandboxed()).not.toEqual([]);
  // The other one is there already and has never heard of the job.
  const second = await start();
  await end(first, 'SIGKILL');
  const foreign = await ask('shell_job', { job, action: 'output' }, tenantId('other'));
  expect(foreign).toMatchObject({ ok: false, reason: 'YM-SHELL-NO-JOB' });
  const lost = await ask('shell_job', { job, action: 'output' });
  expect(lost).toMatchObject({ ok: false, reason: 'cancelled' });
  expect(lost.output).toContain(`job ${job}: lost`);
  expect(lost.output).toContain('line one');
  expect(JSON.parse(lost.verdictJson)).toMatchObject({ state: 'lost', status: 'cancelled' });
  expect([running(mark), sandboxed(), folders().length]).toEqual([false, [], 1]);
  // It stays known to whoever comes next, after an orderly end too.
  await end(second, 'SIGTERM');
  await start();
  expect((await ask('shell_job', { job, action: 'status' })).output).toContain(`job ${job}: lost`);
  expect(await ask('shell_job', { job: `job_${'0'.repeat(18)}`, action: 'status' })).toMatchObject({
    ok: false,
    reason: 'YM-SHELL-NO-JOB',
  });
}, 120_000);

it('a background job whose executor and runner are killed together is told as lost, with its log of some seconds ago', async () => {
  const first = await start();
  const mark = marker();
  const started = await ask('shell_run', { command: `echo line one; exec -a ${mark} sleep 300`, background: true });
  const job = jobOf(started);
  const records = join(dir, 'tmp', folders()[0]!, 'state', 'jobs');
  await until(() => readFileSync(join(records, job), 'utf8').includes('line one'), { timeoutMs: 20_000 });
  const runner = readdirSync(dirname(records)).find((name) => name.startsWith('run-'))!;
  process.kill(Number(runner.slice('run-'.length)), 'SIGKILL');
  await end(first, 'SIGKILL');
  await until(() => !running(mark));
  await start();
  const lost = await ask('shell_job', { job, action: 'output' });
  expect(lost.output).toMatch(new RegExp(`^job ${job}: lost\n.*runner-ended.*\nline one$`));
}, 120_000);
