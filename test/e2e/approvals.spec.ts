import { existsSync, readFileSync } from 'node:fs';
import { Bus } from '@yardmaster/bus';
import {
  apiKeyEntryName,
  type AuditRecord,
  BUCKETS,
  messages,
  mintApiKey,
  ROLES,
  STREAMS,
  subjects,
  tenantApprovalsName,
  tenantId,
} from '@yardmaster/contracts';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RunView } from '../api-views.ts';
import { type Stack, startStack } from './harness.js';

const demo = tenantId('demo');
/** Long enough for a restart of everything in between, on a busy machine. */
const PATIENCE_MS = 25_000;

interface Approval {
  call: string;
  tool: string;
  arguments: Record<string, unknown>;
  args_hash: string;
  state: string;
  reason: string | null;
}

let yard: Stack;
let setup: Bus;
let forgotten: RunView;

const policy = (body: Record<string, unknown>) => yard.api('/v1/tenants/demo/approvals', { method: 'PUT', json: body });
const POLICY = { by_tool: { shell_run: 'always', file_write: 'session' } };

beforeAll(async () => {
  yard = await startStack(
    {
      native: {
        native: true,
        // The task is the call: `shell_run {"command":"…"}`; the answer is what came of it.
        script: ({ messages: said }) => {
          const last = said.at(-1)!;
          if (last.role === 'tool') return { text: `it says: ${String(last.content)}` };
          const [, name, args] = /^(\w+) (\{.*\})$/s.exec(String(last.content)) ?? [];
          return { calls: [{ name: name!, arguments: args! }] };
        },
      },
    },
    { env: { YM_DISPATCHER_APPROVAL_TIMEOUT_MS: String(PATIENCE_MS) } },
  );
  setup = await Bus.connect({ url: yard.stack.nats.url, ...yard.stack.nats.login('setup') });
  expect((await policy(POLICY)).status).toBe(200);
  // Nobody will decide about this one.
  forgotten = await waiting(shell('echo forgotten > forgotten.txt'));
});
afterAll(async () => {
  await setup?.close();
  await yard?.stop();
});

const shell = (command: string) => `shell_run ${JSON.stringify({ command })}`;
const write = (path: string) => `file_write ${JSON.stringify({ path, content: 'x' })}`;
const settled = async (input: string, more: Record<string, unknown> = {}) =>
  yard.settled((await yard.start({ input, ...more })).id);
async function waiting(input: string, more: Record<string, unknown> = {}): Promise<RunView> {
  const run = await settled(input, more);
  expect(run, JSON.stringify(run)).toMatchObject({ state: 'waiting_approval' });
  return run;
}
const approvals = async (run: RunView) =>
  ((await (await yard.api(`/v1/runs/${run.id}/approvals`)).json()) as { items: Approval[] }).items;
async function decide(run: RunView, body: Record<string, unknown>): Promise<Response> {
  const [approval] = await approvals(run);
  return yard.api(`/v1/runs/${run.id}/approvals/${approval!.call}`, {
    json: { args_hash: approval!.args_hash, ...body },
  });
}
const over = async (run: RunView) => {
  await expect.poll(async () => (await yard.get(run.id)).state, { timeout: 30_000 }).not.toBe('waiting_approval');
  return yard.settled(run.id);
};
const audit = async (): Promise<AuditRecord[]> => {
  const found: AuditRecord[] = [];
  for await (const { message } of setup.readSubject(STREAMS.audit.name, subjects.audit(demo), messages.audit))
    found.push(message);
  return found;
};

it('a call is asked about with what it would do; the first decision about exactly that counts', async () => {
  const run = await waiting(shell('echo granted'));
  const [approval] = await approvals(run);
  expect(approval).toMatchObject({
    tool: 'shell_run',
    arguments: { command: 'echo granted' },
    state: 'waiting',
    reason: 'needs approval',
  });
  const other = await decide(run, { decision: 'approve', args_hash: 'ab'.repeat(32) });
  expect([other.status, ((await other.json()) as { code: string }).code]).toEqual([409, 'YM-APPROVAL-ARGS']);
  expect((await decide(run, { decision: 'approve' })).status).toBe(200);
  expect((await over(run)).output).toContain('it says: granted');
  const again = await yard.api(`/v1/runs/${run.id}/approvals/${approval!.call}`, {
    json: { decision: 'deny', args_hash: approval!.args_hash },
  });
  expect([again.status, ((await again.json()) as { code: string }).code]).toEqual([409, 'YM-APPROVAL-DECIDED']);
});

