import { readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectRedis } from '@yardmaster/conversation';
import type { Msg } from '@nats-io/transport-node';
import { ACK_WAIT_MS, DEMO_TENANT, LEASE_MS, type Rig, rounds, TERMINAL, twoCalls } from '../rig.ts';
import { history, type Scenario } from '../scenario.ts';
import { metaOf } from './ownership.ts';

/** The readiness of every process that tells it. */
async function readiness(rig: Rig): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const [name, line] of rig.stack.readyLines) {
    if (line === undefined) continue;
    const status = await fetch(`http://127.0.0.1:${line.healthPort}/readyz`).then(
      (response) => response.status,
      () => 0,
    );
    found.set(name, status);
  }
  return found;
}

/**
 * Kills Redis at a moment at which it has given all its writes to the kernel. Under `everysec` it holds them back for up
 * to two seconds while the disk is still busy with the last fsync: on a slow disk a SIGKILL then loses what a power cut
 * would lose, which is another fault (D37).
 */
async function killWritten(rig: Rig): Promise<void> {
  const redis = connectRedis({ url: rig.stack.redis.urlFor('dispatcher') });
  try {
    await rig.until(async () => {
      const info = await redis.info('persistence');
      const value = (name: string) => Number(new RegExp(`${name}:(\\d+)`).exec(info)?.[1] ?? 0);
      return value('aof_buffer_length') === 0 && value('aof_pending_bio_fsync') === 0;
    }, 'Redis has written everything');
    await rig.stack.redis.kill();
  } finally {
    redis.disconnect();
  }
}

