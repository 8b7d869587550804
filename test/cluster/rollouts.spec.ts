import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@yardmaster/testkit';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type HelmName, PLATFORM } from '../charts/helm.ts';
import { Availability } from './availability.ts';
import { componentOf, Nodes, type PodObject, provideVolumes } from './nodes.ts';
import { type Cluster, HAS_CONTROLLERS, startCluster, variable } from './objects.ts';
import { Releases } from './release.ts';

/* eslint-disable @typescript-eslint/no-explicit-any */
// What Kubernetes makes of the platform's chart: pods that are made, placed, replaced and evicted by its own controllers and
// scheduler. Pods are ready after a second and need another to end; nothing runs in them.
let cluster: Cluster;
let nodes: Nodes;
const releases = new Releases(() => cluster);
const closers: (() => Promise<unknown>)[] = [];
/** Namespaces whose bootstrap Job has done its work. */
const bootstrapped = new Set<string>();
const POLL = { timeout: 60_000, interval: 100 };
const NODES = ['a', 'b', 'c'];
/** What is not a service of ours waits for nothing. */
const SERVERS = ['nats', 'redis', 'bootstrap'];

/** The version from which a release is upgraded: the same chart, every image and label another. */
const FORMER = '0.0.9';
const CURRENT = (parse(readFileSync(`${PLATFORM}/Chart.yaml`, 'utf8')) as { appVersion: string }).appVersion;
let former: string;

const list = async (namespace: string, path: string): Promise<any[]> =>
  (await cluster.plane.must('GET', path.replace('NAMESPACE', namespace))).items;
const deployments = (namespace: string) => list(namespace, '/apis/apps/v1/namespaces/NAMESPACE/deployments');
const statefulSets = (namespace: string) => list(namespace, '/apis/apps/v1/namespaces/NAMESPACE/statefulsets');
const jobs = (namespace: string) => list(namespace, '/apis/batch/v1/namespaces/NAMESPACE/jobs');
const podsOf = async (namespace: string) => (await list(namespace, '/api/v1/namespaces/NAMESPACE/pods')) as PodObject[];
const working = async (namespace: string) =>
  (await podsOf(namespace)).filter((pod) => componentOf(pod) !== 'bootstrap');

/** Everything that runs for long has all its pods, of its newest form and ready. */
async function isComplete(namespace: string): Promise<boolean> {
  const all = [...(await deployments(namespace)), ...(await statefulSets(namespace))];
  expect(all.length).toBeGreaterThanOrEqual(9);
  return all.every(({ metadata, spec, status }) => {
    const { observedGeneration, replicas, updatedReplicas, readyReplicas } = status;
    const counts = [replicas, updatedReplicas, readyReplicas];
    return observedGeneration === metadata.generation && counts.every((count) => count === spec.replicas);
  });
}

/** The fewest pods of each component that serve during a rollout: a Deployment's do not get fewer, a StatefulSet's by one. */
async function promised(namespace: string): Promise<Record<string, number>> {
  const component = ({ metadata }: any) => metadata.labels['app.kubernetes.io/component'] as string;
  const all = [
    ...(await deployments(namespace)).map((one) => [component(one), one.spec.replicas]),
    ...(await statefulSets(namespace)).map((one) => [component(one), one.spec.replicas - 1]),
  ];
  return Object.fromEntries(all.sort());
}

/** What the fleet does in the first seconds: executors begin with one pod. */
async function scaleExecutors(namespace: string, pods: number): Promise<void> {
  for (const name of ['shell', 'files'])
    await cluster.plane.must(
      'PATCH',
      `/apis/apps/v1/namespaces/${namespace}/deployments/ym-yardmaster-executor-${name}/scale`,
      { spec: { replicas: pods } },
      { type: 'application/merge-patch+json' },
    );
  await until(() => isComplete(namespace), { timeoutMs: POLL.timeout, everyMs: 100, why: 'executors are not scaled' });
}

const cordon = (name: string, unschedulable: boolean) =>
  cluster.plane.must(
    'PATCH',
    `/api/v1/nodes/${name}`,
    { spec: { unschedulable } },
    { type: 'application/merge-patch+json' },
  );