it('a denied call is not run, and the model hears why', async () => {
  const run = await waiting(shell('echo denied > denied.txt'));
  expect((await decide(run, { decision: 'deny', reason: 'not on a Friday' })).status).toBe(200);
  const done = await over(run);
  expect(done.state).toBe('completed');
  expect(done.output).toContain('not on a Friday');
  expect(existsSync(yard.file('denied.txt'))).toBe(false);
});

it('of many who decide at the same time one is heard, and that is what happens', async () => {
  const run = await waiting(shell('echo raced >> raced.txt'));
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, index) => decide(run, { decision: index % 2 === 0 ? 'approve' : 'deny' })),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(7).fill(409)]);
  const { state } = (await answers.find(({ status }) => status === 200)!.json()) as { state: string };
  const done = await over(run);
  expect(done.state).toBe('completed');
  expect(existsSync(yard.file('raced.txt'))).toBe(state === 'approved');
  if (state === 'denied') expect(done.output).toContain('A person denied this call');
  else expect(readFileSync(yard.file('raced.txt'), 'utf8')).toBe('raced\n');
});

it('a yes to a call of a run that was cancelled runs nothing', async () => {
  const run = await waiting(shell('echo cancelled > cancelled.txt'));
  const [approval] = await approvals(run);
  expect((await yard.api(`/v1/runs/${run.id}/cancel`, { method: 'POST' })).status).toBeLessThan(300);
  const late = await yard.api(`/v1/runs/${run.id}/approvals/${approval!.call}`, {
    json: { decision: 'approve', args_hash: approval!.args_hash },
  });
  // Heard before the dispatcher has closed the run, or too late for that: never acted on.
  expect([200, 404, 409]).toContain(late.status);
  await expect.poll(async () => (await yard.get(run.id)).state, { timeout: 30_000 }).toBe('cancelled');
  const after = await yard.api(`/v1/runs/${run.id}/approvals/${approval!.call}`, {
    json: { decision: 'approve', args_hash: approval!.args_hash },
  });
  expect([404, 409]).toContain(after.status);
  expect(existsSync(yard.file('cancelled.txt'))).toBe(false);
});

it('another tenant sees nothing of a call that waits, and cannot decide on it', async () => {
  const run = await waiting(shell('echo foreign > foreign.txt'));
  const [approval] = await approvals(run);
  const { key, entry } = await mintApiKey(tenantId('stranger'), { name: 'other', roles: [...ROLES] });
  await setup.kv(BUCKETS.tenants).put(apiKeyEntryName(tenantId('stranger'), entry.id), JSON.stringify(entry));
  const stranger = (path: string, init: Parameters<Stack['api']>[1] = {}) =>
    yard.api(path, { ...init, headers: { authorization: `Bearer ${key}` } });
  await expect.poll(async () => (await stranger('/v1/me')).status, { timeout: 10_000 }).toBe(200);
  expect((await stranger(`/v1/runs/${run.id}/approvals`)).status).toBe(404);
  const decided = await stranger(`/v1/runs/${run.id}/approvals/${approval!.call}`, {
    json: { decision: 'approve', args_hash: approval!.args_hash },
  });
  expect(decided.status).toBe(404);
  expect(await decided.text()).not.toContain(approval!.args_hash);
  expect((await stranger('/v1/tenants/demo/approvals')).status).toBeGreaterThanOrEqual(403);
  expect((await yard.get(run.id)).state).toBe('waiting_approval');
  expect((await decide(run, { decision: 'deny' })).status).toBe(200);
  expect((await over(run)).state).toBe('completed');
});

it('what needs no approval runs at once', async () => {
  expect((await settled('file_list {}')).state).toBe('completed');
});

