import { describe, expect, test } from 'vitest';
import { LLAMA, LLAMA_VALUES, PLATFORM, PROFILES, refusal, render } from './helm.ts';
import { find, type Manifest, ofKind, type Pod, pods, selects } from './manifest.ts';

/* eslint-disable @typescript-eslint/no-explicit-any */
const policiesOf = (manifests: Manifest[], pod: Pod) =>
  ofKind(manifests, 'NetworkPolicy').filter(({ spec }) =>
    selects(spec.podSelector.matchLabels ?? {}, pod.metadata.labels),
  );

/** May `from` open this port of `to`? Both inside the release, as the union of all policies says. */
function reaches(manifests: Manifest[], from: Pod, to: Pod, port: number): boolean {
  const takes = (peers: any[] | undefined, pod: Pod) =>
    peers === undefined ||
    peers.some(
      (peer) =>
        peer.ipBlock === undefined &&
        (peer.podSelector === undefined || selects(peer.podSelector.matchLabels ?? {}, pod.metadata.labels)),
    );
  const opens = (ports: any[] | undefined) =>
    ports === undefined || ports.some((one) => one.port === port && one.protocol === 'TCP');
  const out = policiesOf(manifests, from).some(({ spec }) =>
    (spec.egress ?? []).some((rule: any) => takes(rule.to, to) && opens(rule.ports)),
  );
  const into = policiesOf(manifests, to).some(({ spec }) =>
    (spec.ingress ?? []).some((rule: any) => takes(rule.from, from) && opens(rule.ports)),
  );
  return out && into;
}

const profiles = () => [
  ...PROFILES.map((profile) => ({ name: profile, manifests: render({ profile }) })),
  { name: 'llama', manifests: render({ chart: LLAMA, values: LLAMA_VALUES }) },
];

test('policies are on by default, and each pod is held by policies in both directions', () => {
  for (const { name, manifests } of profiles())
    for (const pod of pods(manifests)) {
      const all = policiesOf(manifests, pod);
      const own = all.filter(
        ({ spec }) => spec.podSelector.matchLabels['app.kubernetes.io/component'] === pod.component,
      );
      expect(own.length, `${name}: ${pod.component}`).toBeGreaterThan(0);
      for (const { spec } of all) expect([...spec.policyTypes].sort()).toEqual(['Egress', 'Ingress']);
    }
});

test('the whole release is denied what no rule allows', () => {
  for (const profile of PROFILES) {
    const deny = find(render({ profile }), 'NetworkPolicy', 'default-deny');
    expect(deny.spec).toEqual({
      podSelector: { matchLabels: { 'app.kubernetes.io/instance': 'ym' } },
      policyTypes: ['Ingress', 'Egress'],
    });
  }
});

test('who reaches whom inside the release is this table and no more', () => {
  const manifests = render({
    values: {
      llama: { enabled: true, model: LLAMA_VALUES.model },
      executors: { python: { image: { repository: 'p', tag: '1' } } },
    },
  });
  const all = pods(manifests);
  const TABLE: Record<string, string[]> = {
    api: ['nats:4222', 'redis:6379'],
    dispatcher: ['nats:4222', 'redis:6379'],
    router: ['llama:8080', 'nats:4222', 'redis:6379'],
    registry: ['nats:4222'],
    fleet: ['llama:8080', 'nats:4222'],
    'executor-shell': ['nats:4222'],
    'executor-files': ['nats:4222'],
    'executor-python': ['nats:4222'],
    bootstrap: ['nats:4222', 'redis:6379'],
    test: ['api:8080'],
    nats: ['nats:6222'],
    redis: [],
    llama: [],
  };
  for (const from of all) {
    const reached = all.flatMap((to) =>
      [4222, 6222, 8222, 6379, 8080, 8081, 9090]
        .filter((port) => reaches(manifests, from, to, port))
        .map((port) => `${to.component}:${port}`),
    );
    expect([...new Set(reached)].sort(), from.component).toEqual(TABLE[from.component]);
  }
});

