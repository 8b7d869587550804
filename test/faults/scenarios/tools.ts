import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { create, toBinary } from '@bufbuild/protobuf';
import { messages, newId, RunMessageSchema, STREAMS, ToolCallSchema } from '@yardmaster/contracts';
import { argsHash } from '@yardmaster/executor-kit';
import { quiet } from '../oracle.ts';
import type { RunView } from '../../api-views.ts';
import { ACK_WAIT_MS, DEMO_TENANT, type Rig, rounds, TERMINAL, twoCalls } from '../rig.ts';
import { history, resultsIn, type Scenario } from '../scenario.ts';

const TOOL_STREAM = 'YM_TOOL_FAULT';

/** Copies every message that waits in the tool queue, byte for byte, under another message id; answers how many. */
async function copyCalls(rig: Rig, wanted: number): Promise<void> {
  const jsm = await jetstreamManager(rig.bus.nc);
  await rig.until(
    async () => (await jsm.streams.info(TOOL_STREAM)).state.messages === wanted,
    `${wanted} calls wait in the queue`,
  );
  const { first_seq: first, last_seq: last } = (await jsm.streams.info(TOOL_STREAM)).state;
  for (let seq = first; seq <= last; seq++) {
    const message = await jsm.streams.getMessage(TOOL_STREAM, { seq });
    if (message === null) continue;
    const headers = message.header;
    headers.set('Nats-Msg-Id', `copy-${seq}`);
    const ack = await rig.bus.nc.request(message.subject, message.data, { headers, timeout: 5_000 });
    if (/"error"/.test(ack.string())) throw new Error(`a copy was refused: ${ack.string()}`);
  }
}

/** Resident memory of a process in MiB; undefined where the system does not say. */
function residentMb(pid: number | undefined): number | undefined {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  } catch {
    return undefined;
  }
}

/** Starts a run as a client does that gets no answer from a server that has just come back: again, with the same key. */
async function startAnyhow(rig: Rig, input: string): Promise<RunView> {
  const key = randomUUID();
  for (let tries = 0; ; tries++) {
    try {
      return await rig.start({ input }, { key });
    } catch (error) {
      if (tries === 5 || !/ 50[34] /.test(String(error))) throw error;
    }
  }
}

const resultsOf = async (rig: Rig, run: RunView, tenant = DEMO_TENANT) =>
  resultsIn(await history(rig, { tenant, conversation: run.conversation_id }));