it('a yes for the conversation holds in it and nowhere else', async () => {
  const run = await waiting(write('first.txt'));
  await decide(run, { decision: 'approve', remember: 'session' });
  await over(run);
  const same = await settled(write('second.txt'), { conversation_id: run.conversation_id });
  expect(same.state).toBe('completed');
  expect(readFileSync(yard.file('second.txt'), 'utf8')).toBe('x');
  await waiting(write('third.txt'));
});

it('a yes with a pattern covers what matches all of every argument, and nothing else', async () => {
  const run = await waiting(shell('echo one'));
  await decide(run, { decision: 'approve', remember: 'always', scope: { arguments: { '/command': 'echo [a-z]+' } } });
  await over(run);
  expect((await settled(shell('echo two'))).output).toContain('it says: two');
  const [more] = await approvals(await waiting(shell('echo three; rm -f x')));
  expect(more!.reason).toMatch(/its pattern for \/command does not match/);
  await waiting(`shell_run ${JSON.stringify({ command: 'echo four', cwd: 'sub' })}`);
});

it('a parked run is decided after every service was killed', async () => {
  const run = await waiting(shell('echo survived; echo once >> restarts.txt'));
  for (const pid of yard.stack.pids.values()) process.kill(pid!, 'SIGKILL');
  await expect
    .poll(async () => (await decide(run, { decision: 'approve' })).status, { timeout: 30_000, interval: 200 })
    .toBe(200);
  const done = await over(run);
  expect(done).toMatchObject({ state: 'completed' });
  expect(done.output).toContain('survived');
  expect(readFileSync(yard.file('restarts.txt'), 'utf8')).toBe('once\n');
});

it('what an administrator forbids is not run, whatever was granted before', async () => {
  const run = await waiting(shell('echo five > five.txt; echo five'));
  await policy({ ...POLICY, denied: ['shell_run'] });
  await expect
    .poll(async () => (await settled(shell('echo six'))).output, { timeout: 10_000 })
    .toMatch(/unknown_tool|not approved/i);
  await decide(run, { decision: 'approve' });
  expect((await over(run)).output).toMatch(/Not approved: /);
  expect(existsSync(yard.file('five.txt'))).toBe(false);
  await policy(POLICY);
});

it('a policy that cannot be read approves nothing', async () => {
  await setup.kv(BUCKETS.tenants).put(tenantApprovalsName(demo), '{"by_tool":{"shell_run":"mostly"}}');
  await expect
    .poll(async () => (await settled('file_list {}')).output, { timeout: 10_000 })
    .toContain('Not approved: the approval policy cannot be read');
  expect((await yard.api('/v1/tenants/demo/approvals')).status).toBe(409);
  await policy(POLICY);
  await expect
    .poll(async () => (await settled('file_list {}')).output, { timeout: 10_000 })
    .not.toContain('Not approved');
});

it('a policy with an unknown level is refused', async () => {
  expect((await policy({ by_tool: { shell_run: 'mostly' } })).status).toBe(400);
  expect((await policy({ by_category: { dangerous: 'deny' } })).status).toBe(400);
});

it('what nobody decides in time is not run', async () => {
  const done = await over(forgotten);
  expect(done.state).toBe('completed');
  expect(done.output).toMatch(/nobody decided in time/);
  expect(existsSync(yard.file('forgotten.txt'))).toBe(false);
}, 60_000);

it('all of it is in the audit, with who did it', async () => {
  const records = await audit();
  const [key] = records.filter(({ action }) => action === 'approvals.changed').map(({ actor }) => actor);
  expect(key).toMatch(/^[a-z0-9]+$/i);
  const outcomes = new Set(records.map(({ action, outcome, actor }) => `${action} ${outcome} ${actor}`));
  for (const expected of [
    'tool.approval ask policy',
    `tool.approval approved ${key}`,
    `tool.approval denied ${key}`,
    'tool.approval expired timeout',
    'tool.approval allow policy',
    `grant.given  ${key}`,
  ])
    expect(outcomes).toContain(expected);
  await expect(
    setup.nc.request(`$JS.API.STREAM.PURGE.${STREAMS.audit.name}`, '').then((reply) => reply.json()),
  ).resolves.toHaveProperty('error');
});
