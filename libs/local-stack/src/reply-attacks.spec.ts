import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect, createInbox, headers, type Msg, type NatsConnection } from '@nats-io/transport-node';
import {
  BUCKETS,
  executorAccount,
  inboxPrefix,
  STREAMS,
  type StreamSpec,
  toolStream,
  toolStreamSpec,
} from '@yardmaster/contracts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { natsTable, type NatsTable } from './nats-config.js';
import { type NatsServer, startNats } from './nats-server.js';

/*
 * The server sends acknowledgements and status messages to any reply subject that a client names, API subjects
 * included, without checking the client's permissions for it. Each attack runs twice: against the generated accounts,
 * where it must do nothing, and against a control with the same permissions inside one shared account, where it must do
 * its damage; a server or client that stopped sending such replies would make the control fail, not the test pass.
 * Newer servers refuse JetStream subjects as a reply (2.15 does, 2.9 does not): there a control must meet that refusal,
 * said by the server for each message of the attack, instead of the damage.
 */
const KINDS = ['shell', 'files', 'thirdparty'];
const SHARED: NatsTable = { users: [...natsTable(KINDS).users, ...KINDS.map(executorAccount)], executors: [] };
const RUN = '0190b1de-0000-7000-8000-000000000001';
const MY_QUEUE = `$JS.API.CONSUMER.MSG.NEXT.${toolStream('shell')}.work`;
const OWN_CALL = 'ym.tool.shell.acme';
const NO_WAIT = JSON.stringify({ batch: 1, no_wait: true });

const SPECS: StreamSpec[] = [...Object.values(STREAMS), ...KINDS.map((kind) => toolStreamSpec(kind))];
const ALL_STREAMS = [...SPECS.map(({ name }) => name), ...Object.values(BUCKETS).map((bucket) => `KV_${bucket}`)];

/** A subject of each stream that nobody else in the test uses; `i` makes it unique. */
function sample(spec: StreamSpec, i: number): string {
  return spec.subjects[0]!.split('.')
    .map((token, at) => (token === '*' ? `v${at}x${i}` : token))
    .join('.');
}

interface Installation {
  nats: NatsServer;
  jsm: JetStreamManager;
  hostile: NatsConnection;
  /** Everything heard: on `ym.>` by the set-up login, on its inbox by api, on cancels by another executor. */
  heard: { who: string; subject: string; status: boolean }[];
  all: NatsConnection[];
  state(): Promise<Record<string, string>>;
  settle(): Promise<void>;
}

async function install(table: NatsTable): Promise<Installation> {
  const nats = await startNats({ accounts: table });
  const as = (user: string) =>
    connect({ servers: nats.url, ...nats.login(user), inboxPrefix: inboxPrefix(user), reconnect: false });
  const [setup, api, hostile, neighbour] = await Promise.all(
    ['setup', 'api', 'executor-shell', 'executor-files'].map(as),
  );
  const jsm = await jetstreamManager(setup!);
  for (const spec of SPECS) await jsm.streams.add(config(spec));
  for (const bucket of Object.values(BUCKETS))
    await jsm.streams.add({ name: `KV_${bucket}`, subjects: [`$KV.${bucket}.>`], allow_direct: true });
  for (const kind of KINDS)
    await jsm.consumers.add(toolStream(kind), { durable_name: 'work', ack_policy: 'explicit', ack_wait: 30e9 });
  for (const spec of SPECS.filter(({ name }) => name !== toolStream('shell')))
    for (let i = 0; i < 3; i++) await setup!.request(sample(spec, i), '{}');
  for (const bucket of Object.values(BUCKETS))
    for (let i = 0; i < 3; i++) await setup!.request(`$KV.${bucket}.key${i}`, '{}');
  const heard: Installation['heard'] = [];
  const listen = (who: string, nc: NatsConnection, subject: string) =>
    nc.subscribe(subject, {
      callback: (_, { subject: on, headers: h }: Msg) =>
        void heard.push({ who, subject: on, status: (h?.code ?? 0) > 0 }),
    });
  listen('core', setup!, 'ym.>');
  listen('api', api!, `${inboxPrefix('api')}.>`);
  listen('neighbour', neighbour!, 'ym.cancel.>');
  const all = [setup!, api!, hostile!, neighbour!];
  const settle = async () => {
    for (let i = 0; i < 3; i++) {
      await Promise.all(all.map((nc) => nc.flush()));
      await new Promise((resolve) => setTimeout(resolve, 40));
    }
  };
  await settle();
  return {
    nats,
    jsm,
    hostile: hostile!,
    heard,
    all,
    settle,
    async state() {
      const found = new Map((await jsm.streams.list().next()).map(({ config: { name }, state }) => [name, state]));
      return Object.fromEntries(
        ALL_STREAMS.map((name) => [
          name,
          found.has(name) ? `${found.get(name)!.messages} up to ${found.get(name)!.last_seq}` : 'GONE',
        ]),
      );
    },
  };
}

