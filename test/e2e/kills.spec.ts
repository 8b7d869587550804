import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stack, startStack, wellFormed } from './harness.js';

let yard: Stack;
beforeAll(async () => {
  yard = await startStack(
    {
      native: {
        native: true,
        script: ({ messages }) => {
          const results = messages.filter((message) => message.role === 'tool').length;
          if (results < 3)
            return {
              calls: [{ name: 'shell_run', arguments: { command: `sleep 0.2; echo ${results} >> log.txt` } }],
              delayMs: 50,
            };
          return { text: 'done' };
        },
      },
    },
    { replicas: { dispatcher: 2 } },
  );
});
afterAll(() => yard?.stop());

async function history(conversation: string) {
  const page = (await (await yard.api(`/v1/conversations/${conversation}/messages?limit=100`)).json()) as {
    items: { message?: unknown }[];
  };
  return page.items.map((item) => (item.message ?? item) as Parameters<typeof wellFormed>[0][number]);
}

it('a run whose dispatcher is killed in the middle is completed by another one', async () => {
  const runs = await Promise.all(Array.from({ length: 4 }, () => yard.start({ input: 'go' })));
  await expect
    .poll(
      async () =>
        (await Promise.all(runs.map((run) => yard.events(run.id)))).every((events) =>
          events.some((event) => event.type === 'tool.completed'),
        ),
      { timeout: 20_000 },
    )
    .toBe(true);
  process.kill(yard.stack.pids.get('dispatcher')!, 'SIGKILL');
  for (const run of runs) {
    const done = await yard.settled(run.id, 60_000);
    expect(done).toMatchObject({ state: 'completed', output: 'done' });
    const events = await yard.events(run.id);
    expect(events.map((event) => event.id)).toEqual(events.map((_, index) => index + 1));
    expect(events.filter((event) => event.type.startsWith('run.') && event.type !== 'run.started')).toHaveLength(1);
    expect(wellFormed(await history(done.conversation_id))).toBe(true);
  }
});

it.each(['api', 'dispatcher', 'router', 'registry', 'executor-files', 'executor-shell'])(
  'nothing is lost when %s is ended under load',
  async (service) => {
    const runs = await Promise.all(Array.from({ length: 4 }, () => yard.start({ input: 'go' })));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const pid = yard.stack.pids.get(service)!;
    process.kill(pid, 'SIGTERM');
    // It is started again under the same name; until then the API may be away.
    await expect.poll(() => yard.stack.pids.get(service) !== pid, { timeout: 20_000 }).toBe(true);
    for (const run of runs) {
      const done = await expect
        .poll(() => yard.get(run.id).catch(() => undefined), { timeout: 60_000, interval: 200 })
        .toMatchObject({ state: expect.stringMatching(/completed|failed|incomplete|cancelled/) as unknown as string })
        .then(() => yard.get(run.id));
      expect(done).toMatchObject({ state: 'completed', output: 'done' });
      expect(wellFormed(await history(done.conversation_id))).toBe(true);
    }
  },
);

it.each(['nats', 'redis'] as const)('a %s that ends by itself is started again, and the runs go on', async (server) => {
  const runs = await Promise.all(Array.from({ length: 2 }, () => yard.start({ input: 'go' })));
  const before = yard.stack[server].pid;
  process.kill(before, 'SIGKILL');
  const state = (run: string) =>
    yard.get(run).then(
      (view) => view.state,
      () => 'away',
    );
  for (const run of runs) await expect.poll(() => state(run.id), { timeout: 60_000 }).toBe('completed');
  expect(yard.stack[server].pid).not.toBe(before);
});
