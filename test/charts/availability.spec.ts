import { describe, expect, test } from 'vitest';
import { LLAMA, LLAMA_VALUES, PROFILES, refusal, render } from './helm.ts';
import { DOWN_PERIOD_MS, UP_PERIOD_MS, UP_PODS } from '../../services/fleet/src/scaling/scaler.ts';
import { type ExecutorTarget, parseExecutors } from '../../services/fleet/src/scaling/executors-file.ts';
import { envOf, find, type Manifest, ofKind, type Pod, pods, quantity, selects, workloads } from './manifest.ts';

/* eslint-disable @typescript-eslint/no-explicit-any */
const renders = () => [
  ...PROFILES.map((profile) => ({ name: profile, manifests: render({ profile }) })),
  { name: 'llama', manifests: render({ chart: LLAMA, values: LLAMA_VALUES }) },
  { name: 'colocated', manifests: render({ values: { workspaces: { shared: { colocate: true } } } }) },
];
/** What the fleet is told to scale, by Deployment. */
const scaledByFleet = (manifests: Manifest[]): Record<string, ExecutorTarget> => {
  const file = ofKind(manifests, 'ConfigMap').find(({ data }) => data?.['executors.yaml'] !== undefined);
  const targets = parseExecutors(file?.data?.['executors.yaml'] ?? '');
  return Object.fromEntries(targets.map((target) => [target.deployment, target]));
};
const running = (pod: Pod) => ['Deployment', 'StatefulSet', 'DaemonSet'].includes(pod.owner.kind);

test('everything that runs for long is asked whether it lives, whether it is ready, and has time to start', () => {
  for (const { name, manifests } of renders())
    for (const pod of pods(manifests).filter(running))
      for (const container of pod.containers) {
        const at = `${name}: ${pod.component}/${container.name}`;
        const { livenessProbe, readinessProbe, startupProbe } = container;
        expect(livenessProbe && readinessProbe && startupProbe, at).toBeTruthy();
        const what = ({ httpGet, exec, tcpSocket }: any) => JSON.stringify(httpGet ?? exec ?? tcpSocket);
        expect(what(livenessProbe), at).not.toBe(what(readinessProbe));
        if (livenessProbe.httpGet)
          expect(['/livez', '/healthz?js-enabled-only=true'], at).toContain(livenessProbe.httpGet.path);
        const ports = (container.ports ?? []).map((port) => port.name);
        for (const probe of [livenessProbe, readinessProbe, startupProbe])
          if (probe.httpGet ?? probe.tcpSocket) expect(ports, at).toContain((probe.httpGet ?? probe.tcpSocket).port);
      }
});

test('a probed port is the one that the service is told to open', () => {
  for (const { manifests } of renders())
    for (const container of pods(manifests).flatMap(({ containers }) => containers)) {
      const env = envOf(container);
      if (env['YM_HEALTH_PORT'] === undefined) continue;
      const port = container.ports!.find(({ name }) => name === container.readinessProbe.httpGet.port)!;
      expect(String(port.containerPort)).toBe(env['YM_HEALTH_PORT']);
      expect(container.ports!.map(({ containerPort }) => String(containerPort))).toContain(env['YM_METRICS_PORT']);
    }
});

test('an image without routes for probes is asked whether its process runs', () => {
  const values = { executors: { python: { image: { repository: 'p', tag: '1' }, httpProbes: false } } };
  const { containers } = pods(render({ values })).find(({ component }) => component === 'executor-python')!;
  expect(containers[0]!.livenessProbe.exec).toBeTruthy();
  expect(containers[0]!.readinessProbe.exec).not.toEqual(containers[0]!.livenessProbe.exec);
});