/** What the server tells this connection that it may not do, as it says it. */
function refusals(nc: NatsConnection): string[] {
  const refused: string[] = [];
  void (async () => {
    for await (const status of nc.status()) if (status.type === 'error') refused.push(String(status.error));
  })();
  return refused;
}

const config = (spec: StreamSpec) => ({
  name: spec.name,
  subjects: spec.subjects,
  retention: spec.retention,
  max_age: spec.maxAgeS * 1e9,
  ...(spec.maxMsgsPerSubject !== undefined && { max_msgs_per_subject: spec.maxMsgsPerSubject }),
  ...(spec.discardNewPerSubject && { discard: 'new' as const, discard_new_per_subject: true }),
  allow_direct: spec.allowDirect ?? false,
});

const api = (operation: string, stream: string) => `$JS.API.STREAM.${operation}.${stream}`;
const claim = (n: number) => `ym.claim.acme.${RUN}.1-${n}.0123456789abcdef.1`;
const result = (n: number) => `ym.res.acme.${RUN}.1-${n}.nonce`;
/** Where a reply would do harm: a run, a command, a request to a model, a tool call of another executor. */
const TARGETS = [`ym.run.start.evil`, `ym.cmd.evil.${RUN}`, 'ym.rpc.router.chat.evil', 'ym.tool.files.evil'];

interface Attack {
  name: string;
  /** Streams of the design that it tries to harm. */
  run(nc: NatsConnection, setup: NatsConnection): Promise<void> | void;
  /** Proof of the damage, for the control. */
  harm(before: Record<string, string>, after: Record<string, string>, heard: Installation['heard']): boolean;
}

/** Streams that an executor of the kind shell may change. */
const OWN_STREAMS = ['YM_RES', 'YM_CLAIM', toolStream('shell')];
const VICTIMS = ALL_STREAMS.filter((name) => !OWN_STREAMS.includes(name));
let unique = 100;

/** Everything that makes the server answer: an empty queue, a claim, a claim that is there or not, output, a result. */
const PROVOCATIONS: {
  name: string;
  provoke(nc: NatsConnection, reply: string, setup: NatsConnection): Promise<void> | void;
}[] = [
  { name: 'a pull on its empty queue', provoke: (nc, reply) => nc.publish(MY_QUEUE, NO_WAIT, { reply }) },
  { name: 'a claim', provoke: (nc, reply) => nc.publish(claim(unique++), 'x', { reply }) },
  {
    name: 'a direct get that hits',
    provoke: (nc, reply) => nc.publish(`$JS.API.DIRECT.GET.YM_CLAIM.${sample(STREAMS.claims, 0)}`, '', { reply }),
  },
  {
    name: 'a direct get that misses',
    provoke: (nc, reply) => nc.publish(`$JS.API.DIRECT.GET.YM_CLAIM.${claim(9999)}`, '', { reply }),
  },
  {
    name: 'an acknowledgement',
    // Of a call that it was really given: newer servers answer no other.
    provoke: async (nc, reply, setup) => {
      await setup.request(OWN_CALL, 'call');
      const inbox = createInbox(inboxPrefix('executor-shell'));
      const given = new Promise<Msg>((resolve) => nc.subscribe(inbox, { callback: (_, m) => resolve(m), max: 1 }));
      nc.publish(MY_QUEUE, JSON.stringify({ batch: 1, expires: 2e9 }), { reply: inbox });
      nc.publish((await given).reply!, '+ACK', { reply });
    },
  },
  { name: 'a result', provoke: (nc, reply) => nc.publish(result(unique++), 'x', { reply }) },
];