test.each(PROFILES)('profile %s: the pod of helm test reaches the API, whoever else may', (profile) => {
  const manifests = render({ profile });
  const by = (name: string) => pods(manifests).find(({ component }) => component === name)!;
  expect(reaches(manifests, by('test'), by('api'), 8080)).toBe(true);
  // The chart's own namespace need not be among those of `from`.
  const closed = render({
    profile,
    values: { api: { networkPolicy: { from: [{ namespaceSelector: { matchLabels: { x: 'y' } } }] } } },
  });
  const [rule] = find(closed, 'NetworkPolicy', 'api').spec.ingress;
  expect(rule.from).toContainEqual({
    podSelector: { matchLabels: find(closed, 'NetworkPolicy', 'test').spec.podSelector.matchLabels },
  });
  expect(rule.from).toHaveLength(2);
});

test('DNS pods may listen on another port than their Service', () => {
  const values = {
    networkPolicy: { dnsPorts: [5353] },
    llama: { enabled: true, model: LLAMA_VALUES.model, networkPolicy: { dnsPorts: [5353] } },
  };
  const text = JSON.stringify(render({ values }).filter(({ kind }) => kind === 'NetworkPolicy'));
  expect(text).toContain('{"protocol":"UDP","port":5353}');
  expect(text).not.toContain('"port":53}');
});

test('a list without peers opens nothing: it is refused, or the rule is left out', () => {
  for (const [chart, path] of [
    [PLATFORM, 'networkPolicy.dnsTo'],
    [LLAMA, 'networkPolicy.dnsTo'],
    [LLAMA, 'networkPolicy.from'],
  ] as const)
    expect(refusal({ chart, args: ['--set-json', `${path}=[]`] }), path).toMatch(/minItems/);
  for (const path of ['router.networkPolicy', 'executorDefaults.networkPolicy'])
    expect(refusal({ args: ['--set-json', `${path}.extraEgress=[{"ports":[{"port":443}]}]`] })).toContain(
      "missing property 'to'",
    );
  const values = {
    networkPolicy: { kedaFrom: [], metricsFrom: [] },
    executors: { shell: { scaler: { mode: 'keda' } } },
  };
  for (const { spec, metadata } of ofKind(render({ values }), 'NetworkPolicy'))
    for (const rule of spec.ingress ?? []) expect(rule.from, metadata.name).not.toEqual([]);
});

/** Egress rules of a component that go beyond NATS, Redis and DNS inside the release. */
const beyond = (manifests: Manifest[], component: string) =>
  (find(manifests, 'NetworkPolicy', component).spec.egress ?? []).filter(
    (rule: any) => !(rule.ports ?? []).every(({ port }: any) => [53, 4222, 6379, 6222].includes(port)),
  );