export const tools: Record<string, Scenario> = {
  D09: {
    async run(rig, must) {
      const tenants = Array.from({ length: 10 }, (_, index) => `twice-${index}`);
      for (const tenant of tenants) await rig.key(tenant);
      const spread: { run: RunView; tenant: string }[] = [];
      const go = async (count: number) => {
        const begun: { run: RunView; tenant: string }[] = [];
        await rig.withoutExecutors(async () => {
          for (let index = 0; index < count; index++) {
            const tenant = tenants[index % tenants.length]!;
            begun.push({ tenant, run: await rig.start({ input: rig.task(twoCalls('effect')) }, { tenant }) });
          }
          await copyCalls(rig, count);
        });
        spread.push(...begun);
        for (const { run, tenant } of begun)
          must((await rig.settled(run.id, { tenant })).state === 'completed', `run ${run.id} is not completed`);
      };
      await go(1);
      await go(50);
      await quiet(rig, []);
      const starts = spread.reduce((sum, { run }) => sum + rig.starts(run.id), 0);
      must(starts === 51, `${starts} starts of 51 calls`);
      for (const { run, tenant } of spread) {
        const results = await resultsOf(rig, run, tenant);
        must(
          results.length === 1 && results[0]!.ok !== false,
          `run ${run.id} has not one good result: ${JSON.stringify(results)}`,
        );
      }
    },
  },
  D27: {
    async run(rig, must) {
      const bytes = 10_485_760;
      const before = rig.processesOf('executor').map((name) => residentMb(rig.pid(name)));
      const text = rig.task(twoCalls('big', { n: bytes }));
      const run = await rig.start({ input: text });
      let most = 0;
      const watch = setInterval(() => {
        rig.processesOf('executor').forEach((name, index) => {
          most = Math.max(most, (residentMb(rig.pid(name)) ?? 0) - (before[index] ?? 0));
        });
      }, 20);
      const done = await rig.settled(run.id).finally(() => clearInterval(watch));
      must(done.state === 'completed', `the run is ${done.state} (${done.error?.message ?? ''})`);
      const [result] = await resultsOf(rig, run);
      const content = result?.content ?? '';
      must(Buffer.byteLength(content) <= 66_560, `the model got ${Buffer.byteLength(content)} bytes`);
      must(content.startsWith('BEGIN') && content.trimEnd().endsWith('END'), 'beginning and end are not kept');
      const cut = Number(
        /(\d[\d_, ]*)/
          .exec(content.match(/\[?\.{0,3}[^\n]*(?:cut|omitted|left out|truncated)[^\n]*/i)?.[0] ?? '')?.[1]
          ?.replace(/\D/g, '') ?? NaN,
      );
      must(
        Math.abs(cut + Buffer.byteLength(content) - bytes) < 200,
        `the true size (or what was cut of it) is not told: ${cut}`,
      );
      const jsm = await jetstreamManager(rig.bus.nc);
      for await (const { message } of rig.bus.readSubject(
        STREAMS.events.name,
        `ym.evt.${DEMO_TENANT}.${run.id}`,
        messages.events,
      ))
        must(toBinary(messages.events, message).length <= 262_144, 'an event message is over 256 KiB');
      must((await jsm.streams.info(STREAMS.results.name)).state.messages > 0, 'no result is stored');
      // The tool makes its 10 MiB itself, in one string: that is not the kit's memory.
      must(most < 48 + 20, `the executor grew by ${Math.round(most)} MiB`);
    },
  },
  D29: {
    own: {},
    async run(rig, must) {
      const bad: { subject: string; data: Uint8Array }[] = [];
      for (const [subject, unknown] of [
        [`ym.run.start.${DEMO_TENANT}`, toBinary(RunMessageSchema, create(RunMessageSchema, { reason: 'start' }))],
        [
          `ym.tool.fault.${DEMO_TENANT}`,
          toBinary(ToolCallSchema, create(ToolCallSchema, { name: 'ro', argumentsJson: '{}' })),
        ],
      ] as const) {
        bad.push({ subject, data: new Uint8Array() });
        bad.push({ subject, data: Uint8Array.of(0xff, 0x07, ...randomBytes(1)) });
        bad.push({ subject, data: unknown });
        // A field that no version has, alone.
        bad.push({ subject, data: Uint8Array.of(0xf8, 0x3f, 0x01) });
      }
      const args = { argumentsJson: '{}', argsHash: argsHash('{}') };
      const unknownTool = { runId: newId(), callId: '1-0', nonce: 'n', name: 'nobody', tenant: DEMO_TENANT, ...args };
      bad.push({
        subject: `ym.tool.fault.${DEMO_TENANT}`,
        data: toBinary(ToolCallSchema, create(ToolCallSchema, unknownTool)),
      });
      // The empty ones first and alone: through an import an empty message ends the server's forwarding, so what the same
      // pull would bring is lost on the way and delivered a second time, which is no second attempt.
      for (const { subject, data } of bad.filter((each) => each.data.length === 0))
        await rig.bus.nc.request(subject, data);
      await quiet(rig, []);
      for (const { subject, data } of bad.filter((each) => each.data.length > 0))
        await rig.bus.nc.request(subject, data);
      const jsm = await jetstreamManager(rig.bus.nc);
      const info = async () => (await jsm.streams.info(STREAMS.deadLetters.name)).state;
      await quiet(rig, []);
      await rig.until(async () => (await info()).messages >= bad.length, `${bad.length} dead letters`, 10_000);
      for (let seq = (await info()).first_seq; seq <= (await info()).last_seq; seq++) {
        const letter = await jsm.streams.getMessage(STREAMS.deadLetters.name, { seq });
        for (const name of ['Ym-Dead-Reason', 'Ym-Dead-Subject', 'Ym-Dead-Sequence'])
          must((letter?.header.get(name) ?? '') !== '', `dead letter ${seq} has no ${name}`);
        must(
          letter?.header.get('Ym-Dead-Attempts') === '1',
          `dead letter ${seq} was tried ${letter?.header.get('Ym-Dead-Attempts')} times`,
        );
      }
      const good = await rig.start({ input: rig.task(twoCalls('ro')) });
      must((await rig.settled(good.id)).state === 'completed', 'the good run does not complete');
      return { deadLetters: bad.length };
    },
  },
  D30: {
    own: {},
    async run(rig, must) {
      for (const name of rig.processesOf('executor')) for (let times = 0; times < 4; times++) rig.expectDeath(name);
      const poison = await rig.start({ input: rig.task(twoCalls('poison')) });
      const others: RunView[] = [];
      while (!TERMINAL.includes((await rig.get(poison.id)).state)) {
        if (others.length < 40) others.push(await rig.start({ input: rig.task(rounds(2)) }));
        await sleep(200);
      }
      must((await rig.get(poison.id)).state === 'completed', 'the run of the poisoned call is not completed');
      must(rig.starts(poison.id) === 4, `${rig.starts(poison.id)} attempts`);
      const results = await resultsOf(rig, poison);
      must(results.length === 1 && results[0]!.ok === false, `the result is no error: ${JSON.stringify(results)}`);
      for (const { id } of others) must((await rig.settled(id)).state === 'completed', `another run is not completed`);
      await quiet(rig, []);
      return { deadLetters: 1 };
    },
  },
  D31: {
    async run(rig, must) {
      const jsm = await jetstreamManager(rig.bus.nc);
      const consumer = async () => (await jsm.consumers.info(TOOL_STREAM, 'work')).delivered;
      const go = async (count: number) => {
        const before = await consumer();
        const runs = await Promise.all(
          Array.from({ length: count }, () => rig.start({ input: rig.task(twoCalls('slow', { n: 9 })) })),
        );
        for (const { id } of runs) {
          must((await rig.settled(id, { ms: 60_000 })).state === 'completed', `run ${id} is not completed`);
          must(rig.starts(id) === 1, `${rig.starts(id)} starts`);
        }
        const after = await consumer();
        const deliveries = after.consumer_seq - before.consumer_seq;
        must(deliveries === count, `${deliveries} deliveries of ${count} calls`);
      };
      await go(1);
      await go(16);
    },
  },
  D36: {
    own: {},
    async run(rig, must) {
      const slow = await rig.start({ input: rig.task(twoCalls('slow', { n: 20 })) });
      await rig.until(() => rig.starts(slow.id) === 1, 'the slow call runs');
      const sixty = async () => {
        const runs = await Promise.all(Array.from({ length: 6 }, () => startAnyhow(rig, rig.task(rounds(10)))));
        for (const { id } of runs)
          must((await rig.settled(id, { ms: 60_000 })).state === 'completed', `run ${id} is not completed`);
        return runs;
      };
      const first = await sixty();
      await rig.stack.nats.kill();
      await rig.stack.nats.startAgain();
      const second = await sixty();
      must((await rig.settled(slow.id, { ms: 60_000 })).state === 'completed', 'the slow run is not completed');
      must(rig.starts(slow.id) === 1, `the slow call has ${rig.starts(slow.id)} starts`);
      for (const { id } of [...first, ...second])
        must(rig.starts(id) === 10, `run ${id} has ${rig.starts(id)} starts of 10 calls`);
      await sleep(3 * ACK_WAIT_MS);
    },
  },
};
