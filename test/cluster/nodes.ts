import { setTimeout as sleep } from 'node:timers/promises';
import type { Change, ControlPlane } from './control-plane.ts';

/* eslint-disable @typescript-eslint/no-explicit-any */
export interface PodObject {
  metadata: {
    name: string;
    namespace: string;
    uid: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    deletionTimestamp?: string;
    deletionGracePeriodSeconds?: number;
    ownerReferences?: { kind: string; name: string }[];
  };
  spec: any;
  status: any;
}

/** A process that a pod stands for. */
export interface Program {
  /** SIGTERM; resolves when it has ended. */
  stop(): Promise<unknown>;
  /** SIGKILL. */
  kill(): Promise<unknown>;
}

/** What happens in a pod, as far as Kubernetes hears of it. */
export interface Life {
  /** From when its volumes are there until its containers may be ready, or have done their work if it is a Job's. */
  startMs: number;
  /** From SIGTERM until its containers have ended, where no program says it; its grace period at the most. */
  drainMs: number;
  /** Its address, instead of one that nobody answers at. */
  address?: string;
  /** Its readiness probe: asked again and again until it says yes. */
  isReady?: () => boolean | Promise<boolean>;
  /** What runs in it. */
  start?: () => Promise<Program>;
}

export interface NodeOptions {
  /** Besides CPU, memory and disk that are never short. */
  resources?: Record<string, string>;
  taints?: { key: string; value?: string; effect: string }[];
}

const HEARTBEAT_MS = 10_000;
const PROBE_MS = 100;
const MERGE = { type: 'application/strategic-merge-patch+json' };

export const ownedBy = ({ metadata }: PodObject, kind: string) =>
  metadata.ownerReferences?.some((owner) => owner.kind === kind) ?? false;
export const componentOf = ({ metadata }: PodObject) => metadata.labels?.['app.kubernetes.io/component'] ?? '';
export const isReady = ({ status }: PodObject) =>
  status?.conditions?.some((one: any) => one.type === 'Ready' && one.status === 'True') ?? false;

/**
 * Nodes without machines: what a kubelet says to the API server, without containers. Its nodes stay ready; a pod that is
 * bound to one waits for its volumes as it would there (Secrets, ConfigMaps and their keys, claims), starts, becomes
 * ready, and when it is deleted it ends and the deletion is confirmed.
 */
export class Nodes {
  private readonly names = new Set<string>();
  private readonly running = new Map<string, RunningPod>();
  private readonly heart: NodeJS.Timeout;
  private problem: unknown;
  private unfollow: () => Promise<void> = () => Promise.resolve();
  private addresses = 0;

  private constructor(
    private readonly plane: ControlPlane,
    private readonly life: (pod: PodObject, address: string) => Life,
  ) {
    this.heart = setInterval(() => {
      for (const name of this.names) this.beat(name).catch((error: unknown) => (this.problem ??= error));
    }, HEARTBEAT_MS);
  }

  /** `life` is asked once for each pod, with an address that is its alone. */
  static async start(plane: ControlPlane, life: (pod: PodObject, address: string) => Life): Promise<Nodes> {
    const nodes = new Nodes(plane, life);
    nodes.unfollow = await plane.follow<PodObject>('/api/v1/pods', (change, pod) => nodes.learn(change, pod));
    return nodes;
  }

  /** Resolves when the scheduler may use it. */
  async add(name: string, { resources = {}, taints = [] }: NodeOptions = {}): Promise<void> {
    const labels = { 'kubernetes.io/hostname': name, 'kubernetes.io/os': 'linux' };
    await this.plane.must('POST', '/api/v1/nodes', { metadata: { name, labels }, spec: { taints } });
    this.names.add(name);
    await this.beat(name);
    await this.set(name, resources);
    const path = `/api/v1/nodes/${name}`;
    // A new node is not to be used until its controller has seen that it is ready.
    for (;;) {
      const { spec } = await this.plane.must('GET', path);
      if (!(spec.taints ?? []).some(({ key }: { key: string }) => key.startsWith('node.kubernetes.io/'))) return;
      await sleep(50);
    }
  }

  /** What a node has, as its device plugins tell it: on top of the rest. */
  async set(name: string, resources: Record<string, string>): Promise<void> {
    const capacity = { cpu: '64', memory: '256Gi', pods: '110', 'ephemeral-storage': '1000Gi', ...resources };
    const now = new Date().toISOString();
    const condition = (type: string, status: string) => ({
      type,
      status,
      reason: 'StandIn',
      lastHeartbeatTime: now,
      lastTransitionTime: now,
    });
    const pressure = ['MemoryPressure', 'DiskPressure', 'PIDPressure'].map((type) => condition(type, 'False'));
    const conditions = [...pressure, condition('Ready', 'True')];
    const status = { capacity, allocatable: capacity, conditions };
    await this.plane.must('PATCH', `/api/v1/nodes/${name}/status`, { status }, MERGE);
  }

