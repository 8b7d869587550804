import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { openStream } from '../sse.ts';
import type { RunView } from '../../api-views.ts';
import { type Rig, rounds, twoCalls } from '../rig.ts';
import type { Must, Scenario } from '../scenario.ts';

const isEnd = (type: string) => /^run\.(completed|failed|cancelled|incomplete)$/.test(type);

/** A client that loses its connection after each 7th event and goes on at the other replica, until the run's end. */
async function followInPieces(rig: Rig, run: string): Promise<number[]> {
  const ids: number[] = [];
  for (let piece = 0; piece < 200; piece++) {
    const last = ids.at(-1);
    const client = openStream(rig, run, {
      limit: 7,
      replica: piece % 2,
      ...(last === undefined ? {} : { after: last }),
    });
    const seen = await client.ended(60_000 * rig.slack);
    await client.close();
    ids.push(...seen.map(({ id }) => id));
    if (seen.some(({ type }) => isEnd(type)) || (await client.status) === 204) return ids;
  }
  return ids;
}

function countUp(must: Must, ids: readonly number[], last: number, who: string): void {
  const wanted = Array.from({ length: last }, (_, index) => index + 1).join();
  must(ids.join() === wanted, `${who} saw the events ${ids.join()} of 1 to ${last}`);
}