export const stores: Record<string, Scenario> = {
  D10: {
    async run(rig, must) {
      const run = await rig.start({ input: rig.task(twoCalls('slow', { n: 4 })) });
      await rig.until(() => rig.starts(run.id) === 1, 'the tool runs');
      await sleep(1_000);
      await rig.stack.nats.kill();
      await sleep(1_500);
      const away = await readiness(rig);
      for (const [name, status] of away) must(status === 503, `${name} is ready (${status}) while NATS is away`);
      await sleep(500);
      await rig.stack.nats.startAgain();
      const back = performance.now();
      const done = await rig.settled(run.id, { ms: 15_000 });
      must(done.state === 'completed', `the run is ${done.state} (${done.error?.message ?? ''})`);
      must(
        performance.now() - back < 10_000 * rig.slack,
        `the run ended ${Math.round(performance.now() - back)} ms after the restart`,
      );
      must(rig.starts(run.id) === 1, `${rig.starts(run.id)} starts`);
      await rig.until(
        async () => [...(await readiness(rig)).values()].every((status) => status === 200),
        'every service is ready again',
      );
    },
  },
  D11: {
    async run(rig, must) {
      const heard: Msg[] = [];
      const deaf = rig.bus.hearRaw(`ym.tool.fault.${DEMO_TENANT}`, (message) => void heard.push(message));
      const run = await rig.start({ input: rig.task(twoCalls('effect')) });
      await rig.settled(run.id);
      deaf();
      const call = heard[0]!;
      const events = (await rig.events(run.id)).length;
      await rig.stack.nats.kill();
      await rig.stack.nats.startAgain();
      await rig.until(() => rig.bus.status() === 'connected', 'connected again');
      const ack = await rig.bus.nc.request(call.subject, call.data, { timeout: 5_000, headers: call.headers! });
      must(!/"error"/.test(ack.string()), `the server refused the message: ${ack.string()}`);
      const { quiet } = await import('../oracle.ts');
      await quiet(rig, []);
      must(rig.starts(run.id) === 1, `${rig.starts(run.id)} starts`);
      must((await rig.events(run.id)).length === events, 'the run has new events');
    },
  },
  D12: {
    async run(rig, must) {
      const runs = await Promise.all(Array.from({ length: 10 }, () => rig.start({ input: rig.task(rounds(5, 200)) })));
      await rig.until(() => runs.some(({ id }) => rig.starts(id) >= 2), 'some are in the middle');
      await killWritten(rig);
      await sleep(1_000);
      await rig.stack.redis.startAgain();
      await rig.stack.loadFunctions();
      for (const { id, conversation_id: conversation } of runs) {
        const done = await rig.settled(id, { ms: 30_000 });
        must(
          done.state === 'completed',
          `run ${id} is ${done.state} (${done.error?.code ?? ''} ${done.error?.message ?? ''})`,
        );
        const items = await history(rig, { tenant: DEMO_TENANT, conversation });
        must(items.length === 12, `the history of ${id} has ${items.length} items, not 12`);
        const calls = items.flatMap((item) =>
          item.type === 'assistant_tool_calls' ? item.tool_calls.map((call) => call.arguments) : [],
        );
        must(new Set(calls).size === calls.length, `run ${id} has a message twice`);
      }
    },
  },
  D13: {
    own: {},
    async run(rig, must) {
      const run = await rig.start({ input: rig.task(twoCalls('slow', { n: 5 })) });
      await rig.until(() => rig.starts(run.id) === 1, 'the tool runs');
      const fence = Number((await metaOf(rig, run))['fence']);
      await rig.stack.redis.kill();
      rmSync(join(rig.stack.redis.dir, 'appendonlydir'), { recursive: true, force: true });
      await rig.stack.redis.startAgain();
      await rig.stack.loadFunctions();
      const back = performance.now();
      const state = async () =>
        (await rig.api(`/v1/runs/${run.id}`)).json as { state?: string; error?: { code: string } };
      const limit = LEASE_MS + ACK_WAIT_MS + 5_000;
      await rig.until(async () => (await state()).state === 'failed', 'the run ends as failed', limit);
      const { error } = await state();
      must(error?.code === 'state_lost', `the run failed with ${error?.code}, not state_lost`);
      must(performance.now() - back < limit * rig.slack, 'it took too long');
      const next = await rig.start({ input: rig.task(twoCalls('ro')), conversation_id: run.conversation_id });
      const done = await rig.settled(next.id);
      must(done.state === 'completed', `a new run in the conversation is ${done.state}`);
      const after = Number((await metaOf(rig, run))['fence']);
      must(after > fence, `the fencing token was ${fence} and is ${after}`);
      await sleep(3 * ACK_WAIT_MS);
      const items = await history(rig, { tenant: DEMO_TENANT, conversation: run.conversation_id });
      must(items.length === 4, `the history has ${items.length} items: the former owner wrote, or the new run did not`);
    },
  },
  D37: {
    own: {},
    async run(rig, must) {
      // An argument is never sent twice, also not when the model is asked again.
      const text = rig.task(({ results, n }) =>
        results.length < 5 ? { calls: [{ name: 'ro', arguments: { x: `argument-${n}`, ms: 500 } }] } : { text: 'done' },
      );
      const run = await rig.start({ input: text });
      await rig.until(() => rig.starts(run.id) === 3, 'the third call runs');
      await rig.stack.redis.kill();
      const folder = join(rig.stack.redis.dir, 'appendonlydir');
      const newest = readdirSync(folder)
        .filter((file) => file.endsWith('.incr.aof'))
        .sort()
        .at(-1)!;
      truncateSync(join(folder, newest), Math.max(0, statSync(join(folder, newest)).size - 200));
      await rig.stack.redis.startAgain();
      await rig.stack.loadFunctions();
      const state = async () =>
        (await rig.api(`/v1/runs/${run.id}`)).json as { state?: string; error?: { code: string } };
      await rig.until(async () => TERMINAL.includes((await state()).state ?? ''), 'the run ends', 30_000);
      const { state: end, error } = await state();
      must(
        end === 'completed' || (end === 'failed' && error?.code === 'state_lost'),
        `the run is ${end} (${error?.code ?? ''})`,
      );
      const items = await history(rig, { tenant: DEMO_TENANT, conversation: run.conversation_id });
      items.forEach((item, index) => {
        if (item.type !== 'tool_results') return;
        const calls = items[index - 1];
        item.results.forEach((result, at) => {
          const call = calls?.type === 'assistant_tool_calls' ? calls.tool_calls[at] : undefined;
          const x = (JSON.parse(call?.arguments ?? '{}') as { x?: string }).x;
          must(
            !result.content.startsWith('ro ') || result.content.endsWith(` ${x}`),
            `the call with ${x} has the result "${result.content}"`,
          );
        });
      });
    },
  },
};