  private async beat(name: string): Promise<void> {
    const path = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const body = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name },
      spec: {
        holderIdentity: name,
        leaseDurationSeconds: 40,
        renewTime: new Date().toISOString().replace('Z', '000Z'),
      },
    };
    const apply = { type: 'application/apply-patch+yaml' };
    await this.plane.must('PATCH', `${path}/${name}?fieldManager=${name}&force=true`, body, apply);
  }

  private learn(change: Change, pod: PodObject): void {
    const { uid, deletionTimestamp } = pod.metadata;
    const known = this.running.get(uid);
    if (change === 'DELETED') {
      known?.vanish();
      this.running.delete(uid);
      return;
    }
    if (!this.names.has(pod.spec.nodeName)) return;
    if (known === undefined) {
      const n = this.addresses++;
      const address = `10.244.${n >> 8}.${n & 255}`;
      const started = new RunningPod(this.plane, pod, this.life(pod, address), address);
      this.running.set(uid, started);
      started.done.catch((error: unknown) => (this.problem ??= error));
      if (deletionTimestamp !== undefined) started.end(pod);
    } else if (deletionTimestamp !== undefined) known.end(pod);
  }

  /** Ends what runs in pods, and throws what went wrong meanwhile. */
  async stop(): Promise<void> {
    clearInterval(this.heart);
    const following = this.unfollow();
    await Promise.all([...this.running.values()].map((pod) => pod.vanish()));
    await following;
    if (this.problem !== undefined) throw this.problem;
  }
}

class RunningPod {
  /** Resolves when there is nothing more to say about it. */
  readonly done: Promise<void>;
  private readonly stopping = new AbortController();
  private readonly vanished = new AbortController();
  private readonly path: string;
  private program: Program | undefined;
  private deleted: PodObject | undefined;
  /** Its containers have done their work: nothing is left to end. */
  private completed = false;

  constructor(
    private readonly plane: ControlPlane,
    private readonly pod: PodObject,
    private readonly life: Life,
    private readonly ownAddress: string,
  ) {
    this.path = `/api/v1/namespaces/${pod.metadata.namespace}/pods/${pod.metadata.name}`;
    this.done = this.live();
  }

  /** It has been deleted: SIGTERM. */
  end(deleted: PodObject): void {
    this.deleted ??= deleted;
    this.stopping.abort();
  }

  /** It is not in the API any more: nothing may be left of it. */
  async vanish(): Promise<void> {
    this.vanished.abort();
    this.stopping.abort();
    await this.program?.kill();
  }