describe('ending', () => {
  const seconds = (pod: Pod) =>
    Math.max(
      ...pod.containers.map((container) => {
        const env = envOf(container);
        const drain =
          Number(env['YM_DRAIN_MS'] ?? env['YM_EXECUTOR_SHELL_DRAIN_MS'] ?? 0) / 1000 ||
          Number(env['DRAIN_SECONDS'] ?? 0);
        return drain + Number(container.lifecycle?.preStop?.sleep?.seconds ?? 0) + 5;
      }),
    );

  test('the grace period covers the wait before SIGTERM and the drain', () => {
    for (const { name, manifests } of renders())
      for (const pod of pods(manifests).filter(running))
        expect(pod.spec.terminationGracePeriodSeconds, `${name}: ${pod.component}`).toBeGreaterThanOrEqual(
          seconds(pod),
        );
  });

  test.each([
    ['api', { api: { terminationGracePeriodSeconds: 20 } }],
    ['executors.shell', { executors: { shell: { terminationGracePeriodSeconds: 20 } } }],
  ])('one that is too short for %s is refused in words', (what, values) => {
    expect(refusal({ values })).toMatch(
      new RegExp(`${what}\\.terminationGracePeriodSeconds is 20; it must be at least`),
    );
  });

  test('a longer drain makes it longer by itself', () => {
    const values = { router: { drainSeconds: 600 }, executors: { shell: { drainSeconds: 900 } } };
    for (const pod of pods(render({ values })).filter(running))
      expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(seconds(pod));
  });

  test('llama too', () => {
    expect(refusal({ chart: LLAMA, values: { ...LLAMA_VALUES, terminationGracePeriodSeconds: 60 } })).toContain(
      'at least drainSeconds + 30',
    );
  });
});

test('profile ha: two of each service on different nodes with a budget, three of NATS', () => {
  const manifests = render({ profile: 'ha' });
  for (const { metadata, spec, kind } of workloads(manifests)) {
    const component = metadata.labels!['app.kubernetes.io/component']!;
    if (component === 'redis') continue; // one pod by design: the profile says what to do instead
    const least = spec.replicas ?? scaledByFleet(manifests)[metadata.name]?.min;
    expect(least, component).toBe(component === 'nats' ? 3 : 2);
    expect(kind).toBe(component === 'nats' ? 'StatefulSet' : 'Deployment');
    expect(spec.template.spec.topologySpreadConstraints[0].topologyKey, component).toBe('kubernetes.io/hostname');
    expect(find(manifests, 'PodDisruptionBudget', component).spec.maxUnavailable).toBe(1);
  }
  const bootstrap = find(manifests, 'Job', 'bootstrap').spec.template.spec.containers[0].args;
  expect(bootstrap[bootstrap.indexOf('--replicas') + 1]).toBe('3');
});

test('a budget selects one workload, never keeps the last pod, and is not there for a single pod', () => {
  for (const { name, manifests } of renders())
    for (const { spec, metadata } of ofKind(manifests, 'PodDisruptionBudget')) {
      const chosen = workloads(manifests).filter((one) =>
        selects(spec.selector.matchLabels, one.spec.template.metadata.labels),
      );
      expect(chosen.length, `${name}: ${metadata.name}`).toBe(1);
      expect(spec.minAvailable).toBeUndefined();
      expect(spec.maxUnavailable).toBe(1);
      if (chosen[0]!.spec.replicas !== undefined) expect(chosen[0]!.spec.replicas, metadata.name).toBeGreaterThan(1);
    }
  expect(ofKind(render(), 'PodDisruptionBudget')).toEqual([]);
});

test('a pod that is not ready does not hold the drain of its node up, unless it has data', () => {
  const llama = { replicas: 2, persistence: { enabled: false } };
  const budgets = [
    ...ofKind(render({ profile: 'ha' }), 'PodDisruptionBudget'),
    ...ofKind(render({ chart: LLAMA, values: { ...LLAMA_VALUES, ...llama } }), 'PodDisruptionBudget'),
  ];
  expect(budgets).toHaveLength(9);
  for (const { metadata, spec } of budgets)
    expect(spec.unhealthyPodEvictionPolicy, metadata.name).toBe(
      metadata.labels!['app.kubernetes.io/component'] === 'nats' ? undefined : 'AlwaysAllow',
    );
});

