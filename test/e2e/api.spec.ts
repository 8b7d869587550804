import { setTimeout as sleep } from 'node:timers/promises';
import { Yardmaster } from '@yardmaster/client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { OVER, type Stack, startStack } from './harness.js';

const lastUser = (messages: readonly { role: string; content?: unknown }[]) =>
  String(messages.findLast((message) => message.role === 'user')?.content ?? '');

let yard: Stack;
let ym: Yardmaster;
/** When the model was asked about what, in order. */
const asked: string[] = [];

beforeAll(async () => {
  yard = await startStack({
    native: {
      native: true,
      models: ['demo'],
      script: async ({ messages }) => {
        const last = messages.at(-1)!;
        const user = lastUser(messages);
        asked.push(user);
        if (user.startsWith('slow'))
          return last.role === 'tool'
            ? { text: 'slept' }
            : { calls: [{ name: 'shell_run', arguments: { command: 'echo started > began; sleep 60' } }] };
        if (user.startsWith('wait')) await sleep(600);
        return { text: `answer to ${user}` };
      },
    },
  });
  ym = new Yardmaster({ apiUrl: yard.url, apiKey: yard.key });
});
afterAll(() => yard?.stop());

const state = async (id: string) => (await ym.runs.get(id)).state;

it('a cancel ends the command, and the conversation goes on', async () => {
  const run = await ym.runs.start('slow please');
  for await (const event of run.events()) if (event.type === 'tool.requested') break;
  await sleep(1_000);
  const began = performance.now();
  await run.cancel('enough');
  const ended = await run.result();
  expect(performance.now() - began).toBeLessThan(5_000);
  expect(ended).toMatchObject({ state: 'cancelled' });
  const items = [];
  for await (const item of ym.conversations.messages(ended.conversation_id)) items.push(item.type);
  expect(items).toEqual(['chat', 'assistant_tool_calls', 'tool_results']);
  const next = await ym.runs.start({ input: 'and now?', conversation_id: ended.conversation_id });
  expect(await next.result()).toMatchObject({ state: 'completed', output: 'answer to and now?' });
});

it('a second run of a conversation waits for the first, or is refused, or ends it', async () => {
  const first = await ym.runs.start('wait one');
  const conversation_id = first.run.conversation_id;
  const second = await ym.runs.start({ input: 'two', conversation_id });
  await expect(ym.runs.start({ input: 'x', conversation_id, on_busy: 'reject' })).rejects.toMatchObject({
    status: 409,
    code: 'YM-CONVERSATION-BUSY',
  });
  const cancelled = await ym.runs.start({ input: 'never', conversation_id });
  await cancelled.cancel();
  expect(await second.result()).toMatchObject({ state: 'completed' });
  expect(await state(first.id)).toBe('completed');
  expect((await cancelled.result()).state).toBe('cancelled');
  expect(asked.indexOf('two')).toBeGreaterThan(asked.indexOf('wait one'));
  expect(asked).not.toContain('never');
  const third = await ym.runs.start({ input: 'wait three', conversation_id });
  const fourth = await ym.runs.start({ input: 'four', conversation_id, on_busy: 'interrupt' });
  expect((await fourth.result()).state).toBe('completed');
  expect((await third.result()).state).toBe('cancelled');
});

it('cancels that race with the end are accepted or refused, and what was said is what happened', async () => {
  const runs = await Promise.all(
    Array.from({ length: 40 }, async (_, i) => {
      const run = await ym.runs.start(`race ${i}`);
      await sleep(Math.random() * 60);
      const accepted = await run.cancel().then(
        () => true,
        (error: { status: number }) => {
          expect(error.status).toBe(409);
          return false;
        },
      );
      return { run, accepted };
    }),
  );
  for (const { run, accepted } of runs) {
    const types: string[] = [];
    for await (const { type } of run.events()) types.push(type);
    const ended = await state(run.id);
    expect(types.filter((type) => OVER.includes(type.slice(4)))).toEqual([`run.${ended}`]);
    expect([accepted, ended]).toEqual([accepted, accepted ? 'cancelled' : 'completed']);
  }
}, 60_000);

it('leaving is not cancelling', async () => {
  const run = await ym.runs.start('wait here');
  for await (const event of run.events()) {
    expect(event.type).toBe('run.started');
    break;
  }
  await expect.poll(() => state(run.id), { timeout: 10_000 }).toBe('completed');
});

it('what a request names and is not there is named, with what is', async () => {
  await expect(ym.runs.start({ input: 'x', tools: ['shell_run', 'file_red'] })).rejects.toMatchObject({
    status: 404,
    code: 'YM-TOOL-UNKNOWN',
    problem: { unknown: ['file_red'], did_you_mean: 'file_read' },
  });
  await expect(ym.runs.start({ input: 'x', model: 'dmo' })).rejects.toMatchObject({
    status: 404,
    code: 'YM-MODEL-UNKNOWN',
    problem: { known: ['demo'] },
  });
  await expect(ym.runs.start({ input: 'x', agent: 'nobody' })).rejects.toMatchObject({ code: 'YM-AGENT-UNKNOWN' });
});

it('tools and providers can be looked at and tried', async () => {
  const names: string[] = [];
  for await (const tool of ym.tools.list()) names.push(tool.name);
  expect(names).toEqual(expect.arrayContaining(['shell_run', 'file_read', 'file_edit']));
  expect((await ym.tools.search('change text in a file', 3)).map(({ tool }) => tool.name)).toContain('file_edit');
  expect(await ym.tools.validate('file_read', { path: 'a', offset: '3' })).toEqual({
    ok: true,
    arguments: { path: 'a', offset: 3 },
  });
  expect(await ym.tools.validate('file_read', {})).toMatchObject({ ok: false });
  const { default_model, items } = await ym.providers.list();
  expect(items.map(({ name, health }) => [name, health])).toEqual([['native', 'up']]);
  const plan = await ym.providers.plan({ model: default_model ?? 'demo' });
  expect(plan.candidates[0]).toMatchObject({ provider: 'native', usable: true });
});
