import { openStream } from '../sse.ts';
import type { RunView } from '../../api-views.ts';
import { ACK_WAIT_MS, DEMO_TENANT, LEASE_MS, type Rig, twoCalls } from '../rig.ts';
import { history, type Must, resultsIn, saying, type Scenario } from '../scenario.ts';

interface Fallen {
  run: RunView & { text: string };
  done: RunView;
  /** From the death to the end of the run, in milliseconds. */
  afterMs: number;
  asked: number;
  results: ReturnType<typeof resultsIn>;
  items: Awaited<ReturnType<typeof history>>;
}

/** A two-call run whose process dies at the failpoint; answers how it went on. */
async function fallAt(rig: Rig, failpoint: string, tool: string, args?: Record<string, unknown>): Promise<Fallen> {
  const { task: run, at } = await rig.fall(failpoint, async () => {
    const text = rig.task(twoCalls(tool, args));
    return { ...(await rig.start({ input: text })), text };
  });
  const done = await rig.settled(run.id, { ms: 30_000 });
  const afterMs = performance.now() - at;
  const items = await history(rig, { tenant: DEMO_TENANT, conversation: run.conversation_id });
  return { run, done, afterMs, asked: rig.asked(run.text).length, results: resultsIn(items), items };
}

function completed(rig: Rig, must: Must, { done, afterMs }: Fallen): void {
  must(
    done.state === 'completed' && done.output === 'done',
    `the run is ${done.state} (${done.error?.message ?? done.reason ?? ''})`,
  );
  const limit = (LEASE_MS + ACK_WAIT_MS + 2_000) * rig.slack;
  must(afterMs < limit, `the run ended ${Math.round(afterMs)} ms after the death, not within ${limit} ms`);
}

function executed(rig: Rig, must: Must, { run }: Fallen, starts: number, dones: number): void {
  must(rig.starts(run.id) === starts, `${rig.starts(run.id)} starts, not ${starts}`);
  must(rig.dones(run.id) === dones, `${rig.dones(run.id)} ends of the tool, not ${dones}`);
}

const requests = (must: Must, { asked }: Fallen, count: number) =>
  must(asked === count, `the model saw ${asked} requests, not ${count}`);

/** The model was told that nobody knows. */
const interrupted = (must: Must, { results }: Fallen) =>
  must(
    results.length === 1 && results[0]!.ok === false && /unknown/.test(results[0]!.content),
    `the result is not "outcome unknown": ${JSON.stringify(results)}`,
  );

export const failpoints: Record<string, Scenario> = {
  D01: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'dispatcher.llm.answered', 'effect');
      completed(rig, must, fallen);
      requests(must, fallen, 3);
      executed(rig, must, fallen, 1, 1);
      must(saying(fallen.items, 'done').length === 1, 'the answer stands in the history more than once, or not at all');
      must(
        fallen.items.filter(({ type }) => type === 'assistant_tool_calls').length === 1,
        'not one message with a call',
      );
    },
  },
  D02: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'dispatcher.tool.published(1)', 'slow', { n: 1 });
      completed(rig, must, fallen);
      requests(must, fallen, 2);
      executed(rig, must, fallen, 1, 1);
    },
  },
  D03: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'dispatcher.result.received', 'effect');
      completed(rig, must, fallen);
      requests(must, fallen, 2);
      executed(rig, must, fallen, 1, 1);
      const output = rig.effects(fallen.run.id).find(({ kind }) => kind === 'done')?.text;
      must(
        fallen.results[0]?.content === output,
        `the result is ${fallen.results[0]?.content}, the execution said ${output}`,
      );
    },
  },
  D04: {
    async run(rig, must) {
      const streams: ReturnType<typeof openStream>[] = [];
      const { task: run } = await rig.fall('dispatcher.final.appended', async () => {
        const text = rig.task(twoCalls('ro'));
        const begun = { ...(await rig.start({ input: text })), text };
        streams.push(openStream(rig, begun.id));
        return begun;
      });
      await rig.settled(run.id);
      const seen = await streams.at(-1)!.ended(15_000 * rig.slack);
      const ends = seen.filter(({ type }) => /^run\.(completed|failed|cancelled|incomplete)$/.test(type));
      must(
        ends.length === 1 && ends[0]!.type === 'run.completed',
        `the client saw ${ends.map(({ type }) => type).join() || 'no end'}`,
      );
      const items = await history(rig, { tenant: DEMO_TENANT, conversation: run.conversation_id });
      must(rig.asked(run.text).length === 2, `the model saw ${rig.asked(run.text).length} requests`);
      must(saying(items, 'done').length === 1, 'the answer does not stand in the history once');
      await Promise.all(streams.map((stream) => stream.close()));
    },
  },
  D05: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'executor.command.running', 'slow', { n: 5 });
      completed(rig, must, fallen);
      executed(rig, must, fallen, 1, 0);
      interrupted(must, fallen);
      await rig.until(() => rig.livingCommands().length === 0, 'the killed command is gone', 5_000);
    },
  },
  D06: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'executor.command.running', 'ro');
      completed(rig, must, fallen);
      executed(rig, must, fallen, 2, 1);
      must(fallen.results[0]?.ok !== false, 'the result is a failure');
    },
  },
  D07: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'executor.effect.done', 'effect');
      completed(rig, must, fallen);
      executed(rig, must, fallen, 1, 1);
      interrupted(must, fallen);
    },
  },
  D08: {
    async run(rig, must) {
      const fallen = await fallAt(rig, 'executor.result.published', 'effect');
      completed(rig, must, fallen);
      executed(rig, must, fallen, 1, 1);
      must(fallen.results.length === 1 && fallen.results[0]!.ok !== false, 'not one good result');
      must(fallen.afterMs < 1_000 * rig.slack, `the run waited ${Math.round(fallen.afterMs)} ms for the redelivery`);
    },
  },
};