  private async live(): Promise<void> {
    const { signal } = this.stopping;
    try {
      await this.begin(signal);
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (this.deleted !== undefined && !this.vanished.signal.aborted) await this.finish(this.deleted);
  }

  private async begin(signal: AbortSignal): Promise<void> {
    const { life, pod } = this;
    const startedAt = new Date().toISOString();
    for (let looks = 0; ; looks++) {
      const missing = await this.missingVolume();
      if (missing === undefined) break;
      if (looks === 300) console.log(`pod ${pod.metadata.name} waits for ${missing}`);
      await sleep(PROBE_MS, undefined, { signal });
    }
    this.program = await life.start?.();
    await sleep(life.startMs, undefined, { signal });
    while (!((await life.isReady?.()) ?? true)) await sleep(PROBE_MS, undefined, { signal });
    await this.report(startedAt, 'Running');
    if (!ownedBy(pod, 'Job')) return;
    await sleep(life.startMs, undefined, { signal });
    await this.report(startedAt, 'Succeeded');
    this.completed = true;
  }

  /** What a kubelet would wait for before it starts a container. */
  private async missingVolume(): Promise<string | undefined> {
    const { namespace } = this.pod.metadata;
    const within = async (kind: 'secrets' | 'configmaps', name: string, keys: string[]) => {
      const { status, body } = await this.plane.api('GET', `/api/v1/namespaces/${namespace}/${kind}/${name}`);
      if (status !== 200) return `${kind} ${name}`;
      const missing = keys.find((key) => body.data?.[key] === undefined);
      return missing === undefined ? undefined : `${kind} ${name}, key ${missing}`;
    };
    for (const { secret, configMap, persistentVolumeClaim: claim } of this.pod.spec.volumes ?? []) {
      const keys = (secret ?? configMap)?.items?.map(({ key }: { key: string }) => key) ?? [];
      if (secret !== undefined && secret.optional !== true) {
        const missing = await within('secrets', secret.secretName, keys);
        if (missing !== undefined) return missing;
      }
      if (configMap !== undefined && configMap.optional !== true) {
        const missing = await within('configmaps', configMap.name, keys);
        if (missing !== undefined) return missing;
      }
      if (claim !== undefined) {
        const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${claim.claimName}`;
        const { body } = await this.plane.api('GET', path);
        if (body.status?.phase !== 'Bound') return `claim ${claim.claimName}`;
      }
    }
    return undefined;
  }

  private async report(startedAt: string, phase: 'Running' | 'Succeeded'): Promise<void> {
    const { spec, metadata } = this.pod;
    const now = new Date().toISOString();
    const running = phase === 'Running';
    const ended = { terminated: { exitCode: 0, reason: 'Completed', startedAt, finishedAt: now } };
    const container = (init: boolean) => (one: { name: string; image: string }) => ({
      name: one.name,
      image: one.image,
      imageID: `${one.image}@stand-in`,
      restartCount: 0,
      ready: init || running,
      started: !init && running,
      state: !init && running ? { running: { startedAt: now } } : ended,
    });
    const condition = (type: string, is: boolean) => ({
      type,
      status: is ? 'True' : 'False',
      lastTransitionTime: now,
      ...(is ? {} : { reason: 'PodCompleted' }),
    });
    const address = this.life.address ?? this.ownAddress;
    const status = {
      phase,
      startTime: startedAt,
      hostIP: '192.0.2.1',
      hostIPs: [{ ip: '192.0.2.1' }],
      podIP: address,
      podIPs: [{ ip: address }],
      conditions: [
        condition('PodReadyToStartContainers', running),
        condition('Initialized', true),
        condition('ContainersReady', running),
        condition('Ready', running),
      ],
      ...(spec.initContainers ? { initContainerStatuses: spec.initContainers.map(container(true)) } : {}),
      containerStatuses: spec.containers.map(container(false)),
    };
    // With its id: another pod of that name (a StatefulSet's next one) is not this one.
    const patch = { metadata: { uid: metadata.uid }, status };
    await this.unlessGone('PATCH', `${this.path}/status`, patch, MERGE);
  }

  private async finish({ metadata }: PodObject): Promise<void> {
    const graceMs = (metadata.deletionGracePeriodSeconds ?? 0) * 1000;
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.vanished.signal]);
    const after = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {});
    const ended = this.program?.stop() ?? after(this.completed ? 0 : this.life.drainMs);
    const late = await Promise.race([ended.then(() => false), after(graceMs).then(() => true)]);
    over.abort();
    if (late) await this.program?.kill();
    const preconditions = { uid: metadata.uid };
    await this.unlessGone('DELETE', this.path, { gracePeriodSeconds: 0, preconditions });
  }

  private async unlessGone(method: string, path: string, body: object, options: { type?: string } = {}): Promise<void> {
    const { status, body: answer } = await this.plane.api(method, path, body, options);
    if (status >= 300 && status !== 404 && status !== 409)
      throw new Error(`${method} ${path}: ${status} ${answer.message}`);
  }
}

/** A default storage class, and whoever makes a volume for each claim of it. Returns what ends that. */
export async function provideVolumes(plane: ControlPlane): Promise<() => Promise<void>> {
  const storageClassName = 'standard';
  await plane.must('POST', '/apis/storage.k8s.io/v1/storageclasses', {
    metadata: { name: storageClassName, annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } },
    provisioner: 'example.com/stand-in',
    reclaimPolicy: 'Retain',
  });
  const made = new Map<string, Promise<unknown>>();
  const unfollow = await plane.follow<any>('/api/v1/persistentvolumeclaims', (change, { metadata, spec }) => {
    if (change === 'DELETED' || spec.volumeName || made.has(metadata.uid)) return;
    const { name, namespace, uid } = metadata as { name: string; namespace: string; uid: string };
    const volume = {
      metadata: { name: `pvc-${uid}` },
      spec: {
        storageClassName,
        capacity: spec.resources.requests,
        accessModes: spec.accessModes,
        claimRef: { kind: 'PersistentVolumeClaim', apiVersion: 'v1', name, namespace, uid },
        persistentVolumeReclaimPolicy: 'Retain',
        // Never mounted.
        hostPath: { path: `/stand-in/${uid}` },
      },
    };
    made.set(uid, plane.must('POST', '/api/v1/persistentvolumes', volume));
  });
  return async () => {
    await unfollow();
    await Promise.all(made.values());
  };
}