describe('egress', () => {
  test('the fleet reaches llama.cpp pods and the API server, and executors only where it counts their calls', () => {
    const apiServer = { ports: [443, 6443].map((port) => ({ protocol: 'TCP', port })) };
    expect(beyond(render(), 'fleet')).toEqual([apiServer]);
    const to = [{ ipBlock: { cidr: '10.1.2.3/32' } }];
    const networkPolicy = { apiServerTo: to, apiServerPorts: [6443] };
    expect(beyond(render({ values: { fleet: { networkPolicy } } }), 'fleet')).toEqual([
      { to, ports: [{ protocol: 'TCP', port: 6443 }] },
    ]);
    const llama = beyond(render({ values: { llamaReleases: { enabled: true } } }), 'fleet')[1];
    expect(llama.to).toEqual([
      { podSelector: { matchLabels: { 'app.kubernetes.io/name': 'llama' } }, namespaceSelector: {} },
    ]);
    const manifests = render({ values: { fleet: { deletionCost: { enabled: true } } } });
    const all = pods(manifests);
    const fleet = all.find(({ component }) => component === 'fleet')!;
    for (const executor of all.filter(({ component }) => component.startsWith('executor-')))
      expect(reaches(manifests, fleet, executor, 9090), executor.component).toBe(true);
    expect(all.filter((pod) => reaches(manifests, fleet, pod, 9090)).length).toBe(2);
  });

  test('only the router leaves for the internet, for HTTPS, and never to private or link-local addresses', () => {
    const manifests = render();
    for (const component of ['api', 'dispatcher', 'registry', 'executor-shell', 'executor-files', 'bootstrap', 'nats'])
      expect(beyond(manifests, component), component).toEqual([]);
    const [rule, ...more] = beyond(manifests, 'router');
    expect(more).toEqual([]);
    expect(rule.ports).toEqual([{ protocol: 'TCP', port: 443 }]);
    expect(rule.to[0].ipBlock.except).toEqual(
      expect.arrayContaining(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '169.254.0.0/16', '100.64.0.0/10']),
    );
  });

  test('the registry reaches MCP servers on the internet where that is switched on', () => {
    const [rule, ...more] = beyond(render({ values: { registry: { networkPolicy: { internet: true } } } }), 'registry');
    expect(more).toEqual([]);
    expect(rule).toEqual(beyond(render(), 'router')[0]);
  });

  test('api and registry get what the values say, and nothing else', () => {
    const rule = { to: [{ ipBlock: { cidr: '203.0.113.7/32' } }], ports: [{ protocol: 'TCP', port: 443 }] };
    const manifests = render({
      values: { api: { networkPolicy: { extraEgress: [rule] } }, registry: { networkPolicy: { extraEgress: [rule] } } },
    });
    expect(beyond(manifests, 'api')).toEqual([rule]);
    expect(beyond(manifests, 'registry')).toEqual([rule]);
  });

  test.each(PROFILES)('profile %s: executors reach NATS and DNS only', (profile) => {
    const manifests = render({ profile });
    const executors = pods(manifests).filter(({ component }) => component.startsWith('executor'));
    expect(executors.length).toBeGreaterThan(0);
    for (const { component } of executors) {
      const { egress } = find(manifests, 'NetworkPolicy', component).spec;
      for (const rule of egress) {
        expect(Object.keys(rule).sort()).toEqual(['ports', 'to']);
        expect(rule.to.length).toBeGreaterThan(0);
        expect(JSON.stringify(rule)).not.toContain('ipBlock');
        expect([[4222], [53, 53]]).toContainEqual(rule.ports.map(({ port }: any) => port));
      }
    }
  });

  test('the registries of the install stage are reached when it is on, and only then', () => {
    const egress = [{ to: [{ ipBlock: { cidr: '198.51.100.4/32' } }], ports: [{ protocol: 'TCP', port: 443 }] }];
    const install = { enabled: true, policy: { registries: { npm: 'https://npm.example.com' } }, egress };
    const on = render({ values: { executors: { shell: { sandbox: { install } } } } });
    expect(beyond(on, 'executor-shell')).toEqual(egress);
    expect(beyond(on, 'executor-files')).toEqual([]);
  });

  test('llama: the router may ask; the pod leaves only while it has a model to fetch', () => {
    const fetching = find(render({ chart: LLAMA, values: LLAMA_VALUES }), 'NetworkPolicy', 'llama');
    expect(fetching.spec.egress).toHaveLength(2);
    const { spec } = find(
      render({ chart: LLAMA, values: { model: { existingClaim: 'c' } } }),
      'NetworkPolicy',
      'llama',
    );
    expect(spec.egress).toBeUndefined();
    expect(spec.ingress[0].ports).toEqual([{ protocol: 'TCP', port: 8080 }]);
  });

  test('without llama nothing of it is left; with other releases the router may reach them', () => {
    const text = JSON.stringify(render().filter(({ metadata }) => !metadata.name.endsWith('-config')));
    expect(text).not.toMatch(/llama/);
    const rules = beyond(render({ values: { llamaReleases: { enabled: true } } }), 'router');
    expect(JSON.stringify(rules)).toContain('"app.kubernetes.io/name":"llama"');
  });
});

test('ports in policies are container ports', () => {
  for (const { manifests } of profiles())
    for (const to of pods(manifests)) {
      const open = new Set(to.containers.flatMap(({ ports = [] }) => ports.map(({ containerPort }) => containerPort)));
      for (const { spec } of policiesOf(manifests, to))
        for (const { port } of (spec.ingress ?? []).flatMap((rule: any) => rule.ports ?? []))
          expect([...open], to.component).toContain(port);
    }
});
