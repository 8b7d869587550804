import { describe, expect, test } from 'vitest';
import {
  defaultValues,
  type HelmName,
  lint,
  LLAMA,
  LLAMA_VALUES,
  PLATFORM,
  PROFILES,
  refusal,
  render,
  renderText,
} from './helm.ts';
import { type Manifest, pods, selects } from './manifest.ts';
import { problemsOf } from './strict-types.ts';

const HELM: HelmName[] = ['helm3', 'helm4'];
/** The minors that `kubeVersion` of the charts names: the oldest and the newest. */
const OLDEST = '1.31.0';
const NEWEST = '1.37.0';

describe.each(PROFILES)('profile %s', (profile) => {
  test.each(HELM)('is accepted by lint --strict of %s', (helm) => lint({ profile, helm }));

  test('is the same with both helms, and the same twice', () => {
    const first = renderText({ profile, helm: 'helm4' });
    expect(renderText({ profile, helm: 'helm3' })).toBe(first);
    expect(renderText({ profile, helm: 'helm4', args: ['--include-crds'] })).toBe(first);
  });

  test('has objects that Kubernetes takes: no unknown field, no wrong type, nothing missing', async () => {
    const problems = (await Promise.all(render({ profile }).map(problemsOf))).flat();
    expect(problems).toEqual([]);
  });

  test('renders for the oldest and the newest minor of kubeVersion', () => {
    expect(render({ profile, kube: OLDEST }).length).toBeGreaterThan(10);
    expect(render({ profile, kube: NEWEST })).toEqual(render({ profile, kube: OLDEST }));
  });

  test('has no two objects of one name', () => expectUnique(render({ profile })));

  test('has names that are valid, for the longest release name too', () => {
    for (const release of ['ym', 'r'.repeat(53), `${'ab-'.repeat(17)}ab`]) {
      const manifests = render({ profile, release });
      expectUnique(manifests);
      for (const { kind, metadata } of manifests) {
        expect(metadata.name, kind).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
        // A StatefulSet's pods carry its name and a hash of ten characters in a label.
        expect(metadata.name.length, `${kind} ${metadata.name}`).toBeLessThanOrEqual(kind === 'StatefulSet' ? 52 : 63);
        for (const [key, value] of Object.entries(metadata.labels ?? {}))
          expect(value.length, key).toBeLessThanOrEqual(63);
      }
    }
  });

  test('two releases share no name and no pod', () => {
    const a = render({ profile, release: 'a' });
    const b = render({ profile, release: 'b' });
    const names = new Set(a.map(({ kind, metadata }) => `${kind} ${metadata.name}`));
    expect(b.filter(({ kind, metadata }) => names.has(`${kind} ${metadata.name}`))).toEqual([]);
    for (const { spec } of a) {
      const selector = spec?.selector?.matchLabels ?? spec?.podSelector?.matchLabels;
      if (selector === undefined) continue;
      for (const pod of pods(b)) expect(selects(selector, pod.metadata.labels)).toBe(false);
    }
  });
});

function expectUnique(manifests: Manifest[]) {
  const keys = manifests.map(
    ({ apiVersion, kind, metadata }) => `${apiVersion} ${kind} ${metadata.namespace} ${metadata.name}`,
  );
  expect(keys.filter((key, i) => keys.indexOf(key) !== i)).toEqual([]);
}

/** Served as stable by every minor of kubeVersion; KEDA's comes with KEDA, Prometheus' with its operator. */
const VERSIONS = [
  'v1',
  'apps/v1',
  'batch/v1',
  'policy/v1',
  'networking.k8s.io/v1',
  'rbac.authorization.k8s.io/v1',
  'autoscaling/v2',
  'keda.sh/v1alpha1',
  'monitoring.coreos.com/v1',
];

test('no object uses an API version that one of the minors lacks', () => {
  const values = {
    api: { autoscaling: { enabled: true }, ingress: { enabled: true } },
    executors: { shell: { scaler: { mode: 'keda' } } },
    nats: { replicas: 3 },
    monitoring: { podMonitor: { enabled: true }, alerts: { enabled: true } },
  };
  for (const manifests of [render({ values }), ...PROFILES.map((profile) => render({ profile }))])
    for (const { apiVersion, metadata } of manifests) expect(VERSIONS, metadata.name).toContain(apiVersion);
});

test('a minor below kubeVersion is refused, with the range', () => {
  expect(refusal({ kube: '1.30.0' })).toContain('>=1.31.0-0 <1.38.0-0');
});

describe('the check of types proves itself', () => {
  const good = () => render().find(({ kind }) => kind === 'Deployment')!;
  const bad = (change: (spec: any) => void) => {
    // eslint-disable-line @typescript-eslint/no-explicit-any
    const manifest = structuredClone(good());
    change(manifest.spec);
    return problemsOf(manifest);
  };
  test('replicas: "3"', async () =>
    expect((await bad((spec) => (spec.replicas = '3'))).join()).toContain('spec.replicas must be a number'));
  test('contaners', async () =>
    expect((await bad((spec) => (spec.template.spec.contaners = []))).join()).toContain('contaners is no field'));
  test('readOnlyRootFileSystem', async () =>
    expect(
      (
        await bad((spec) => (spec.template.spec.containers[0].securityContext = { readOnlyRootFileSystem: true }))
      ).join(),
    ).toContain('readOnlyRootFileSystem is no field'));
  test('a missing selector', async () => expect(await bad((spec) => delete spec.selector)).not.toEqual([]));
});

