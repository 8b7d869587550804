import { setTimeout as sleep } from 'node:timers/promises';
import { connectRedis } from '@yardmaster/conversation';
import { redisKeys } from '../oracle.ts';
import type { RunView } from '../../api-views.ts';
import { DEMO_TENANT, LEASE_MS, type Rig, TERMINAL, twoCalls } from '../rig.ts';
import { history, type Scenario } from '../scenario.ts';

/** The process of a dispatcher that holds a conversation, if one does. */
export async function ownerOf(rig: Rig, run: RunView, tenant = DEMO_TENANT): Promise<string | undefined> {
  const owner = (await metaOf(rig, run, tenant))['owner'];
  const pid = Number(/^.*\.(\d+)\.[0-9a-f]+$/.exec(owner ?? '')?.[1] ?? 0);
  return rig.processesOf('dispatcher').find((name) => rig.pid(name) === pid);
}

export async function metaOf(rig: Rig, run: RunView, tenant = DEMO_TENANT): Promise<Record<string, string>> {
  const redis = connectRedis({ url: rig.stack.redis.urlFor('dispatcher') });
  try {
    return await redis.hgetall(redisKeys({ tenant, conversation: run.conversation_id }).meta);
  } finally {
    redis.disconnect();
  }
}

export const ownership: Record<string, Scenario> = {
  D14: {
    async run(rig, must) {
      const text = rig.task(({ results, n }) =>
        results.length === 0
          ? { calls: [{ name: 'effect', arguments: { x: 'a' } }] }
          : { text: 'done', delayMs: n === 2 ? 6_000 : 0 },
      );
      const run = await rig.start({ input: text });
      await rig.until(() => rig.asked(text).length === 2, 'the model was asked again');
      const stale = await ownerOf(rig, run);
      if (stale === undefined) throw new Error('no dispatcher owns the conversation while the model is asked');
      process.kill(rig.pid(stale)!, 'SIGSTOP');
      const stopped = performance.now();
      let before: { events: string; items: string };
      try {
        const done = await rig.settled(run.id, { ms: 15_000 });
        must(done.state === 'completed', `the run is ${done.state}`);
        await sleep(Math.max(0, stopped + Math.max(8_000, 2 * LEASE_MS) - performance.now()));
        before = { events: JSON.stringify(await rig.events(run.id)), items: JSON.stringify(await historyOf(rig, run)) };
      } finally {
        process.kill(rig.pid(stale)!, 'SIGCONT');
      }
      await rig.until(
        () => /lost the conversation/.test(rig.logs().get(`${stale}.log`) ?? ''),
        'the woken dispatcher says that it lost the conversation',
        10_000,
      );
      // It serves other runs afterwards.
      let serves = false;
      for (let tries = 0; tries < 20 && !serves; tries++) {
        const other = await rig.start({ input: rig.task(twoCalls('ro', { ms: 500 })) });
        while (!serves && !TERMINAL.includes((await rig.get(other.id)).state))
          serves = (await ownerOf(rig, other)) === stale;
      }
      must(serves, `${stale} works on no run any more`);
      must(JSON.stringify(await rig.events(run.id)) === before.events, 'the woken dispatcher added events');
      must(JSON.stringify(await historyOf(rig, run)) === before.items, 'the woken dispatcher changed the history');
      must(rig.starts(run.id) === 1, `${rig.starts(run.id)} starts`);
    },
  },
  D35: {
    own: { slots: 25 },
    async run(rig, must) {
      const [ahead, behind] = rig.processesOf('dispatcher');
      await rig.restart(ahead!, skewed(600_000));
      await rig.restart(behind!, skewed(-600_000));
      const runs = await Promise.all(
        Array.from({ length: 50 }, () => rig.start({ input: rig.task(twoCalls('slow', { n: 1 })) })),
      );
      for (const { id } of runs) {
        const done = await rig.settled(id, { ms: 60_000 });
        must(done.state === 'completed', `run ${id} is ${done.state} (${done.error?.message ?? done.reason ?? ''})`);
        must(rig.starts(id) === 1, `${rig.starts(id)} starts`);
      }
      for (const name of [ahead!, behind!])
        must(!/lost the conversation/.test(rig.logs().get(`${name}.log`) ?? ''), `${name} lost a lease while it lived`);
    },
  },
  D15: {
    async run(rig, must) {
      const slowly = () => rig.task(twoCalls('ro', { ms: 300 }));
      const conversation = async () => (await rig.api('/v1/conversations', { json: {} })).json['id'] as string;
      const conversation_id = await conversation();
      const texts = [slowly(), slowly()];
      const [first, second] = await Promise.all(texts.map((input) => rig.start({ input, conversation_id })));
      await Promise.all([first!, second!].map(({ id }) => rig.settled(id)));
      const ends = await Promise.all(
        [first!, second!].map(async ({ id }) => (await rig.events(id)).at(-1) as unknown as { at: string }),
      );
      const asked = texts.map((text) => rig.asked(text)[0]!.at);
      const [earlier, later] = asked[0]! < asked[1]! ? [0, 1] : [1, 0];
      must(
        asked[later]! >= Date.parse(ends[earlier]!.at),
        'the second run asked the model before the first one was over',
      );
      const items = await history(rig, { tenant: DEMO_TENANT, conversation: conversation_id });
      const shape = items.map((item) => (item.type === 'chat' ? item.role : item.type)).join();
      must(
        shape === 'user,assistant_tool_calls,tool_results,assistant,user,assistant_tool_calls,tool_results,assistant',
        `the two runs are mixed: ${shape}`,
      );
      const busy = await conversation();
      const answers = await Promise.all(
        [slowly(), slowly()].map((input, replica) =>
          rig.api('/v1/runs', { json: { input, conversation_id: busy, on_busy: 'reject' }, replica }),
        ),
      );
      for (const { status, json } of answers) if (status === 201) rig.touch(json as unknown as RunView);
      const refused = answers.find(({ status }) => status === 409);
      must(
        answers
          .map(({ status }) => status)
          .sort()
          .join() === '201,409',
        `answers ${answers.map(({ status }) => status).join()}`,
      );
      must(
        refused !== undefined &&
          /application\/problem\+json/.test(refused.headers.get('content-type') ?? '') &&
          /BUSY/i.test(String(refused.json['type'])),
        `the refusal is no problem of a busy conversation: ${refused?.text}`,
      );
    },
  },
};

/** Every clock that the process reads is wrong by so much. */
const skewed = (ms: number) => {
  const source = `const now = Date.now; const Real = Date; Date.now = () => now() + ${ms};
    globalThis.Date = class extends Real { constructor(...a) { a.length === 0 ? super(Real.now()) : super(...a); } };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
};

const historyOf = (rig: Rig, run: RunView) => history(rig, { tenant: DEMO_TENANT, conversation: run.conversation_id });
