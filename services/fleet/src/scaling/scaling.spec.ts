import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createLogger } from '@yardmaster/service-kit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { FakeApiServer } from '../fake-api-server.js';
import { KubernetesConnection } from '../kubernetes/connection.js';
import { systemTiming } from '../kubernetes/timing.js';
import { BusyPods, runningIn } from './busy-pods.js';
import { parseExecutors } from './executors-file.js';
import { ScaleClient } from './scale-client.js';
import { Scaling, type ScalingOptions } from './scaling.js';

let cluster: FakeApiServer;
let kubernetes: KubernetesConnection;
let metrics: Server;
let busy: BusyPods;

beforeEach(async () => {
  cluster = await new FakeApiServer().start();
  kubernetes = new KubernetesConnection(cluster.kubeConfig());
  busy = new BusyPods();
  metrics = createServer((_, response) => response.end('yardmaster_executor_running_calls{service="x"} 3\n'));
  await new Promise<void>((resolve) => metrics.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await busy.close();
  await kubernetes.close();
  await cluster.stop();
  metrics.closeAllConnections();
  await new Promise((resolve) => metrics.close(resolve));
});

function scalingOf(need: () => number, more: Partial<ScalingOptions> = {}) {
  const text = JSON.stringify({
    executors: {
      shell: {
        deployment: 'd',
        slots: 4,
        min: 0,
        max: 9,
        cooldown_s: 1,
        metrics_ports: [(metrics.address() as AddressInfo).port],
      },
    },
  });
  const targets = parseExecutors(text);
  const waits: number[] = [];
  let now = 0;
  const scaling = new Scaling({
    targets: () => targets,
    client: new ScaleClient(kubernetes.apps, kubernetes.core, 'yard'),
    queue: () => Promise.resolve({ known: need() }),
    busy,
    pollMs: 5_000,
    mayWrite: () => true,
    // Each look five seconds after the one before, at once.
    timing: { ...systemTiming, now: () => now, sleep: (ms) => (waits.push(ms), (now += ms), Promise.resolve()) },
    log: createLogger('fleet', 'silent'),
    ...more,
  });
  /** So many looks. */
  const look = async (times: number) => {
    const stop = new AbortController();
    waits.length = 0;
    const original = waits.push.bind(waits);
    waits.push = (...all) => (waits.length + 1 >= times && stop.abort(), original(...all));
    await scaling.run(stop.signal);
    waits.push = original;
  };
  return { scaling, look };
}

it('limits that change while it runs count at the next look; an executor that is taken out is left alone', async () => {
  cluster.scales.set('d', { replicas: 4, version: 1, selector: '' });
  const of = (min: number, max: number) =>
    parseExecutors(`executors: { shell: { deployment: d, slots: 4, min: ${min}, max: ${max}, cooldown_s: 600 } }`);
  let targets = of(1, 9);
  const { look, scaling } = scalingOf(() => 6, { targets: () => targets });
  const replicas = () => cluster.scales.get('d')!.replicas;
  await look(2);
  expect(replicas()).toBe(4);
  targets = of(1, 3);
  await look(1);
  expect(replicas()).toBe(3);
  targets = of(5, 9);
  await look(1);
  expect(replicas()).toBe(5);
  targets = [];
  cluster.scales.get('d')!.replicas = 0;
  await look(2);
  expect(replicas()).toBe(0);
  expect([...scaling.reports]).toEqual([]);
});

it('a number that a person sets is taken from there: below the minimum at once, above the need step by step', async () => {
  cluster.scales.set('d', { replicas: 1, version: 1, selector: '' });
  const targets = parseExecutors('executors: { shell: { deployment: d, slots: 4, min: 1, max: 20, cooldown_s: 1 } }');
  const { look } = scalingOf(() => 3, { targets: () => targets });
  const set = (replicas: number) => cluster.scales.set('d', { replicas, version: 50 + replicas, selector: '' });
  const replicas = () => cluster.scales.get('d')!.replicas;
  set(0);
  await look(1);
  expect(replicas()).toBe(1);
  set(12);
  await look(2);
  expect(replicas()).toBe(6);
  await look(12);
  expect(replicas()).toBe(3);
});

it('several kinds on one Deployment: what they need together counts, and one that cannot be read holds it', async () => {
  cluster.scales.set('d', { replicas: 1, version: 1, selector: '' });
  const targets = parseExecutors('executors: { one: { deployment: d, kinds: [shell, files], slots: 4, max: 9 } }');
  let away = false;
  const queue = (stream: string) =>
    away && stream.endsWith('FILES') ? Promise.reject(new Error('no such stream')) : Promise.resolve({ known: 6 });
  const { look, scaling } = scalingOf(() => 0, { targets: () => targets, queue });
  await look(1);
  expect(cluster.scales.get('d')!.replicas).toBe(4);
  away = true;
  await look(1);
  expect(cluster.scales.get('d')!.replicas).toBe(4);
  expect(scaling.reports.get('one')!.verdict.reason).toContain('the queue of kind "files"');
});

it('before pods go the busy ones are marked, and one that does not say is left as it is', async () => {
  cluster.scales.set('d', { replicas: 2, version: 1, selector: 'app=shell' });
  const pod = (name: string, ip: string, app = 'shell') => ({
    name,
    ip,
    labels: { app },
    annotations: {} as Record<string, string>,
  });
  cluster.pods.push(pod('busy', '127.0.0.1'), pod('silent', '127.0.0.99'), pod('foreign', '127.0.0.1', 'other'));
  const { look } = scalingOf(() => 0);
  await look(4);
  expect(cluster.scales.get('d')!.replicas).toBe(1);
  expect(cluster.pods.map(({ annotations }) => annotations['controller.kubernetes.io/pod-deletion-cost'])).toEqual([
    '3',
    undefined,
    undefined,
  ]);
  const order = cluster.requests.filter(({ method }) => method === 'PATCH').map(({ path }) => path.split('/').at(-1));
  expect(order).toEqual(['busy', 'scale']);
  expect(cluster.requests.find(({ path }) => path.endsWith('/pods'))!.query.get('labelSelector')).toBe('app=shell');
});

it('pods that cannot be marked do not keep the number from changing', async () => {
  cluster.scales.set('d', { replicas: 2, version: 1, selector: 'app=shell' });
  cluster.intercept = ({ path }) => (path.includes('/pods') ? 403 : undefined);
  await scalingOf(() => 0).look(4);
  expect(cluster.scales.get('d')!.replicas).toBe(1);
});

it('who no longer leads writes nothing, and says so', async () => {
  cluster.scales.set('d', { replicas: 1, version: 1, selector: '' });
  const { scaling, look } = scalingOf(() => 20, { mayWrite: () => false });
  await look(3);
  expect(cluster.scales.get('d')!.replicas).toBe(1);
  expect(cluster.requests.every(({ method }) => method === 'GET')).toBe(true);
  expect(scaling.reports.get('shell')!.verdict).toMatchObject({ action: 'hold', reason: 'another replica leads now' });
});

it('the change goes against the version that was read: whoever scaled in between is not overwritten', async () => {
  cluster.scales.set('d', { replicas: 1, version: 1, selector: '' });
  let raced = false;
  cluster.intercept = ({ method, path }) => {
    if (method !== 'PATCH' || raced || !path.endsWith('/scale')) return undefined;
    raced = true;
    // A person with kubectl, between our reading and our writing.
    cluster.scales.set('d', { replicas: 8, version: 2, selector: '' });
    return undefined;
  };
  const { look, scaling } = scalingOf(() => 9);
  await look(1);
  expect(cluster.scales.get('d')!.replicas).toBe(8);
  expect(scaling.decisions[0]).toMatchObject({ action: 'hold', reason: expect.stringContaining('409') as string });
});

it('a Deployment whose status moves while its number stays is scaled all the same', async () => {
  cluster.scales.set('d', { replicas: 1, version: 1, selector: '' });
  let moves = 3;
  cluster.intercept = ({ method, path }) => {
    // A pod of it became ready, between our reading and our writing.
    if (method === 'PATCH' && path.endsWith('/scale') && moves-- > 0) cluster.scales.get('d')!.version++;
    return undefined;
  };
  const { look } = scalingOf(() => 9);
  await look(1);
  expect(cluster.scales.get('d')!.replicas).toBe(3);
});

it('a right that is missing is named, once among the decisions however long it lasts', async () => {
  cluster.intercept = ({ path }) => (path.endsWith('/scale') ? 403 : undefined);
  const { look, scaling } = scalingOf(() => 9);
  await look(5);
  expect(scaling.reports.get('shell')!.verdict).toMatchObject({ action: 'hold', desired: undefined });
  expect(scaling.decisions).toHaveLength(1);
  expect(scaling.decisions[0]!.reason).toContain('the Role of the fleet must name it');
});

describe('the file of executors', () => {
  it('fills in what is not said', () => {
    expect(parseExecutors('executors: { shell: { deployment: d, slots: 4, max: 3 } }')).toEqual([
      {
        name: 'shell',
        deployment: 'd',
        kinds: ['shell'],
        min: 1,
        max: 3,
        callsPerPod: 3,
        cooldownMs: 300_000,
        metricsPorts: [9090],
      },
    ]);
    expect(parseExecutors('')).toEqual([]);
  });
  it.each([
    ['executors: { a: { slots: 1, max: 1 } }', 'executors.a.deployment: must be the name of a Deployment'],
    [
      'executors: { a: { deployment: d, slots: 0, max: 1 } }',
      'executors.a.slots: must be a whole number of at least 1',
    ],
    ['executors: { a: { deployment: d, slots: 1, min: 3, max: 1 } }', 'executors.a.min: must not be above max'],
    ['executors: { a: { deployment: d, slots: 1, max: 1, mix: 1 } }', 'executors.a.mix: there is no such key'],
    [
      'executors: { a: { deployment: d, slots: 1, max: 1, kinds: [A.b] } }',
      'executors.a.kinds: must be a list of executor kinds',
    ],
    [
      'executors: { a: { deployment: d, slots: 1, max: 1 }, b: { deployment: d, slots: 1, max: 1 } }',
      'executors.b.deployment: d is that of executors.a too',
    ],
    ['executors: [', 'YM_FLEET_EXECUTORS: '],
  ])('%s is refused with the key and the rule', (text, words) => expect(() => parseExecutors(text)).toThrow(words));
});

it('reads the running calls of a page of metrics', () => {
  expect(
    runningIn('a 1\nyardmaster_executor_running_calls{service="x"} 2\nyardmaster_executor_running_calls 1\n'),
  ).toBe(3);
  expect(runningIn('yardmaster_executor_running_calls_other 2\n')).toBeUndefined();
});
