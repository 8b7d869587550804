import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bus, ensureTopology, type KvSnapshot } from '@yardmaster/bus';
import {
  BUCKETS,
  newId,
  subjects,
  tenantId,
  type ToolCall,
  ToolCallSchema,
  ToolResultSchema,
  toolStream,
  toolWork,
} from '@yardmaster/contracts';
import { argsHash } from '@yardmaster/executor-kit';
import { ServerProcess } from '@yardmaster/local-stack';
import type { FoundProvider } from '@yardmaster/service-kit';
import { type Servers, startServers, until } from '@yardmaster/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { LLAMA, LLAMA_VALUES, PLATFORM, root } from '../charts/helm.ts';
import { auditPolicy, scaleWrites, tokenId } from './audit.ts';
import { freePort } from './control-plane.ts';
import { FleetProcesses } from './fleet-processes.ts';
import { ADDRESS, startLlama } from './llama-server.ts';
import { componentOf, isReady, Nodes, type PodObject, type Program, provideVolumes } from './nodes.ts';
import { type Cluster, HAS_CONTROLLERS, startCluster } from './objects.ts';
import { Releases } from './release.ts';

/* eslint-disable @typescript-eslint/no-explicit-any */
// The fleet against everything that acts on what it writes: a backlog in a real JetStream, the ReplicaSets and pods that
// come of its numbers, the EndpointSlices that come of pods. Executors' pods run the executor kit.
const NAMESPACE = 'yard';
const SHELL = 'ym-yardmaster-executor-shell';
const FLEET = 'ym-yardmaster-fleet';
const ACCOUNT = `system:serviceaccount:${NAMESPACE}:${FLEET}`;
const SLOTS = 4;
/** floor(4 x 0.8): what the chart's values come to. */
const CALLS_PER_POD = 3;
const acme = tenantId('acme');
const LONG = { timeout: 90_000, interval: 100 };
const folder = mkdtempSync(join(tmpdir(), 'yardmaster-scaling-'));
const at = (name: string) => join(folder, name);

let cluster: Cluster;
let nodes: Nodes;
let servers: Servers;
let setup: Bus;
let dispatcher: Bus;
let caller: Bus;
let providers: KvSnapshot<FoundProvider>;
let metricsPort: number;
let healthPort: number;
let llama: Awaited<ReturnType<typeof startLlama>>;
/** Whether something runs in executors' pods; otherwise they are ready and do nothing. */
let populated = true;
const releases = new Releases(() => cluster);
const closers: (() => Promise<unknown>)[] = [];
const fleets = new FleetProcesses(folder, () => ({
  YM_NATS_URL: servers.natsUrl,
  YM_NATS_PASSWORD_FILE: at('fleet-password'),
  YM_CONFIG: at('config.yaml'),
  YM_FLEET_NAMESPACE: NAMESPACE,
  YM_FLEET_LEASE: FLEET,
  YM_FLEET_EXECUTORS: at('executors.yaml'),
}));
/** The token of each replica of the fleet, as the API server's log names it. */
const tokens = new Map<string, string>();

async function startFleet(name: string, env: Record<string, string> = {}): Promise<void> {
  const path = `/api/v1/namespaces/${NAMESPACE}/serviceaccounts/${FLEET}/token`;
  const { status } = await cluster.plane.must('POST', path, { spec: { expirationSeconds: 3600 } });
  const kubeconfig = at(`${name}.kubeconfig`);
  cluster.plane.writeKubeconfig(kubeconfig, status.token);
  tokens.set(name, tokenId(status.token));
  await fleets.start(name, { KUBECONFIG: kubeconfig, ...env });
}

/** An executor's process, at its pod's address. */
async function startExecutor({ metadata }: PodObject, address: string): Promise<Program> {
  const process_ = await ServerProcess.start({
    command: [process.execPath, `${root}test/cluster/executor-pod.ts`],
    log: at(`${metadata.name}.log`),
    graceMs: 130_000,
    env: {
      PATH: process.env['PATH'],
      YM_NATS_URL: servers.natsUrl,
      YM_NATS_USER: 'executor-shell',
      YM_NATS_PASSWORD_FILE: at('executor-password'),
      YM_HOST: address,
      YM_HEALTH_PORT: String(healthPort),
      YM_METRICS_PORT: String(metricsPort),
      YM_DRAIN_MS: '120000',
      YM_EXECUTOR_SLOTS: String(SLOTS),
      HOLD_FOLDER: at('calls'),
      HOLD_POD: metadata.name,
    },
  });
  return process_;
}

