import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { LLAMA, LLAMA_VALUES, PROFILES, render } from '../charts/helm.ts';
import { envOf, type Manifest, ofKind, type Pod, pods } from '../charts/manifest.ts';
import type { Status } from './control-plane.ts';
import { type Cluster, startCluster, variable } from './objects.ts';

// What a real API server says of the charts: its decoding, its defaults, its validation, its admission.
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.plane.stop());

const KUBE = variable('YM_KUBERNETES');
const keda = { executors: { shell: { scaler: { mode: 'keda' } }, files: { scaler: { mode: 'hpa' } } } };

/** Everything that the charts can render to, by a name that is good for a namespace. */
const RENDERS: Record<string, () => Manifest[]> = {
  ...Object.fromEntries(PROFILES.map((profile) => [profile, () => render({ profile, kube: KUBE })])),
  llama: () => render({ chart: LLAMA, values: LLAMA_VALUES, kube: KUBE }),
  scaled: () => render({ values: keda, kube: KUBE }),
  colocated: () => render({ values: { workspaces: { shared: { colocate: true, ephemeral: true } } }, kube: KUBE }),
  'mode-pod': () => render({ values: { executors: { shell: { sandbox: { mode: 'pod' } } } }, kube: KUBE }),
  monitored: () =>
    render({ values: { monitoring: { podMonitor: { enabled: true }, alerts: { enabled: true } } }, kube: KUBE }),
  ingress: () =>
    render({
      values: { api: { ingress: { enabled: true, tlsSecret: 't' }, autoscaling: { enabled: true } } },
      kube: KUBE,
    }),
};
const isRunner = ({ name }: { name: string }) => name === 'runner' || name.startsWith('runner-');
const words = ({ body, warnings }: { body: Status; warnings: string[] }) => [body.message, ...warnings].join('\n');

test('the API server is the one that was built, and strict: it refuses what the tests must notice', async () => {
  const version = await cluster.plane.must('GET', '/version');
  expect(version.gitVersion).toBe(`v${KUBE}`);
  await cluster.plane.namespace('strict', 'restricted');
  const [deployment] = ofKind(render({ kube: KUBE }), 'Deployment');
  const spoil = async (spec: object) =>
    (await cluster.apply({ ...deployment!, spec: { ...deployment!.spec, ...spec } }, { namespace: 'strict' })).status;
  expect(await spoil({})).toBe(201);
  expect(await spoil({ replicaCuont: 3 })).toBeGreaterThanOrEqual(400);
  expect(await spoil({ replicas: '3' })).toBeGreaterThanOrEqual(400);
  expect(await spoil({ selector: { matchLabels: { other: 'label' } } })).toBe(422);
});

describe.each(Object.keys(RENDERS))('%s', (name) => {
  test('every object is taken as it is, without a warning, and once more without a change', async () => {
    const namespace = `apply-${name}`;
    await cluster.plane.namespace(namespace, 'privileged');
    const manifests = RENDERS[name]!();
    const before = new Map<string, object>();
    for (const manifest of manifests) {
      const label = `${manifest.kind} ${manifest.metadata.name}`;
      const answer = await cluster.apply(manifest, { namespace });
      expect(answer.status, `${label}: ${words(answer)}`).toBe(201);
      expect(answer.warnings, label).toEqual([]);
      before.set(label, content(answer.body));
    }
    for (const manifest of manifests) {
      const label = `${manifest.kind} ${manifest.metadata.name}`;
      const { body } = await cluster.apply(manifest, { namespace });
      expect(content(body), label).toEqual(before.get(label));
    }
  });

  test('every pod is admitted where Pod Security is "restricted", but the one that makes sandboxes', async () => {
    const [strict, open] = [`restricted-${name}`, `privileged-${name}`];
    await cluster.plane.namespace(strict, 'restricted');
    await cluster.plane.namespace(open, 'privileged');
    const manifests = RENDERS[name]!();
    for (const namespace of [strict, open])
      for (const account of ofKind(manifests, 'ServiceAccount'))
        expect((await cluster.apply(account, { namespace })).status).toBe(201);
    for (const pod of pods(manifests)) {
      const runners = pod.containers.filter(isRunner).filter((one) => envOf(one)['YM_EXECUTOR_SHELL_MODE'] !== 'pod');
      const answer = await createPod(pod, strict);
      if (runners.length === 0) {
        expect(answer.status, `${pod.component}: ${words(answer)}`).toBe(201);
        expect(answer.warnings, pod.component).toEqual([]);
        continue;
      }
      expect(answer.status).toBe(403);
      // Exactly what the exception is, in the words of Kubernetes.
      const against = /violates PodSecurity "restricted:latest": (.*)$/.exec(answer.body.message)![1]!;
      for (const field of against.split(/, (?=[a-zA-Z]+ \()/)) expect(field).toMatch(/AppArmor|appArmor|procMount/);
      for (const runner of runners) expect(against).toContain(`"${runner.name}"`);
      const elsewhere = await createPod(pod, open);
      expect(elsewhere.status, `${pod.component}: ${words(elsewhere)}`).toBe(201);
    }
  });
});

/** An object without the bookkeeping of who wrote it when. */
function content({ metadata, ...rest }: Manifest): object {
  const { managedFields: _, resourceVersion: __, ...kept } = metadata as unknown as Record<string, unknown>;
  return { ...rest, metadata: kept };
}

/** Asks for a pod of a template, without storing it. */
async function createPod({ metadata, spec, owner }: Pod, namespace: string) {
  const claims = ((owner.spec.volumeClaimTemplates ?? []) as Manifest[]).map((claim) => ({
    name: claim.metadata.name,
    persistentVolumeClaim: { claimName: `${claim.metadata.name}-x` },
  }));
  const body = {
    metadata: { name: 'pod', namespace, labels: metadata.labels, annotations: metadata.annotations },
    spec: { ...spec, volumes: [...(spec.volumes ?? []), ...claims] },
  };
  return cluster.plane.api('POST', `/api/v1/namespaces/${namespace}/pods?dryRun=All&fieldValidation=Strict`, body);
}
