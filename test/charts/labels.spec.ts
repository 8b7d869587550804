import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { LLAMA, LLAMA_VALUES, PLATFORM, PROFILES, render } from './helm.ts';
import { ofKind, pods, selects, workloads } from './manifest.ts';

const LABELS = ['name', 'instance', 'component', 'part-of', 'managed-by', 'version'].map(
  (key) => `app.kubernetes.io/${key}`,
);
const all = () => [
  ...PROFILES.map((profile) => ({ name: profile, manifests: render({ profile }) })),
  { name: 'llama', manifests: render({ chart: LLAMA, values: LLAMA_VALUES }) },
];

test('every object and every pod carries the common labels', () => {
  for (const { name, manifests } of all())
    for (const { labels = {}, name: object } of [
      ...manifests.map(({ metadata }) => metadata),
      ...pods(manifests).map(({ metadata }) => metadata),
    ])
      for (const label of [...LABELS, 'helm.sh/chart'])
        expect(labels[label], `${name}: ${object} has no ${label}`).toBeTruthy();
});

test("labels of somebody stand beside the chart's own, never over them", () => {
  const commonLabels = { team: 'ai', 'app.kubernetes.io/part-of': 'other', 'app.kubernetes.io/component': 'x' };
  for (const [chart, values] of [
    [PLATFORM, { commonLabels }],
    [LLAMA, { ...LLAMA_VALUES, commonLabels }],
  ] as const)
    for (const { metadata } of render({ chart, values })) {
      expect(metadata.labels).toMatchObject({ team: 'ai', 'app.kubernetes.io/part-of': 'yardmaster' });
      expect(metadata.labels!['app.kubernetes.io/component']).not.toBe('x');
    }
});

test('a workload selects by name, instance and component, and by nothing that an upgrade changes', () => {
  for (const { manifests } of all())
    for (const { spec, metadata } of workloads(manifests)) {
      expect(Object.keys(spec.selector.matchLabels).sort(), metadata.name).toEqual(
        ['component', 'instance', 'name'].map((key) => `app.kubernetes.io/${key}`),
      );
      expect(selects(spec.selector.matchLabels, spec.template.metadata.labels)).toBe(true);
    }
});

test('no pod belongs to two workloads', () => {
  for (const { manifests } of all())
    for (const pod of pods(manifests).filter(({ owner }) => owner.spec.selector))
      expect(
        workloads(manifests).filter(({ spec }) => selects(spec.selector.matchLabels, pod.metadata.labels)),
      ).toHaveLength(1);
});

test('a Service selects the pods of one workload, and its port is one of theirs', () => {
  for (const { name, manifests } of all())
    for (const { spec, metadata } of ofKind(manifests, 'Service')) {
      const chosen = pods(manifests).filter(({ metadata: pod }) => selects(spec.selector, pod.labels));
      expect(chosen.length, `${name}: ${metadata.name}`).toBe(1);
      const ports = chosen[0]!.containers.flatMap(({ ports: some = [] }) =>
        some.flatMap(({ name: port, containerPort }) => [port, containerPort]),
      );
      for (const { targetPort } of spec.ports) expect(ports, metadata.name).toContain(targetPort);
    }
});

/** What Kubernetes refuses to change, so what an upgrade must not. The file is changed by hand, with a major version. */
test('nothing immutable has changed since the committed file', () => {
  const is = Object.fromEntries(
    all().map(({ name, manifests }) => [
      name,
      Object.fromEntries(
        workloads(manifests).map(({ kind, metadata, spec }) => [
          `${kind} ${metadata.name}`,
          {
            selector: spec.selector.matchLabels,
            ...(kind === 'StatefulSet' && {
              serviceName: spec.serviceName,
              podManagementPolicy: spec.podManagementPolicy ?? 'OrderedReady',
              volumeClaimTemplates: spec.volumeClaimTemplates,
            }),
          },
        ]),
      ),
    ]),
  );
  expect(is).toEqual(JSON.parse(readFileSync(new URL('immutable.json', import.meta.url), 'utf8')));
});