describe('every switch, flipped alone', () => {
  /** Messages that another rule demands. */
  const WANTED = /model\.sha256 is empty|needs colocate/;
  const switches = (node: unknown, path: string[] = []): { path: string; to: boolean }[] =>
    typeof node !== 'object' || node === null || Array.isArray(node)
      ? []
      : Object.entries(node).flatMap(([key, value]) =>
          typeof value === 'boolean'
            ? [{ path: [...path, key].join('.'), to: !value }]
            : switches(value, [...path, key]),
        );
  const all = switches(defaultValues(PLATFORM));
  test('there are switches', () => expect(all.map(({ path }) => path)).toContain('api.autoscaling.enabled'));
  test.each(all)('$path = $to', async ({ path, to }) => {
    let manifests: Manifest[];
    try {
      manifests = render({ args: ['--set', `${path}=${to}`] });
    } catch (error) {
      expect((error as Error).message).toMatch(WANTED);
      return;
    }
    expectUnique(manifests);
    expect((await Promise.all(manifests.map(problemsOf))).flat()).toEqual([]);
  });
});

describe('charts/llama', () => {
  test('renders with both helms alike, in a form that Kubernetes takes', async () => {
    const options = { chart: LLAMA, values: LLAMA_VALUES, release: 'qwen' };
    lint({ chart: LLAMA, values: LLAMA_VALUES });
    expect(renderText({ ...options, helm: 'helm3' })).toBe(renderText({ ...options, helm: 'helm4' }));
    const manifests = render(options);
    expectUnique(manifests);
    expect((await Promise.all(manifests.map(problemsOf))).flat()).toEqual([]);
  });
});

describe('names', () => {
  test.each(['123', '1e3', 'a.b'])(
    'release %s: Kubernetes would refuse its Services, so the chart does, in words',
    (release) => {
      expect(refusal({ release })).toContain('choose another release name, or set fullnameOverride');
      expect(refusal({ release, chart: LLAMA, values: LLAMA_VALUES })).toContain('choose another release name');
    },
  );

  test('a release whose name is a number has labels that are text', async () => {
    const manifests = render({ release: '123', values: { fullnameOverride: 'mine' } });
    expect((await Promise.all(manifests.map(problemsOf))).flat()).toEqual([]);
    for (const { metadata } of manifests) expect(metadata.labels!['app.kubernetes.io/instance']).toBe('123');
  });

  test.each([
    [{ nameOverride: 'other' }, 'ym-other-'],
    [{ fullnameOverride: 'mine' }, 'mine-'],
  ])('%j: nothing keeps the old name, and every reference resolves', (values, prefix) => {
    const manifests = render({ values });
    for (const { metadata } of manifests) {
      expect(metadata.name.startsWith(prefix), metadata.name).toBe(true);
      expect(JSON.stringify(metadata)).not.toContain('ym-yardmaster');
    }
    expect(JSON.stringify(manifests)).not.toContain('ym-yardmaster');
    expect(danglingReferences(manifests)).toEqual([]);
  });

  test.each(PROFILES)('profile %s: every reference resolves, or is a declared name from outside', (profile) => {
    const outside: Record<string, string[]> = {
      gpu: ['PersistentVolumeClaim llama-models'],
      'external-deps': ['Secret yardmaster-nats', 'Secret yardmaster-redis'],
    };
    expect([...new Set(danglingReferences(render({ profile })))].sort()).toEqual(outside[profile] ?? []);
  });
});

/** References to objects that are not in the render: Secrets, ConfigMaps, claims, accounts, targets, Services in env. */
function danglingReferences(manifests: Manifest[]): string[] {
  const there = new Set(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`));
  const wanted: string[] = [];
  for (const pod of pods(manifests)) {
    wanted.push(`ServiceAccount ${pod.spec.serviceAccountName}`);
    for (const volume of pod.spec.volumes ?? []) {
      if (volume.secret) wanted.push(`Secret ${volume.secret.secretName}`);
      if (volume.configMap) wanted.push(`ConfigMap ${volume.configMap.name}`);
      if (volume.persistentVolumeClaim) wanted.push(`PersistentVolumeClaim ${volume.persistentVolumeClaim.claimName}`);
    }
    for (const { name, value, valueFrom } of pod.all.flatMap(({ env = [] }) => env)) {
      if (valueFrom?.secretKeyRef) wanted.push(`Secret ${valueFrom.secretKeyRef.name}`);
      const host = /^(?:nats|redis|http):\/\/([a-z0-9-]+)(?::|$)/.exec(value ?? '')?.[1];
      if (host !== undefined && (name.endsWith('_URL') || name === 'API')) wanted.push(`Service ${host}`);
    }
  }
  for (const { spec } of manifests)
    if (spec?.scaleTargetRef) wanted.push(`${spec.scaleTargetRef.kind} ${spec.scaleTargetRef.name}`);
  return wanted.filter((one) => !there.has(one));
}