const kubectl = (...args: string[]) => cluster.plane.run(variable('YM_KUBECTL'), args);
const drain = (name: string) =>
  kubectl('drain', name, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=100s');
const evict = ({ metadata: { name, namespace } }: PodObject) =>
  cluster.plane.api('POST', `/api/v1/namespaces/${namespace}/pods/${name}/eviction`, {
    apiVersion: 'policy/v1',
    kind: 'Eviction',
    metadata: { name, namespace },
  });

describe.skipIf(!HAS_CONTROLLERS)('with controllers and a scheduler', () => {
  beforeAll(async () => {
    cluster = await startCluster({ controllers: true });
    const { plane } = cluster;
    closers.push(
      await plane.follow<any>('/apis/batch/v1/jobs', (_, { metadata, status }) => {
        if (status.succeeded === 1) bootstrapped.add(metadata.namespace);
      }),
      await provideVolumes(plane),
    );
    nodes = await Nodes.start(plane, (pod) => ({
      startMs: 1_000,
      // A NATS server takes its time (lame duck). One that were back under its name before the controller of budgets has
      // seen it go would count as still to go, for two minutes.
      drainMs: componentOf(pod) === 'nats' ? 5_000 : 1_000,
      // A service is not ready before the streams are there. So a bootstrap that waited for the services would never come.
      ...(SERVERS.includes(componentOf(pod)) ? {} : { isReady: () => bootstrapped.has(pod.metadata.namespace) }),
    }));
    for (const name of NODES) await nodes.add(name);
    former = releases.version(PLATFORM, FORMER);
  });
  afterEach(async () => {
    for (const name of NODES) await cordon(name, false);
  });
  afterAll(async () => {
    try {
      await nodes?.stop();
      for (const close of closers) await close();
    } finally {
      await cluster?.plane.stop();
      releases.close();
    }
  });

  test.each<[HelmName, string]>([
    ['helm3', 'default'],
    ['helm4', 'ha'],
  ])(
    '%s, %s: waits for the end of each step, and nothing serves with fewer pods than promised',
    async (helm, profile) => {
      const namespace = `${helm}-${profile}`;
      await cluster.plane.namespace(namespace, 'privileged');
      const yard = releases.of(helm, namespace, { wait: true });
      await yard.install(former, undefined, profile);
      // Of one version from the first to the last, when helm says that it is done.
      const isAll = async (version: string) => {
        expect(await isComplete(namespace)).toBe(true);
        const own = (await working(namespace))
          .flatMap(({ spec }) => spec.containers as { image: string }[])
          .filter(({ image }) => image.startsWith('yardmaster/'));
        expect([...new Set(own.map(({ image }) => image.split(':')[1]))]).toEqual([version]);
      };
      await isAll(FORMER);
      if (profile === 'ha') await scaleExecutors(namespace, 2);
      const availability = await Availability.start(cluster.plane, namespace);
      try {
        const least = await promised(namespace);
        expect(Object.keys(availability.fewest)).toEqual(Object.keys(least));
        const budgets = await availability.budgets();
        const several = Object.entries(least).filter(([, count]) => count > 1);
        expect(budgets.map(({ component }) => component).sort()).toEqual(several.map(([name]) => name).sort());
        const changed = { config: { routing: { default_model: 'another' } } };
        for (const { step, version } of [
          { step: () => yard.upgrade(PLATFORM, changed, profile), version: CURRENT },
          { step: () => yard.rollback(1), version: FORMER },
        ]) {
          availability.begin();
          await step();
          await isAll(version);
          const { fewest } = availability;
          for (const [component, count] of Object.entries(least))
            expect(fewest[component], `${component} in ${JSON.stringify(fewest)}`).toBeGreaterThanOrEqual(count);
          for (const { component, least: kept } of budgets) expect(fewest[component]).toBeGreaterThanOrEqual(kept);
        }
      } finally {
        await availability.stop();
      }

      await yard.uninstall();
      // Pods end behind their owners; what every namespace has is not the release's.
      const left = async () =>
        [...(await cluster.everything(namespace)).keys()]
          .filter((key) => !['ServiceAccount/default', 'ConfigMap/kube-root-ca.crt'].includes(key))
          .sort();
      const servers = profile === 'ha' ? [0, 1, 2] : [0];
      const kept = [
        ...servers.map((n) => `PersistentVolumeClaim/data-ym-yardmaster-nats-${n}`),
        'PersistentVolumeClaim/data-ym-yardmaster-redis-0',
        'PersistentVolumeClaim/ym-yardmaster-workspace-shared',
        'Secret/ym-yardmaster-api-key',
        'Secret/ym-yardmaster-nats-auth',
        'Secret/ym-yardmaster-redis-auth',
      ];
      await expect.poll(left, POLL).toEqual(kept);
      // The command of docs/install.md.
      await kubectl('-n', namespace, 'delete', 'secret,pvc', '-l', 'app.kubernetes.io/instance=ym');
      await expect.poll(left, POLL).toEqual([]);
    },
  );

  describe('a node that is drained', () => {
    const HA = 'drained-ha';
    let availability: Availability;
    /** Every pod on one node: what one drain takes away is then everything. */
    async function installOn(node: string, namespace: string, profile: string): Promise<void> {
      for (const other of NODES) await cordon(other, other !== node);
      await cluster.plane.namespace(namespace, 'privileged');
      await releases.of('helm4', namespace, { wait: true }).install(PLATFORM, undefined, profile);
      if (profile === 'ha') await scaleExecutors(namespace, 2);
      const places = (await working(namespace)).map(({ spec }) => spec.nodeName as string);
      expect([...new Set(places)]).toEqual([node]);
      for (const other of NODES) await cordon(other, false);
    }
    beforeAll(async () => {
      await installOn('a', HA, 'ha');
      availability = await Availability.start(cluster.plane, HA);
    });
    afterAll(() => availability?.stop());
    const settled = async () => {
      await expect.poll(() => isComplete(HA), POLL).toBe(true);
      await expect
        .poll(async () => (await availability.budgets()).every(({ allowed }) => allowed === 1), POLL)
        .toBe(true);
      availability.begin();
    };
    /** Everything is back, and at no moment since `settled` were there fewer than a budget keeps. */
    const budgetsHeld = async () => {
      await expect.poll(() => isComplete(HA), POLL).toBe(true);
      const { fewest } = availability;
      for (const { component, least } of await availability.budgets())
        expect(fewest[component], `${component} in ${JSON.stringify(fewest)}`).toBeGreaterThanOrEqual(least);
    };

    test('profile ha: one pod of each service may be evicted, the next when another is ready', async () => {
      await settled();
      const budgets = await availability.budgets();
      expect(budgets.map(({ component }) => component).sort()).toEqual(
        ['api', 'dispatcher', 'executor-files', 'executor-shell', 'fleet', 'nats', 'registry', 'router'].sort(),
      );
      await Promise.all(
        budgets.map(async ({ component, least, expected }) => {
          expect([component, least, expected]).toEqual([component, expected - 1, component === 'nats' ? 3 : 2]);
          const [first, second] = availability.serving(component);
          expect((await evict(first!)).status, component).toBe(201);
          const refused = await evict(second!);
          expect(refused.status, component).toBe(429);
          expect(JSON.stringify(refused.body.details.causes)).toContain('DisruptionBudget');
          expect(availability.serving(component).length).toBeLessThan(expected);
          while ((await evict(second!)).status === 429) {
            // Refused as long as there is no other.
            await sleep(50);
          }
          await expect
            .poll(() => availability.serving(component).map(({ metadata }) => metadata.uid), POLL)
            .not.toContain(second!.metadata.uid);
        }),
      );
      await budgetsHeld();
    });
    test('profile ha: "kubectl drain" comes to its end, and no budget is broken', async () => {
      // All on one node again: what was evicted has gone to others.
      for (const other of ['b', 'c']) await cordon(other, true);
      await Promise.all(
        (await working(HA))
          .filter(({ spec }) => spec.nodeName !== 'a')
          .map(({ metadata }) => cluster.plane.must('DELETE', `/api/v1/namespaces/${HA}/pods/${metadata.name}`)),
      );
      await expect.poll(async () => (await working(HA)).every(({ spec }) => spec.nodeName === 'a'), POLL).toBe(true);
      for (const other of ['b', 'c']) await cordon(other, false);
      await settled();
      await drain('a');
      expect((await working(HA)).filter(({ spec }) => spec.nodeName === 'a')).toEqual([]);
      await budgetsHeld();
    });

    test('profile ha: pods that are not ready do not hold a drain up, but those of NATS, which have data', async () => {
      await settled();
      const budgets = await availability.budgets();
      const broken = (await working(HA)).filter((pod) => budgets.some((one) => one.component === componentOf(pod)));
      const conditions = [{ type: 'Ready', status: 'False', lastTransitionTime: new Date().toISOString() }];
      for (const { metadata } of broken)
        await cluster.plane.must(
          'PATCH',
          `/api/v1/namespaces/${HA}/pods/${metadata.name}/status`,
          { status: { conditions } },
          { type: 'application/strategic-merge-patch+json' },
        );
      await expect
        .poll(async () => (await availability.budgets()).every(({ allowed }) => allowed === 0), POLL)
        .toBe(true);
      for (const pod of broken)
        expect([componentOf(pod), (await evict(pod)).status]).toEqual([
          componentOf(pod),
          componentOf(pod) === 'nats' ? 429 : 201,
        ]);
      await kubectl('-n', HA, 'delete', 'pod', '-l', 'app.kubernetes.io/component=nats', '--wait=false');
      await expect.poll(() => isComplete(HA), POLL).toBe(true);
    });

    test('profile default: nothing holds the drain up, and what was there comes back elsewhere', async () => {
      const namespace = 'drained-default';
      await installOn('b', namespace, 'default');
      await drain('b');
      const moved = await working(namespace);
      expect(moved.filter(({ spec }) => spec.nodeName === 'b')).toEqual([]);
      await expect.poll(() => isComplete(namespace), POLL).toBe(true);
    });
  });
});