const answers = async (url: string) => {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(1_000) })).ok;
  } catch {
    return false;
  }
};

const podsOf = async (component: string): Promise<PodObject[]> => {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=${component}`;
  return (await cluster.plane.must('GET', path)).items;
};
const executors = async () => podsOf('executor-shell');
const staying = async () => (await executors()).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
const deployment = () => cluster.plane.must('GET', `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${SHELL}`);
const readyPods = async () => (await staying()).filter(isReady).length;
const lease = () => cluster.plane.must('GET', `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/${FLEET}`);
const isLeader = async (name: string) => (await fleets.leaders()).includes(name);

const callOf = (): ToolCall => {
  const callId = newId();
  const argumentsJson = JSON.stringify({ id: callId });
  return {
    name: 'hold',
    runId: newId(),
    callId,
    nonce: newId(),
    argumentsJson,
    argsHash: argsHash(argumentsJson),
    historySeq: 1n,
    tenant: acme as string,
    effect: 'unsafe',
  } as ToolCall;
};
const enqueue = async (count: number): Promise<ToolCall[]> => {
  const calls = Array.from({ length: count }, callOf);
  for (const call of calls) await dispatcher.enqueue(subjects.tool('shell', acme), ToolCallSchema, call);
  return calls;
};
const purge = () => setup.nc.request(`$JS.API.STREAM.PURGE.${toolStream('shell')}`, '');

/** Who ran what: each call's pods, once for each time that it began, and whether it came to its end. */
function ran(): Map<string, { pods: string[]; ended: boolean }> {
  const found = new Map<string, { pods: string[]; ended: boolean }>();
  let text = '';
  try {
    text = readFileSync(at('calls/calls.jsonl'), 'utf8');
  } catch {
    // Nothing has run yet.
  }
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const { id, pod, event } = JSON.parse(line) as { id: string; pod: string; event: 'begin' | 'end' };
    const call = found.get(id) ?? { pods: [], ended: false };
    found.set(id, event === 'begin' ? { ...call, pods: [...call.pods, pod] } : { ...call, ended: true });
  }
  return found;
}
const letEnd = (calls: readonly { callId: string }[]) => {
  for (const { callId } of calls) writeFileSync(at(`calls/${callId}`), '');
};
const resultOf = async ({ runId, callId, nonce }: ToolCall) =>
  (await dispatcher.getStored('YM_RES', subjects.result(acme, runId, callId, nonce), ToolResultSchema))?.message;

describe.skipIf(!HAS_CONTROLLERS)('with controllers and a scheduler', () => {
  beforeAll(async () => {
    mkdirSync(at('calls'));
    writeFileSync(at('audit-policy.yaml'), JSON.stringify(auditPolicy(ACCOUNT)));
    const apiserverArgs = [`--audit-policy-file=${at('audit-policy.yaml')}`, `--audit-log-path=${at('audit.log')}`];
    [cluster, servers] = await Promise.all([
      startCluster({ controllers: true, apiserverArgs }),
      startServers({ executors: ['shell'] }),
    ]);
    [metricsPort, healthPort] = [await freePort(), await freePort()];
    const connect = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
    setup = await connect('setup');
    await ensureTopology(setup, { kinds: ['shell'], share: 64 });
    [caller, dispatcher] = await Promise.all([connect('api'), connect('dispatcher')]);
    providers = await caller.watch(
      BUCKETS.providers,
      (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as FoundProvider,
    );
    writeFileSync(at('fleet-password'), servers.nats.login('fleet').pass);
    writeFileSync(at('executor-password'), servers.nats.login('executor-shell').pass);
    const local = { kind: 'llamacpp', base_url: `http://qwen-llama.${NAMESPACE}.svc:8080/v1`, auth: 'none' };
    writeFileSync(at('config.yaml'), JSON.stringify({ providers: { local } }));

    const { plane } = cluster;
    await plane.namespace(NAMESPACE, 'privileged');
    closers.push(await provideVolumes(plane));
    nodes = await Nodes.start(plane, (pod, address) => {
      // The same numbers below 127: every one of them is this machine on Linux.
      const own = address.replace(/^10\.244/, '127.1');
      if (componentOf(pod) === 'executor-shell' && populated)
        return {
          startMs: 0,
          drainMs: 0,
          address: own,
          start: () => startExecutor(pod, own),
          isReady: () => answers(`http://${own}:${healthPort}/readyz`),
        };
      if (pod.metadata.labels?.['app.kubernetes.io/name'] === 'llama')
        return { startMs: 200, drainMs: 4_000, ...(ADDRESS === undefined ? {} : { address: ADDRESS }) };
      return { startMs: 200, drainMs: 200 };
    });
    for (const name of ['a', 'b']) await nodes.add(name);
    // What the fleet may do and what it is told is what the chart says of it.
    await releases.of('helm4', NAMESPACE, { wait: true }).install(PLATFORM, {
      fleet: { deletionCost: { enabled: true } },
      llamaReleases: { enabled: true },
      executors: {
        files: { enabled: false },
        shell: { slots: SLOTS, scaler: { min: 0, max: 9, cooldownSeconds: 1 } },
      },
    });
    const { data } = await plane.must('GET', `/api/v1/namespaces/${NAMESPACE}/configmaps/${FLEET}-executors`);
    const told = parse(data['executors.yaml']);
    // A port that is free here, instead of each pod's own 9090.
    told.executors.shell.metrics_ports = [metricsPort];
    writeFileSync(at('executors.yaml'), stringify(told));
  });
  afterAll(async () => {
    try {
      for (const name of fleets.running.keys()) fleets.get(name).signal('SIGCONT');
      await fleets.stopAll();
      await nodes?.stop();
      for (const close of closers) await close();
      await llama?.close();
    } finally {
      await Promise.all([caller, dispatcher, setup].map((bus) => bus?.close()));
      await Promise.all([cluster?.plane.stop(), servers?.stop()]);
      releases.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });

  /** No pod, no call, no fleet that remembers any. */
  async function beginWithNone() {
    await fleets.stopAll();
    await purge();
    const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${SHELL}/scale`;
    await cluster.plane.must('PATCH', path, { spec: { replicas: 0 } }, { type: 'application/merge-patch+json' });
    await until(async () => (await executors()).length === 0, { timeoutMs: 60_000, why: 'executors are not gone' });
  }

  /** From none to three with nine calls, which all run; which calls run in which pod. */
  async function scaleToThree() {
    const calls = await enqueue(3 * CALLS_PER_POD);
    await expect.poll(async () => (await deployment()).spec.replicas, LONG).toBe(3);
    const begun = () => calls.filter(({ callId }) => ran().has(callId)).length;
    await expect.poll(begun, LONG).toBe(calls.length);
    await expect.poll(readyPods, LONG).toBe(3);
    const pods = await staying();
    // Two pods share a node. Of equals Kubernetes takes those first, so what is not marked would go.
    const places = pods.map(({ spec }) => spec.nodeName as string);
    const [busy] = pods.filter(({ spec }) => places.filter((place) => place === spec.nodeName).length === 2);
    const own = calls.filter(({ callId }) => ran().get(callId)!.pods.includes(busy!.metadata.name));
    expect(own.length).toBeGreaterThan(0);
    const lasting = own.slice(0, CALLS_PER_POD);
    return { calls, busy: busy!, lasting, others: calls.filter((call) => !lasting.includes(call)) };
  }
  /** Ends these calls between two looks of the fleet: what it sees next is all that is left. */
  async function endUnseen(fleet: string, calls: readonly ToolCall[], left: number) {
    fleets.get(fleet).signal('SIGSTOP');
    letEnd(calls);
    const { stream, consumer } = toolWork('shell');
    await expect.poll(async () => (await setup.queueState(stream, consumer)).known, LONG).toBe(left);
    fleets.get(fleet).signal('SIGCONT');
  }
  async function eachRanOnce(calls: readonly ToolCall[]) {
    for (const call of calls) {
      await expect.poll(async () => (await resultOf(call))?.ok, LONG).toBe(true);
      expect(ran().get(call.callId)).toMatchObject({ pods: [expect.any(String)], ended: true });
    }
  }

  describe.skipIf(process.platform !== 'linux')('an executor goes from 0 to 3 and back with its backlog', () => {
    beforeEach(beginWithNone);
    // What a test that failed has left would wait for its calls.
    afterEach(() => letEnd([...ran().keys()].map((callId) => ({ callId }))));

    test('without deletion cost a busy pod may go, and its calls come to their end in it', async () => {
      await startFleet('plain');
      const { calls, busy, lasting, others } = await scaleToThree();
      await endUnseen('plain', others, lasting.length);
      await expect.poll(async () => (await staying()).length, LONG).toBe(1);
      const [left] = await staying();
      expect(left!.metadata.uid).not.toBe(busy.metadata.uid);
      // It has been told to end, and waits for its calls.
      const ending = (await executors()).filter(({ metadata }) => metadata.uid === busy.metadata.uid);
      expect(ending.map(({ metadata }) => metadata.deletionTimestamp !== undefined)).toEqual([true]);
      expect(lasting.map(({ callId }) => ran().get(callId)!.ended)).toEqual(lasting.map(() => false));
      letEnd(lasting);
      await eachRanOnce(calls);
    });

    test('with deletion cost the busy pod stays, and all are gone when the last call is', async () => {
      await startFleet('marking', { YM_FLEET_DELETION_COST: 'true' });
      const { calls, busy, lasting, others } = await scaleToThree();
      await endUnseen('marking', others, lasting.length);
      await expect.poll(async () => (await staying()).length, LONG).toBe(1);
      const [left] = await staying();
      expect(left!.metadata.uid).toBe(busy.metadata.uid);
      expect(left!.metadata.annotations).toMatchObject({
        'controller.kubernetes.io/pod-deletion-cost': String(lasting.length),
      });
      expect(lasting.map(({ callId }) => ran().get(callId)!.ended)).toEqual(lasting.map(() => false));
      letEnd(lasting);
      await eachRanOnce(calls);
      // No more than one in a minute.
      await expect.poll(async () => (await executors()).length, { timeout: 150_000, interval: 500 }).toBe(0);
      expect((await deployment()).spec.replicas).toBe(0);
    });
  });

  describe.skipIf(ADDRESS === undefined)('a release of charts/llama', () => {
    const phases = () =>
      Object.fromEntries(
        [...providers.current.values()].flatMap(({ found }) =>
          found === undefined ? [] : [[found.pod, found.phase] as const],
        ),
      );
    const llamas = async (): Promise<PodObject[]> => {
      const path = `/api/v1/namespaces/${NAMESPACE}/pods?labelSelector=app.kubernetes.io/name=llama`;
      return (await cluster.plane.must('GET', path)).items;
    };

    test('its pod waits for a GPU, is found when it serves, and is forgotten when it is gone', async () => {
      await fleets.stopAll();
      await startFleet('finder');
      llama = await startLlama(ADDRESS!);
      await releases.of('helm4', NAMESPACE, { release: 'qwen' }).install(LLAMA, LLAMA_VALUES);
      // The port at which it answers here, instead of its own 8080.
      const ports = '/spec/template/spec/containers/0/ports/0';
      const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/qwen-llama`;
      await cluster.plane.must(
        'PATCH',
        path,
        [
          { op: 'test', path: `${ports}/name`, value: 'http' },
          { op: 'replace', path: `${ports}/containerPort`, value: llama.port },
        ],
        { type: 'application/json-patch+json' },
      );
      await nodes.add('gpu', { taints: [{ key: 'nvidia.com/gpu', value: 'present', effect: 'NoSchedule' }] });
      const unschedulable = async () =>
        (await llamas())
          .flatMap(({ status }) => status.conditions ?? [])
          .map(({ reason, message }: any) => `${reason}: ${message}`)
          .join();
      await expect.poll(unschedulable, LONG).toMatch(/Unschedulable.*Insufficient nvidia\.com\/gpu/);
      expect(phases()).toEqual({});

      await nodes.set('gpu', { 'nvidia.com/gpu': '1' });
      await expect.poll(async () => (await llamas()).filter(isReady).length, LONG).toBe(1);
      const [first] = await llamas();
      expect(first!.spec.nodeName).toBe('gpu');
      await expect.poll(phases, LONG).toEqual({ [first!.metadata.name]: 'ready' });
      expect([...providers.current.values()].map(({ base_url, slots }) => ({ base_url, slots }))).toEqual([
        { base_url: `http://${ADDRESS}:${llama.port}/v1`, slots: 4 },
      ]);

      await cluster.plane.must('DELETE', `/api/v1/namespaces/${NAMESPACE}/pods/${first!.metadata.name}`);
      // While it ends it holds the GPU, and what runs in it goes on.
      await expect.poll(phases, { ...LONG, interval: 20 }).toEqual({ [first!.metadata.name]: 'draining' });
      await expect.poll(() => Object.keys(phases()), LONG).not.toContain(first!.metadata.name);
      await expect.poll(() => Object.values(phases()), LONG).toEqual(['ready']);
      expect(Object.keys(phases())).not.toContain(first!.metadata.name);
      const slices = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices?labelSelector=kubernetes.io/service-name=qwen-llama`;
      const { items } = await cluster.plane.must('GET', slices);
      expect(items.map(({ metadata }: any) => metadata.labels['endpointslice.kubernetes.io/managed-by'])).toEqual([
        'endpointslice-controller.k8s.io',
      ]);
      await releases.of('helm4', NAMESPACE, { release: 'qwen', wait: true }).uninstall();
      await expect.poll(phases, LONG).toEqual({});
    });
  });

  describe('the leader is lost in the middle of scaling', () => {
    /** Every number was written by whoever held the Lease, while it was fresh; by whom, in order. */
    const writers = (since: number): string[] => {
      const names = new Map([...tokens].map(([name, token]) => [token, name]));
      return scaleWrites(at('audit.log'))
        .slice(since)
        .map((write) => {
          expect(write.writer, JSON.stringify(write)).toBe(write.holder);
          expect(write.leaseAgeMs).toBeLessThan(9_000);
          expect(write.deployment).toBe(SHELL);
          return `${names.get(write.writer)} ${write.pods}`;
        });
    };
    const allReady = (count: number) => expect.poll(readyPods, { ...LONG, message: `${count} pods` }).toBe(count);
    let since: number;
    beforeEach(async () => {
      populated = false;
      await beginWithNone();
      since = scaleWrites(at('audit.log')).length;
    });

    test('killed: the next one brings it to its end, and nobody writes without the Lease', async () => {
      await startFleet('first');
      await expect.poll(() => isLeader('first'), LONG).toBe(true);
      await startFleet('second');
      // Eight pods are wanted, and no more than four come at once.
      await enqueue(8 * CALLS_PER_POD);
      await expect.poll(async () => (await deployment()).spec.replicas, { ...LONG, interval: 20 }).toBe(4);
      const { holderIdentity } = (await lease()).spec;
      await fleets.kill('first');
      await allReady(8);
      expect(writers(since)).toEqual(['first 4', 'second 8']);
      expect((await lease()).spec.holderIdentity).not.toBe(holderIdentity);
    });

    test('frozen, and awake when another leads: it does not go on where it was', async () => {
      await startFleet('third');
      await expect.poll(() => isLeader('third'), LONG).toBe(true);
      await enqueue(CALLS_PER_POD);
      await allReady(1);
      fleets.get('third').signal('SIGSTOP');
      await startFleet('fourth');
      await expect.poll(() => isLeader('fourth'), LONG).toBe(true);
      // The one that leads stands still too, so that what is wanted now is there for the one that did.
      fleets.get('fourth').signal('SIGSTOP');
      await enqueue(CALLS_PER_POD);
      fleets.get('third').signal('SIGCONT');
      await sleep(4_000);
      expect((await deployment()).spec.replicas).toBe(1);
      fleets.get('fourth').signal('SIGCONT');
      await allReady(2);
      expect(writers(since)).toEqual(['third 1', 'fourth 2']);
    });
  });

  test('uninstalled, it leaves what the documentation says', async () => {
    await fleets.stopAll();
    await releases.of('helm4', NAMESPACE, { wait: true }).uninstall();
    const left = async () =>
      [...(await cluster.everything(NAMESPACE)).keys()].filter((key) => !/^(Secret|PersistentVolumeClaim)\//.test(key));
    const always = ['ConfigMap/kube-root-ca.crt', 'ServiceAccount/default'];
    await expect.poll(async () => (await left()).sort(), LONG).toEqual([...always, `Lease/${FLEET}`].sort());
  });
});