describe('scaling', () => {
  const keda = { scaler: { mode: 'keda', min: 2, max: 5 } };
  const values = {
    api: { autoscaling: { enabled: true } },
    executors: {
      shell: keda,
      files: { scaler: { mode: 'hpa' } },
      python: {
        kind: 'py-3',
        image: { repository: 'p', tag: '1' },
        slots: 5,
        scaler: { mode: 'keda', min: 0, targetUtilization: 0.5, cooldownSeconds: 120 },
      },
    },
  };
  const manifests = () => render({ values });

  test('what a scaler manages has no number of its own, and one scaler only', () => {
    const scalers = ofKind(manifests(), 'ScaledObject', 'HorizontalPodAutoscaler');
    expect(scalers).toHaveLength(4);
    const targets = scalers.map(({ spec }) => spec.scaleTargetRef.name);
    expect(new Set(targets).size).toBe(targets.length);
    for (const { metadata, spec } of workloads(manifests()))
      expect(spec.replicas === undefined, metadata.name).toBe(targets.includes(metadata.name));
  });

  test('by default the fleet scales every executor; where they share a pod nobody does', () => {
    const byDefault = render();
    expect(Object.keys(scaledByFleet(byDefault))).toEqual([
      'ym-yardmaster-executor-files',
      'ym-yardmaster-executor-shell',
    ]);
    for (const name of Object.keys(scaledByFleet(byDefault)))
      expect(workloads(byDefault).find(({ metadata }) => metadata.name === name)!.spec).not.toHaveProperty('replicas');
    for (const others of [{ workspaces: { shared: { colocate: true } } }, { fleet: { enabled: false } }]) {
      const manifests = render({ values: others });
      expect(scaledByFleet(manifests)).toEqual({});
      for (const { spec, metadata } of workloads(manifests)) expect(spec.replicas, metadata.name).toBeGreaterThan(0);
    }
    expect(
      refusal({ values: { fleet: { enabled: false }, executors: { shell: { scaler: { mode: 'fleet' } } } } }),
    ).toContain('executors.shell.scaler.mode is fleet, but fleet.enabled is false');
  });

  test('the fleet and KEDA scale by the same numbers, and never the same executor', () => {
    const numbers = (slots: number, targetUtilization: number) => {
      const entry = (mode: string) => ({
        image: { repository: 'p', tag: '1' },
        slots,
        scaler: { mode, min: 0, max: 7, targetUtilization, cooldownSeconds: 90 },
      });
      const both = render({ values: { executors: { one: entry('fleet'), two: entry('keda') } } });
      const fleet = scaledByFleet(both)['ym-yardmaster-executor-one']!;
      const keda = find(both, 'ScaledObject', 'executor-two').spec;
      expect(Object.keys(scaledByFleet(both))).not.toContain('ym-yardmaster-executor-two');
      expect(String(fleet.callsPerPod)).toBe(keda.triggers[0].metadata.lagThreshold);
      expect([fleet.min, fleet.max, fleet.cooldownMs]).toEqual([
        keda.minReplicaCount,
        keda.maxReplicaCount,
        keda.cooldownPeriod * 1000,
      ]);
      const { scaleUp, scaleDown } = keda.advanced.horizontalPodAutoscalerConfig.behavior;
      expect(scaleUp.policies).toEqual([
        { type: 'Percent', value: 100, periodSeconds: UP_PERIOD_MS / 1000 },
        { type: 'Pods', value: UP_PODS, periodSeconds: UP_PERIOD_MS / 1000 },
      ]);
      expect(scaleDown.policies.map(({ periodSeconds }: any) => periodSeconds * 1000)).toEqual([
        DOWN_PERIOD_MS,
        DOWN_PERIOD_MS,
      ]);
      expect(scaleDown.stabilizationWindowSeconds * 1000).toBe(fleet.cooldownMs);
    };
    for (const slots of [1, 4, 5, 10, 16]) for (const part of [0.1, 0.5, 0.6, 0.8, 1]) numbers(slots, part);
  });

  test('one mode per executor: two at once cannot be written, and a scaler of one pod is refused', () => {
    expect(refusal({ values: { executors: { shell: { scaler: { mode: 'keda,hpa' } } } } })).toMatch(
      /auto.*none.*fleet.*keda.*hpa/s,
    );
    expect(refusal({ values: { workspaces: { shared: { colocate: true } }, executors: { shell: keda } } })).toContain(
      'set scaler.mode to none',
    );
  });

  test('KEDA reads the one consumer of the kind, with numbers out of slots and use', () => {
    const { spec } = find(manifests(), 'ScaledObject', 'executor-python');
    expect(spec).toMatchObject({
      minReplicaCount: 0,
      cooldownPeriod: 120,
      pollingInterval: 5,
      fallback: { failureThreshold: 3, replicas: 1 },
    });
    expect(spec.triggers).toEqual([
      {
        type: 'nats-jetstream',
        metadata: {
          natsServerMonitoringEndpoint: 'ym-yardmaster-nats-headless.yard.svc:8222',
          account: 'YM',
          stream: 'YM_TOOL_PY_3',
          consumer: 'work',
          lagThreshold: '2',
          activationLagThreshold: '0',
        },
      },
    ]);
    expect(JSON.stringify(find(manifests(), 'NetworkPolicy', 'nats').spec)).toContain('keda');
    expect(JSON.stringify(find(render(), 'NetworkPolicy', 'nats').spec)).not.toContain('keda');
  });

  test('an executor that KEDA holds at two or more has a budget', () => {
    find(manifests(), 'PodDisruptionBudget', 'executor-shell');
    expect(() => find(manifests(), 'PodDisruptionBudget', 'executor-python')).toThrow('there is no');
  });
});

