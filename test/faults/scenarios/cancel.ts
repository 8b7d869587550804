import { setTimeout as sleep } from 'node:timers/promises';
import { DEMO_TENANT, TERMINAL, twoCalls } from '../rig.ts';
import { history, resultsIn, type Scenario } from '../scenario.ts';

export const cancel: Record<string, Scenario> = {
  D20: {
    async run(rig, must) {
      const { openStream } = await import('../sse.ts');
      const run = await rig.start({ input: rig.task(twoCalls('ro', { ms: 500 })) });
      const client = openStream(rig, run.id, { limit: 1 });
      await client.ended(10_000 * rig.slack);
      const done = await rig.settled(run.id);
      must(done.state === 'completed', `the run is ${done.state}`);
      must(client.events.length === 1, `the client saw ${client.events.length} events`);
    },
  },
  D21: {
    async run(rig, must) {
      const run = await rig.start({ input: rig.task(twoCalls('slow', { n: 60 })) });
      await rig.until(() => rig.starts(run.id) === 1 && rig.livingCommands().length > 0, 'the command runs');
      await sleep(1_000);
      const asked = performance.now();
      const answer = await rig.api(`/v1/runs/${run.id}/cancel`, { method: 'POST', json: {} });
      must(answer.status === 202, `cancel answers ${answer.status}`);
      const done = await rig.settled(run.id, { ms: 10_000 });
      const tookMs = performance.now() - asked;
      must(done.state === 'cancelled', `the run is ${done.state}`);
      must(tookMs < 2_000 * rig.slack, `it took ${Math.round(tookMs)} ms`);
      await rig.until(() => rig.livingCommands().length === 0, "the command's processes are gone", 2_000);
      const items = await history(rig, { tenant: DEMO_TENANT, conversation: run.conversation_id });
      const results = resultsIn(items);
      must(
        results.length === 1 && results[0]!.ok === false && /cancel/i.test(results[0]!.content),
        `the open call has not the one result that says so: ${JSON.stringify(results)}`,
      );
      const next = await rig.start({ input: rig.task(twoCalls('ro')), conversation_id: run.conversation_id });
      const second = await rig.settled(next.id);
      must(second.state === 'completed', `the second run is ${second.state} (${second.error?.message ?? ''})`);
    },
  },
  D22: {
    async run(rig, must) {
      const text = rig.task(() => ({ hang: true }));
      const run = await rig.start({ input: text });
      await rig.until(() => rig.asked(text).length === 1, 'the model is asked');
      await sleep(1_000);
      const request = rig.model.seen.find(({ body }) => JSON.stringify(body.messages).includes(text.trim()))!;
      const asked = performance.now();
      await rig.api(`/v1/runs/${run.id}/cancel`, { method: 'POST', json: {} });
      await rig.until(() => request.abandoned, "the provider's connection is closed", 1_000);
      const done = await rig.settled(run.id, { ms: 10_000 });
      must(done.state === 'cancelled', `the run is ${done.state}`);
      must(performance.now() - asked < 2_000 * rig.slack, `it took ${Math.round(performance.now() - asked)} ms`);
      await sleep(1_000);
      must(rig.asked(text).length === 1, `the provider was asked ${rig.asked(text).length} times`);
    },
  },
  D23: {
    async run(rig, must) {
      const answer = () => rig.task(() => ({ text: 'done' }));
      const statuses = new Map<string, number>();
      const others: string[] = [];
      let left = 200;
      const worker = async () => {
        while (left-- > 0) {
          const run = await rig.start({ input: answer() });
          await sleep(Math.random() * 20);
          statuses.set(run.id, (await rig.api(`/v1/runs/${run.id}/cancel`, { method: 'POST', json: {} })).status);
          if (left % 10 === 0) others.push((await rig.start({ input: answer() })).id);
        }
      };
      await Promise.all(Array.from({ length: 10 }, worker));
      for (const [id, status] of statuses) {
        must(status === 202 || status === 409, `a cancel was answered with ${status}`);
        const { state } = await rig.settled(id, { ms: 60_000 });
        must(TERMINAL.includes(state), `run ${id} is ${state}`);
        if (status === 202) must(state === 'cancelled', `run ${id} was to be cancelled and is ${state}`);
        if (status === 409) must(state === 'completed', `run ${id} was over before its cancel and is ${state}`);
      }
      for (const id of others)
        must(
          (await rig.settled(id, { ms: 60_000 })).state === 'completed',
          `run ${id} was not cancelled and is not completed`,
        );
      must(others.length >= 20, `only ${others.length} others`);
    },
  },
};