const ATTACKS: Attack[] = [
  ...['PURGE', 'DELETE'].map((operation) => ({
    name: `a pull on its empty queue with the reply ${operation} of every stream`,
    run: (nc: NatsConnection) =>
      VICTIMS.forEach((victim) => nc.publish(MY_QUEUE, NO_WAIT, { reply: api(operation, victim) })),
    harm: (before: Record<string, string>, after: Record<string, string>) =>
      operation === 'DELETE'
        ? Object.values(after).includes('GONE')
        : VICTIMS.some((name) => before[name] !== after[name]),
  })),
  {
    name: 'a result whose acknowledgement purges every stream',
    run: (nc) => {
      for (const victim of VICTIMS) nc.publish(result(unique++), 'x', { reply: api('PURGE', victim) });
    },
    harm: (before, after) => VICTIMS.some((name) => after[name] !== before[name]),
  },
  ...PROVOCATIONS.map(({ name, provoke }) => ({
    name: `${name} with replies on run, command, model and tool subjects`,
    run: async (nc: NatsConnection, setup: NatsConnection) => {
      for (const target of TARGETS) await provoke(nc, target, setup);
    },
    harm: (_: unknown, __: unknown, heard: Installation['heard']) =>
      TARGETS.every((target) => heard.some(({ subject }) => subject === target)),
  })),
  {
    name: 'a pull whose reply is the cancel subject of another executor',
    run: (nc) => nc.publish(MY_QUEUE, NO_WAIT, { reply: `ym.cancel.evil.${RUN}` }),
    harm: (_, __, heard) => heard.some(({ who }) => who === 'neighbour'),
  },
  {
    name: "a claim whose acknowledgement goes to a service's inbox",
    run: (nc) => nc.publish(claim(unique++), 'x', { reply: `${inboxPrefix('api')}.answer` }),
    harm: (_, __, heard) => heard.some(({ who }) => who === 'api'),
  },
];

/** What the core may hear of it. */
const isOwn = (subject: string) =>
  subject.startsWith('ym.res.acme.') || subject.startsWith('ym.claim.acme.') || subject === OWN_CALL;

