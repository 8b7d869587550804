import { redisKeys } from '../oracle.ts';
import { metaOf } from './ownership.ts';
import { twoCalls } from '../rig.ts';
import type { Scenario } from '../scenario.ts';
import { jetstreamManager } from '@nats-io/jetstream';
import { connectRedis } from '@yardmaster/conversation';

export const approvals: Record<string, Scenario> = {
  D24: {
    async run(rig, must) {
      const tenant = 'approver';
      await rig.key(tenant);
      const parameters = { type: 'object', properties: { x: { type: 'string' } } };
      await rig.putTool(tenant, 'effect', { effect: 'unsafe', parameters, always_ask: true });
      const begin = () =>
        rig.start({ input: rig.task(twoCalls('effect', { x: 'ask me' })), tools: ['effect'] }, { tenant });
      let run = await begin();
      // The dispatchers hear of the tool's new definition a moment later.
      for (let tries = 0; (await rig.settled(run.id, { tenant })).state !== 'waiting_approval'; tries++) {
        if (tries === 50) throw new Error('the tool that always asks does not ask');
        run = await begin();
      }
      const restart = ['dispatcher', 'executor', 'api'].flatMap((service) => rig.processesOf(service));
      for (const name of restart) await rig.restart(name);
      const jsm = await jetstreamManager(rig.bus.nc);
      for (const stream of ['YM_RUN', 'YM_TOOL_FAULT']) {
        must(
          (await jsm.streams.info(stream)).state.messages === 0,
          `${stream} holds a message while the run is parked`,
        );
        must(
          (await jsm.consumers.info(stream, 'work')).num_ack_pending === 0,
          `${stream} has a pending ack while the run is parked`,
        );
      }
      must((await metaOf(rig, run, tenant))['owner'] === undefined, 'a lease is held while the run is parked');
      const listed = await rig.api(`/v1/runs/${run.id}/approvals`, { tenant });
      const item = (listed.json['items'] as { call: string; arguments: unknown; args_hash: string }[])[0];
      if (item === undefined) throw new Error(`no approval is listed: ${listed.text}`);
      must(
        JSON.stringify(item.arguments) === '{"x":"ask me"}',
        `the arguments shown are ${JSON.stringify(item.arguments)}`,
      );
      must(rig.starts(run.id) === 0, 'the tool began before the approval');
      const path = `/v1/runs/${run.id}/approvals/${item.call}`;
      const wrong = await rig.api(path, {
        tenant,
        json: { decision: 'approve', args_hash: '0'.repeat(item.args_hash.length) },
      });
      must(wrong.status === 409, `an approval of other arguments is answered with ${wrong.status}`);
      const decision = { decision: 'approve', args_hash: item.args_hash };
      const approved = await rig.api(path, { tenant, json: decision });
      must(approved.status === 200, `approve answers ${approved.status} ${approved.text}`);
      const again = await rig.api(path, { tenant, json: decision, replica: 1 });
      must(again.status === 409, `the second approve answers ${again.status}`);
      await rig.until(async () => (await rig.get(run.id, { tenant })).state === 'completed', 'the run completes');
      must(rig.starts(run.id) === 1, `${rig.starts(run.id)} starts`);
      await expiry(rig, must, tenant);
    },
  },
};

/** Nobody decides: the leader's timer wakes the run, and the call is denied. */
async function expiry(
  rig: Parameters<Scenario['run']>[0],
  must: Parameters<Scenario['run']>[1],
  tenant: string,
): Promise<void> {
  const run = await rig.start({ input: rig.task(twoCalls('effect', { x: 'never' })), tools: ['effect'] }, { tenant });
  await rig.settled(run.id, { tenant });
  const redis = connectRedis({ url: rig.stack.redis.urlFor('dispatcher') });
  try {
    const timers = await redis.zrange('ym:timer:all', 0, '-1');
    must(
      timers.some((member) => member.includes(run.id)),
      'no timer is set for the approval',
    );
    const record = await redis.hget(
      redisKeys({ tenant, conversation: run.conversation_id, run: run.id }).run,
      'pending',
    );
    must(/approvalExpiresMs/.test(record ?? ''), 'the pending call does not say when its approval expires');
  } finally {
    redis.disconnect();
  }
  await rig.api(`/v1/runs/${run.id}/cancel`, { tenant, method: 'POST', json: {} });
  await rig.until(async () => (await rig.get(run.id, { tenant })).state === 'cancelled', 'a parked run is cancelled');
}
