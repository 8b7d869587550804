import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bus, ensureTopology, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, Fleet, subjects, tenantId, ToolCallSchema, toolStream } from '@yardmaster/contracts';
import type { FoundProvider } from '@yardmaster/service-kit';
import { FaultProxy, type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FleetProcesses } from './fleet-processes.ts';
import { ADDRESS, startLlama } from './llama-server.ts';
import { type Cluster, startCluster } from './objects.ts';
import { ofKind, render } from './rendered.ts';

// The fleet as a process, with the service account and the Roles that the chart gives it, against a real API server: watches that
// are cut, compaction, restarts, a Lease that several want, and the scale subresource.
const NAMESPACE = 'yard';
const SHELL = 'ym-yardmaster-executor-shell';
/** The name of the Lease, and of the service account. */
const LEASE = 'ym-yardmaster-fleet';
const acme = tenantId('acme');
const folder = mkdtempSync(join(tmpdir(), 'yardmaster-fleet-'));
const LONG = { timeout: 90_000, interval: 100 };

let cluster: Cluster;
let servers: Servers;
let setup: Bus;
let caller: Bus;
let dispatcher: Bus;
let providers: KvSnapshot<FoundProvider>;
/** Between the fleet and the API server. */
let proxy: FaultProxy;
const fleets = new FleetProcesses(folder, () => ({
  KUBECONFIG: join(folder, 'kubeconfig'),
  YM_NATS_URL: servers.natsUrl,
  YM_NATS_PASSWORD_FILE: join(folder, 'password'),
  YM_CONFIG: join(folder, 'config.yaml'),
  YM_FLEET_NAMESPACE: NAMESPACE,
  YM_FLEET_LEASE: LEASE,
  YM_FLEET_EXECUTORS: join(folder, 'executors.yaml'),
}));
const closers: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  [cluster, servers] = await Promise.all([startCluster(), startServers({ executors: ['shell'] })]);
  const connect = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  setup = await connect('setup');
  await ensureTopology(setup, { kinds: ['shell'] });
  [caller, dispatcher] = await Promise.all([connect('api'), connect('dispatcher')]);
  providers = await caller.watch(
    BUCKETS.providers,
    (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as FoundProvider,
  );
  proxy = await FaultProxy.start(Number(new URL(cluster.plane.url).port));
  const { plane } = cluster;
  await plane.namespace(NAMESPACE, 'privileged');
  const manifests = render({ llamaReleases: { enabled: true } });
  for (const one of ofKind(manifests, 'ServiceAccount', 'Role', 'RoleBinding', 'Deployment'))
    expect((await cluster.apply(one, { namespace: NAMESPACE })).status, one.metadata.name).toBe(201);
  const account = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${LEASE}`;
  const { status } = await plane.must('POST', `${account}/token`, { spec: { expirationSeconds: 3600 } });
  plane.writeKubeconfig(join(folder, 'kubeconfig'), status.token, `https://127.0.0.1:${proxy.port}`);
  writeFileSync(join(folder, 'password'), servers.nats.login('fleet').pass);
  const local = { kind: 'llamacpp', base_url: `http://ym-llama.${NAMESPACE}.svc:8080/v1`, auth: 'none' };
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify({ providers: { local } }));
  const shell = { deployment: SHELL, kinds: ['shell'], slots: 4, min: 0, max: 5, cooldown_s: 1 };
  writeFileSync(join(folder, 'executors.yaml'), JSON.stringify({ executors: { shell } }));
});
afterAll(async () => {
  await fleets.stopAll();
  for (const close of closers) await close();
  await Promise.all([caller, dispatcher, setup].map((bus) => bus?.close()));
  await proxy?.stop();
  await Promise.all([cluster?.plane.stop(), servers?.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

const leaders = () => fleets.leaders();

const slices = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
const deployment = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${SHELL}`;
/** A Service's slice as the controller writes it. */
async function putSlice(name: string, address: string, { ready = true, port = 8080 } = {}) {
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name,
      namespace: NAMESPACE,
      labels: { 'kubernetes.io/service-name': 'ym-llama', 'app.kubernetes.io/name': 'llama' },
    },
    addressType: 'IPv4',
    endpoints: [
      {
        addresses: [address],
        conditions: { ready, serving: ready, terminating: false },
        targetRef: { kind: 'Pod', name, namespace: NAMESPACE },
      },
    ],
    ports: [{ name: 'http', port, protocol: 'TCP' }],
  };
  const answer = await cluster.apply(slice);
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  return answer.body.metadata.resourceVersion as string;
}
const removeSlice = (name: string) => cluster.plane.must('DELETE', `${slices}/${name}`);
const known = () =>
  [...providers.current.values()].flatMap(({ found }) => (found === undefined ? [] : [found.pod])).sort();
const phase = (pod: string) => [...providers.current.values()].find(({ found }) => found?.pod === pod)?.found?.phase;
const view = () => caller.request(Fleet.view, acme, {}, { timeoutMs: 5_000 });
/** The API says that this version is gone: a watch that asks for it is answered with 410. */
async function isForgotten(version: string): Promise<boolean> {
  const { status, body } = await cluster.plane.api(
    'GET',
    `${slices}?watch=true&resourceVersion=${version}&timeoutSeconds=1`,
  );
  return status === 410 || JSON.stringify(body).includes('410');
}
test('one of two leads, with the rights that the chart gives it', async () => {
  await fleets.start('one');
  await fleets.start('two');
  await expect.poll(async () => (await leaders()).length, LONG).toBe(1);
  const lease = await cluster.plane.must('GET', `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/${LEASE}`);
  expect(lease.spec.leaseDurationSeconds).toBe(9);
});

test.skipIf(ADDRESS === undefined)('a pod is found, checked, and gone when its slice is', async () => {
  const { port, close } = await startLlama(ADDRESS!);
  closers.push(close);
  await putSlice('llama-a', ADDRESS!, { port });
  await expect.poll(() => phase('llama-a'), LONG).toBe('ready');
  await putSlice('llama-a', ADDRESS!, { port, ready: false });
  await expect.poll(() => phase('llama-a'), LONG).toBe('unhealthy');
  await removeSlice('llama-a');
  await expect.poll(known, LONG).toEqual([]);
});

test('a pod that is deleted while the connection is away, and forgotten by etcd, is gone when it is back', async () => {
  await putSlice('stays', '192.0.2.1');
  const version = await putSlice('goes', '192.0.2.2');
  await expect.poll(known, LONG).toEqual(['goes', 'stays']);
  proxy.set({ refuse: true });
  proxy.reset();
  await removeSlice('goes');
  await cluster.plane.compact();
  // The API server answers from its own memory of events; without that it must ask etcd, which has forgotten.
  await cluster.plane.restartApiServer('stop');
  expect(await isForgotten(version)).toBe(true);
  expect(known()).toEqual(['goes', 'stays']);
  const accepted = proxy.accepted;
  proxy.heal();
  await expect.poll(() => proxy.accepted, LONG).toBeGreaterThan(accepted);
  const back = performance.now();
  await expect.poll(known, { ...LONG, interval: 20 }).toEqual(['stays']);
  console.log(`a lost deletion was seen ${Math.round(performance.now() - back)} ms after the connection was back`);
});

test.each([
  ['stopped', 'stop'],
  ['killed', 'kill'],
] as const)('an API server that is %s and comes back: nothing is lost meanwhile, and news arrive', async (_, how) => {
  let least = Infinity;
  await cluster.plane.restartApiServer(how, async () => {
    for (let i = 0; i < 30; i++) {
      least = Math.min(least, known().length);
      await sleep(100);
    }
  });
  expect(least).toBe(1);
  await putSlice(`after-${how}`, '192.0.2.3');
  await expect.poll(known, LONG).toContain(`after-${how}`);
  await removeSlice(`after-${how}`);
  await expect.poll(known, LONG).toEqual(['stays']);
});

test('changes by the hundred arrive, with compactions and cut connections between them', async () => {
  for (let i = 0; i < 300; i++) {
    await putSlice(`many-${i % 20}`, `198.51.100.${1 + (i % 200)}`);
    if (i % 60 === 30) proxy.reset();
    if (i % 100 === 50) await cluster.plane.compact();
    if (i % 3 === 2) await removeSlice(`many-${i % 20}`);
  }
  const { items } = await cluster.plane.must<{ items: { metadata: { name: string } }[] }>('GET', slices);
  const wanted = items.map(({ metadata }) => metadata.name).sort();
  expect(wanted.length).toBeGreaterThan(5);
  await expect.poll(known, LONG).toEqual(wanted);
  for (const name of wanted) if (name !== 'stays') await removeSlice(name);
  await expect.poll(known, LONG).toEqual(['stays']);
});

test('never do two lead: a killed leader, a restarted API server, a Lease that somebody else writes', async () => {
  const lease = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/${LEASE}`;
  let most = 0;
  let looks = 0;
  let looking = true;
  const looker = (async () => {
    while (looking) {
      most = Math.max(most, (await leaders()).length);
      looks++;
      await sleep(50);
    }
  })();
  try {
    await expect.poll(async () => (await leaders()).length, LONG).toBe(1);
    const [first] = await leaders();
    const before = (await cluster.plane.must('GET', lease)).spec;
    await fleets.kill(first!);
    await expect.poll(async () => (await leaders()).length, LONG).toBe(1);
    const after = (await cluster.plane.must('GET', lease)).spec;
    expect(after.holderIdentity).not.toBe(before.holderIdentity);
    expect(after.leaseTransitions).toBe(before.leaseTransitions + 1);
    await fleets.start('three');

    await cluster.plane.restartApiServer('kill');
    await expect.poll(async () => (await leaders()).length, LONG).toBe(1);

    // Between the leader's reading and its writing: its next write is a conflict, and the Lease is another's.
    const { metadata, spec } = await cluster.plane.must('GET', lease);
    const stolen = { ...spec, holderIdentity: 'intruder', renewTime: new Date().toISOString().replace('Z', '000Z') };
    await cluster.plane.must('PATCH', lease, { spec: stolen }, { type: 'application/merge-patch+json' });
    await expect.poll(async () => (await leaders()).length, LONG).toBe(0);
    await expect.poll(async () => (await leaders()).length, LONG).toBe(1);
    const last = await cluster.plane.must('GET', lease);
    expect(last.spec.holderIdentity).not.toBe('intruder');
    expect(Number(last.metadata.resourceVersion)).toBeGreaterThan(Number(metadata.resourceVersion));
  } finally {
    looking = false;
    await looker;
  }
  expect(looks).toBeGreaterThan(20);
  expect(most).toBe(1);
});

test('an executor goes from 0 to 3 and back to 0 with a real backlog, and nobody else is overwritten', async () => {
  const replicas = async () => (await cluster.plane.must('GET', deployment)).spec.replicas as number;
  await expect.poll(replicas, { ...LONG, timeout: 180_000 }).toBe(0);
  const before = await cluster.plane.must('GET', deployment);
  // Somebody who changes the Deployment meanwhile, as its controller does: their changes must all be there afterwards.
  let changing = true;
  let changes = 0;
  const changer = (async () => {
    while (changing) {
      const body = { metadata: { annotations: { 'example.com/changes': String(++changes) } } };
      await cluster.plane.must('PATCH', deployment, body, { type: 'application/merge-patch+json' });
      await sleep(500);
    }
  })();
  try {
    for (let i = 0; i < 9; i++)
      await dispatcher.enqueue(subjects.tool('shell', acme), ToolCallSchema, { callId: `0-${i}` });
    await expect.poll(replicas, LONG).toBe(3);
  } finally {
    changing = false;
    await changer;
  }
  const grown = await cluster.plane.must('GET', deployment);
  expect(grown.metadata.annotations['example.com/changes']).toBe(String(changes));
  // The number of pods, and nothing more.
  expect({ ...grown.spec, replicas: 0 }).toEqual(before.spec);
  await setup.nc.request(`$JS.API.STREAM.PURGE.${toolStream('shell')}`, '');
  await expect.poll(replicas, { timeout: 290_000, interval: 500 }).toBe(0);
});

test('a right that is taken away holds the number, and says what is missing; given back, it goes on', async () => {
  const path = `/apis/rbac.authorization.k8s.io/v1/namespaces/${NAMESPACE}/roles`;
  const { items } = await cluster.plane.must('GET', path);
  const [role] = items.filter((one: any) => JSON.stringify(one.rules).includes('deployments/scale'));
  const rules = role.rules.filter((one: any) => !one.resources.includes('deployments/scale'));
  const set = (to: object) =>
    cluster.plane.must(
      'PATCH',
      `${path}/${role.metadata.name}`,
      { rules: to },
      { type: 'application/merge-patch+json' },
    );
  await set(rules);
  const shell = async () => (await view()).executors.find(({ name }) => name === 'shell');
  await expect.poll(async () => (await shell())?.reason, LONG).toContain('the Role of the fleet must name it');
  expect((await shell())!.state).toBe('hold');
  await set(role.rules);
  await expect.poll(async () => (await shell())?.state, LONG).toBe('ok');
});