describe('an executor with a login of its own account', () => {
  let there: Installation;
  beforeAll(async () => {
    there = await install(natsTable(KINDS));
  });
  afterAll(async () => {
    await Promise.all(there.all.map((nc) => nc.close()));
    await there.nats.stop();
  });

  test.each(ATTACKS)('does nothing by $name', async ({ run }) => {
    const before = await there.state();
    there.heard.length = 0;
    await run(there.hostile, there.all[0]!);
    await there.settle();
    const after = await there.state();
    for (const stream of ALL_STREAMS.filter((name) => !OWN_STREAMS.includes(name)))
      expect([stream, after[stream]]).toEqual([stream, before[stream]]);
    expect(there.heard.filter(({ who, subject }) => who !== 'core' || !isOwn(subject))).toEqual([]);
    // What it may write, results and claims, it wrote itself: no status of the server among them.
    expect(there.heard.filter(({ status }) => status)).toEqual([]);
  });

  test('reaches nothing directly that is not its own', async () => {
    const before = await there.state();
    there.heard.length = 0;
    const refused = refusals(there.hostile);
    const foreign = [
      ...TARGETS,
      `ym.cancel.evil.${RUN}`,
      `ym.evt.acme.${RUN}`,
      `ym.dlq.YM_RUN.acme`,
      `${inboxPrefix('api')}.answer`,
      `$JS.API.CONSUMER.MSG.NEXT.${toolStream('files')}.work`,
      `$JS.API.CONSUMER.MSG.NEXT.YM_RUN.work`,
      `$JS.ACK.${toolStream('files')}.work.1.1.1.1.1`,
      `$JS.API.DIRECT.GET.YM_RES.${sample(STREAMS.results, 0)}`,
      '$JS.API.DIRECT.GET.YM_CLAIM',
      '$JS.API.STREAM.NAMES',
      '$KV.ym_tools.acme',
      ...ALL_STREAMS.flatMap((name) => [api('DELETE', name), api('PURGE', name), api('INFO', name)]),
    ];
    for (const subject of foreign) there.hostile.publish(subject, '{}');
    for (const subject of ['>', 'ym.>', '*.>', '_INBOX.>', `${inboxPrefix('api')}.>`, '$JS.>', '$SYS.>', 'ym.run.>'])
      there.hostile.subscribe(subject, { callback: () => {} });
    await there.settle();
    expect(await there.state()).toEqual(before);
    expect(there.heard).toEqual([]);
    expect(refused.filter((error) => /Publish/i.test(error)).length).toBe(foreign.length);
    expect(refused.filter((error) => /Subscription/i.test(error)).length).toBe(8);
  });

  test('can do its work: pull, claim once, progress, output, one result, acknowledge, hear a cancel', async () => {
    const nc = there.hostile;
    const cancelled = new Promise<string>((resolve) => {
      nc.subscribe('ym.cancel.>', { callback: (_, { subject }) => resolve(subject), max: 1 });
    });
    await nc.flush();
    const [setup] = there.all;
    await setup!.request(OWN_CALL, 'call');
    const inbox = createInbox(inboxPrefix('executor-shell'));
    const pulled = new Promise<Msg>((resolve) => nc.subscribe(inbox, { callback: (_, m) => resolve(m), max: 1 }));
    nc.publish(MY_QUEUE, JSON.stringify({ batch: 1, expires: 2e9 }), { reply: inbox });
    const call = await pulled;
    expect(call.string()).toBe('call');
    const first = headers();
    first.set('Nats-Expected-Last-Subject-Sequence', '0');
    const claimed = claim(1);
    expect((await nc.request(claimed, 'me', { headers: first, timeout: 2000 })).json()).toMatchObject({
      stream: 'YM_CLAIM',
    });
    expect((await nc.request(claimed, 'again', { headers: first, timeout: 2000 })).json()).toMatchObject({
      error: { err_code: 10071 },
    });
    expect((await nc.request(`$JS.API.DIRECT.GET.YM_CLAIM.${claimed}`, '', { timeout: 2000 })).string()).toBe('me');
    expect((await nc.request(`$JS.API.DIRECT.GET.YM_CLAIM.${claim(8888)}`, '', { timeout: 2000 })).headers?.code).toBe(
      404,
    );
    nc.publish(call.reply!, '+WPI');
    nc.publish(`ym.delta.acme.${RUN}`, 'output');
    expect((await nc.request(result(1), 'done', { timeout: 2000 })).json()).toMatchObject({ stream: 'YM_RES' });
    expect((await nc.request(result(1), 'twice', { timeout: 2000 })).json()).toHaveProperty('error');
    nc.publish(call.reply!, '+ACK');
    await there.settle();
    expect((await there.jsm.streams.info(toolStream('shell'))).state.messages).toBe(0);
    expect(there.heard.map(({ subject }) => subject)).toContain(`ym.delta.acme.${RUN}`);
    setup!.publish(`ym.cancel.acme.${RUN}`, '');
    expect(await cancelled).toBe(`ym.cancel.acme.${RUN}`);
  });
});

describe('control: the same permissions inside the account of the services', () => {
  test.each(ATTACKS)('do harm by $name', async ({ run, harm }) => {
    const there = await install(SHARED);
    const before = await there.state();
    there.heard.length = 0;
    const refused = refusals(there.hostile);
    await run(there.hostile, there.all[0]!);
    await there.settle();
    const harmed = harm(before, await there.state(), there.heard);
    if (refused.length === 0) expect(harmed).toBe(true);
    else {
      // Closed by the server itself: it says so for every message of the attack, and nothing of it has an effect.
      expect(refused).toHaveLength(VICTIMS.length);
      for (const error of refused) expect(error).toMatch(/Publish with Reply of "?\$JS\.API\./);
      expect(harmed).toBe(false);
    }
    await Promise.all(there.all.map((nc) => nc.close()));
    await there.nats.stop();
  });
});