test('a pod with a volume of one node, or with a GPU, goes before the next one comes', () => {
  for (const { name, manifests } of renders()) {
    const rwo = new Set(
      ofKind(manifests, 'PersistentVolumeClaim')
        .filter(({ spec }) => !spec.accessModes.includes('ReadWriteMany'))
        .map(({ metadata }) => metadata.name),
    );
    for (const { owner, spec, containers } of pods(manifests).filter(({ owner: { kind } }) => kind === 'Deployment')) {
      const claims = (spec.volumes ?? []).map((one: any) => one.persistentVolumeClaim?.claimName);
      const gpu = containers.some(({ resources }) => resources?.limits?.['nvidia.com/gpu'] !== undefined);
      if (gpu || claims.some((claim: string) => rwo.has(claim)))
        expect(owner.spec.strategy.type, `${name}: ${owner.metadata.name}`).toBe('Recreate');
    }
  }
  expect(find(render({ profile: 'single-node' }), 'Deployment', 'executor-files').spec.strategy.type).toBe('Recreate');
});

test('every container says what it needs and where it ends', () => {
  for (const { name, manifests } of renders())
    for (const pod of pods(manifests))
      for (const { name: container, resources, env = [] } of pod.all) {
        const at = `${name}: ${pod.component}/${container}`;
        expect(resources?.requests?.['cpu'], at).toBeTruthy();
        expect(resources?.requests?.['memory'], at).toBeTruthy();
        expect(quantity(resources!.limits!['memory']!), at).toBeGreaterThanOrEqual(
          quantity(resources!.requests!['memory']!),
        );
        const heap = env.find((one) => one.name === 'NODE_OPTIONS')?.value;
        if (heap !== undefined)
          expect(Number(heap.split('=')[1]) * 2 ** 20).toBe(
            Math.floor((quantity(resources!.limits!['memory']!) / 2 ** 20) * 0.75) * 2 ** 20,
          );
      }
});

test.each([
  ['1Gi', 768, '921MiB'],
  ['1G', 714, '857MiB'],
  ['1073741824', 768, '921MiB'],
  ['524288Ki', 384, '460MiB'],
])('a limit of %s leaves room above the heaps', (memory, heap, go) => {
  const resources = { limits: { memory } };
  const manifests = render({ values: { api: { resources }, nats: { resources } } });
  const env = (component: string) => envOf(pods(manifests).find((pod) => pod.component === component)!.containers[0]!);
  expect(env('api')['NODE_OPTIONS']).toBe(`--max-old-space-size=${heap}`);
  expect(env('nats')['GOMEMLIMIT']).toBe(go);
});

test('without a limit there is no bound of ours either', () => {
  const manifests = render({ args: ['--set', 'nats.resources.limits=null'] });
  expect(envOf(pods(manifests).find(({ component }) => component === 'nats')!.containers[0]!)).not.toHaveProperty(
    'GOMEMLIMIT',
  );
});

test('a shell executor may use what its commands may use, and half a gibibyte', () => {
  const runner = (values: object) =>
    pods(render({ values }))
      .find(({ component }) => component === 'executor-shell')!
      .containers.find(({ name }) => name === 'runner')!;
  expect(runner({}).resources!.limits!['memory']).toBe('4608Mi');
  expect(runner({ executors: { shell: { slots: 8, sandbox: { memoryMb: 256 } } } }).resources!.limits!['memory']).toBe(
    '2560Mi',
  );
});

test('profile single-node asks for 2 CPUs and 4 GiB at the most', () => {
  let cpu = 0;
  let memory = 0;
  for (const { owner, containers, initContainers } of pods(render({ profile: 'single-node' }))) {
    const sum = (of: string, all: typeof containers) =>
      all.reduce((total, { resources }) => total + quantity(resources!.requests![of]!), 0);
    const times = owner.spec.replicas ?? 1;
    cpu +=
      times *
      Math.max(sum('cpu', containers), ...initContainers.map((one) => quantity(one.resources!.requests!['cpu']!)));
    memory +=
      times *
      Math.max(
        sum('memory', containers),
        ...initContainers.map((one) => quantity(one.resources!.requests!['memory']!)),
      );
  }
  expect(cpu).toBeLessThanOrEqual(2);
  expect(memory).toBeLessThanOrEqual(4 * 2 ** 30);
});