export const api: Record<string, Scenario> = {
  D16: {
    async run(rig, must) {
      const input = rig.task(twoCalls('ro'));
      const post = (body: unknown, replica: number) =>
        rig.api('/v1/runs', { json: body, replica, headers: { 'idempotency-key': key } });
      const key = randomUUID();
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) => post({ input, tools: ['ro'] }, index % 2)),
      );
      const ids = new Set(answers.map(({ json }) => json['id']));
      must(
        answers.every(({ status }) => status === 201 || status === 200),
        `answers ${[...new Set(answers.map(({ status }) => status))].join()}`,
      );
      must(ids.size === 1, `${ids.size} run ids`);
      rig.touch(answers[0]!.json as unknown as RunView);
      await rig.settled(String(answers[0]!.json['id']));
      must(rig.asked(input).length === 2, `the model saw ${rig.asked(input).length} requests, not 2`);
      const before = rig.model.seen.length;
      const other = await post({ input: `${input} other`, tools: ['ro'] }, 0);
      must(
        other.status === 422 && /application\/problem\+json/.test(other.headers.get('content-type') ?? ''),
        `the same key with another body answers ${other.status} ${other.text}`,
      );
      await sleep(500);
      must(rig.model.seen.length === before, 'the refused request started something');
    },
  },
  D17: {
    async run(rig, must) {
      const input = rig.task(twoCalls('effect'));
      const key = randomUUID();
      const name = rig.processesOf('api')[0]!;
      await rig.restart(name, { YM_FAILPOINT: 'api.run.published' });
      rig.expectDeath(name);
      const body = { json: { input, tools: ['effect'] }, headers: { 'idempotency-key': key } };
      const broken = await rig.api('/v1/runs', { ...body, replica: 0 }).then(
        ({ status }) => status,
        () => 'a broken connection',
      );
      must(broken === 'a broken connection', `the dying api answered ${broken}`);
      const answer = await rig.api('/v1/runs', { ...body, replica: 1 });
      must(answer.status === 201 || answer.status === 200, `the other replica answers ${answer.status} ${answer.text}`);
      const run = answer.json as unknown as RunView;
      rig.touch(run);
      const done = await rig.settled(run.id);
      must(done.state === 'completed', `the run is ${done.state}`);
      must(
        rig.asked(input).length === 2 && rig.starts(run.id) === 1,
        `${rig.asked(input).length} requests, ${rig.starts(run.id)} starts`,
      );
      const listed = await rig.api('/v1/runs?limit=5', { replica: 1 });
      const same = (listed.json['items'] as RunView[]).filter(({ id }) => rig.starts(id) > 0 && id === run.id);
      must(same.length === 1, 'the run is not listed once');
      await rig.until(() => rig.stack.readyLines.get(name) !== undefined, `${name} is up again`);
    },
  },
  D18: {
    async run(rig, must) {
      const begin = () => rig.start({ input: rig.task(rounds(30)), limits: { max_iterations: 40 } });
      const one = await begin();
      const ids = await followInPieces(rig, one.id);
      countUp(must, ids, (await rig.events(one.id)).length, 'the client');
      const many = await begin();
      const all = await Promise.all(Array.from({ length: 20 }, () => followInPieces(rig, many.id)));
      const last = (await rig.events(many.id)).length;
      all.forEach((seen, index) => countUp(must, seen, last, `client ${index + 1} of 20`));
      must((await rig.get(many.id)).state === 'completed', 'the run is not completed');
    },
  },
  D19: {
    async run(rig, must) {
      const run = await rig.start({ input: rig.task(twoCalls('ro')) });
      await rig.settled(run.id);
      const last = (await rig.events(run.id)).length;
      const client = openStream(rig, run.id, { after: 3 });
      const ids = (await client.ended(10_000 * rig.slack)).map(({ id }) => id);
      must(
        ids.join() === Array.from({ length: last - 3 }, (_, index) => index + 4).join(),
        `events ${ids.join()} of 4 to ${last}`,
      );
      const again = openStream(rig, run.id, { after: last, replica: 1 });
      must((await again.status) === 204, `after the last event the status is ${await again.status}, not 204`);
      await again.close();
    },
  },
  D28: {
    async run(rig, must) {
      const counts = async () => [
        ((await rig.api('/v1/runs?limit=200')).json['items'] as unknown[]).length,
        ((await rig.api('/v1/conversations?limit=200')).json['items'] as unknown[]).length,
      ];
      const before = await counts();
      const lost = () => [...rig.logs().values()].join('\n').split('disconnected from NATS').length;
      const connections = lost();
      for (const megabytes of [1.5, 20]) {
        const key = randomUUID();
        const began = performance.now();
        const answer = await rig.api('/v1/runs', {
          json: { input: 'x'.repeat(megabytes * 1_000_000) },
          headers: { 'idempotency-key': key },
        });
        must(answer.status === 413, `${megabytes} MB are answered with ${answer.status}`);
        must(
          /\d/.test(String(answer.json['detail'])),
          `the refusal does not name the limit: ${answer.text.slice(0, 300)}`,
        );
        must(performance.now() - began < 2_000 * rig.slack, `it took ${Math.round(performance.now() - began)} ms`);
        must((await counts()).join() === before.join(), 'a refused request left a run or a conversation');
        const small = await rig.start({ input: rig.task(twoCalls('ro')) }, { key });
        must((await rig.settled(small.id)).state === 'completed', 'the key of the refused request cannot be used');
        before[0]!++;
        before[1]!++;
      }
      must(lost() === connections, 'a connection to NATS was dropped');
    },
  },
  D33: {
    async run(rig, must) {
      await Promise.all([rig.key('alpha'), rig.key('beta')]);
      const input = rig.task(twoCalls('slow', { n: 2 }), 'secret-of-beta');
      const run = await rig.start({ input }, { tenant: 'beta' });
      const nowhere = { run: unknownId(run.id), conversation: unknownId(run.conversation_id) };
      const probes: [string, (run: string, conversation: string) => Promise<{ status: number; text: string }>][] = [
        ['GET run', (id) => rig.api(`/v1/runs/${id}`, { tenant: 'alpha' })],
        ['events', (id) => rig.api(`/v1/runs/${id}/events`, { tenant: 'alpha' })],
        ['cancel', (id) => rig.api(`/v1/runs/${id}/cancel`, { tenant: 'alpha', method: 'POST', json: {} })],
        ['approvals', (id) => rig.api(`/v1/runs/${id}/approvals`, { tenant: 'alpha' })],
        [
          'approve',
          (id) =>
            rig.api(`/v1/runs/${id}/approvals/1-0`, {
              tenant: 'alpha',
              json: { decision: 'approve', args_hash: '0'.repeat(64) },
            }),
        ],
        [
          'run in the conversation',
          (_id, conversation_id) => rig.api('/v1/runs', { tenant: 'alpha', json: { input: 'x', conversation_id } }),
        ],
        ['messages', (_id, conversation) => rig.api(`/v1/conversations/${conversation}/messages`, { tenant: 'alpha' })],
        [
          'response',
          (id) =>
            rig.api('/v1/responses', {
              tenant: 'alpha',
              json: { input: 'x', model: 'agent:x', previous_response_id: id },
            }),
        ],
      ];
      for (const [what, probe] of probes) {
        const foreign = await probe(run.id, run.conversation_id);
        const unknown = await probe(nowhere.run, nowhere.conversation);
        must(foreign.status === 404, `${what}: ${foreign.status}`);
        must(
          anonymous(foreign.text, run) ===
            anonymous(unknown.text, { id: nowhere.run, conversation_id: nowhere.conversation }),
          `${what} says more of a foreign id than of none: ${foreign.text} / ${unknown.text}`,
        );
      }
      const done = await rig.settled(run.id, { tenant: 'beta' });
      must(done.state === 'completed', `the run that was looked for is ${done.state}`);
    },
  },
};

/** An id that looks like this one and that nobody has. */
const unknownId = (id: string) => id.slice(0, -6) + (id.endsWith('000000') ? '111111' : '000000');

/** An answer without what names the request. */
const anonymous = (text: string, { id, conversation_id }: { id: string; conversation_id: string }) =>
  text
    .replaceAll(id, 'RUN')
    .replaceAll(conversation_id, 'CONVERSATION')
    .replace(/"(trace_id|instance)":"[^"]*"/g, '');
