import { readdirSync, readFileSync } from 'node:fs';
import { BUILT_IN_EXECUTORS, STREAMS, toolStream } from '@yardmaster/contracts';
import { describe, expect, test } from 'vitest';
import { render, root } from './helm.ts';
import { envOf, find, ofKind, pods } from './manifest.ts';

const ON = {
  monitoring: { podMonitor: { enabled: true }, alerts: { enabled: true, runbookUrl: 'https://wiki/runbook' } },
};
interface Alert {
  alert: string;
  expr: string;
  for: string;
  labels: { severity: string };
  annotations: { summary: string; runbook_url: string };
}
const alerts = (more: object = {}): Alert[] =>
  ofKind(render({ values: { ...ON, ...more } }), 'PrometheusRule').flatMap(({ spec }) =>
    spec.groups.flatMap((group: any) => group.rules),
  );
const RUNBOOK = readFileSync(`${root}docs/runbook.md`, 'utf8');

/** Names of all metrics that the sources make; those of Node come from prom-client. */
const sources = ['libs', 'services'].flatMap((part) =>
  readdirSync(`${root}${part}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\/src\/.*\.ts$/.test(path) && !/node_modules|\.spec\.ts$/.test(path))
    .map((path) => readFileSync(`${root}${part}/${path}`, 'utf8')),
);
const made = new Set(
  sources.flatMap((text) => [
    ...[...text.matchAll(/name: '(yardmaster_[a-z_]+)'/g)].map(([, name]) => name!),
    ...[...text.matchAll(/gauge\('([a-z_]+)'/g)].map(([, name]) => `yardmaster_fleet_${name}`),
  ]),
);
const OF_OTHERS = ['up', 'nodejs_eventloop_lag_p99_seconds'];

test('nothing of it is there unless it is asked for', () => {
  expect(ofKind(render(), 'PodMonitor', 'PrometheusRule')).toEqual([]);
});

test('objects and streams that the runbook names are those of the chart and the code', () => {
  const there = new Set(render({ values: ON }).map(({ metadata }) => metadata.name));
  // Pods of a StatefulSet, and names with a part left open (`…-executor-NAME`), go back to what makes them.
  const objects = new Set(
    [...RUNBOOK.matchAll(/(?<!-)\bym-yardmaster-[a-z-]*[a-z](?![a-z-]*-?[A-Z])/g)].map(([name]) => name),
  );
  objects.delete('ym-yardmaster-executors-shared'); // only with executors.colocate
  expect(objects.size).toBeGreaterThan(5);
  for (const name of objects) expect([...there]).toContain(name);
  for (const [, secret, key] of RUNBOOK.matchAll(/get secret (\S+) -o jsonpath='\{\.data\.([\w-]+)\}'/g))
    expect([
      ['ym-yardmaster-api-key', 'api-key'],
      ['ym-yardmaster-nats-auth', 'nats-setup'],
    ]).toContainEqual([secret, key]);
  const streams = [...Object.values(STREAMS).map(({ name }) => name), ...BUILT_IN_EXECUTORS.map(toolStream)];
  const asked = [...RUNBOOK.matchAll(/_INBOX_setup \w+ \w+ (YM_\w+)/g)].map(([, name]) => name);
  expect(asked.length).toBeGreaterThan(3);
  for (const name of asked) expect(streams).toContain(name);
});

describe('alerts', () => {
  test.each(alerts())(
    '$alert has a section in the runbook that its link leads to',
    ({ alert, annotations, labels }) => {
      expect(RUNBOOK).toMatch(new RegExp(`^## ${alert}$`, 'm'));
      expect(annotations.runbook_url).toBe(`https://wiki/runbook#${alert.toLowerCase()}`);
      expect(['critical', 'warning']).toContain(labels.severity);
    },
  );

  test.each(alerts())('$alert asks for metrics that exist, of this release alone', ({ expr }) => {
    const asked = [...expr.matchAll(/([a-z0-9_]+)\{([^}]*)\}/g)];
    expect(asked.length).toBeGreaterThan(0);
    for (const [, name, labels] of asked) {
      expect([...made, ...OF_OTHERS]).toContain(name);
      expect(labels).toContain('job="yard/ym-yardmaster-monitoring"');
    }
  });

  test('each part that is down is named by itself, the fleet where there is one', () => {
    const partsOf = (more: object) => {
      const { expr, annotations } = alerts(more).find(({ alert }) => alert === 'YardmasterServiceDown')!;
      expect(annotations.summary).toContain('$labels.component');
      // `absent` of a comparison drops all labels: two that are down would be one alert, of nobody.
      return expr.split(' or ').map((part) => {
        const [, of, named] =
          /^label_replace\(absent\(up\{.*app_kubernetes_io_component="(\w+)"\} == 1\), "component", "(\w+)", "", ""\)$/.exec(
            part,
          )!;
        expect(named).toBe(of);
        return named;
      });
    };
    expect(partsOf({})).toEqual(['api', 'dispatcher', 'router', 'registry', 'fleet']);
    expect(partsOf({ fleet: { enabled: false } })).toEqual(['api', 'dispatcher', 'router', 'registry']);
  });

  test('labels that an alert asks for are labels of its metric', () => {
    const labelsOf = (metric: string) =>
      sources.flatMap((text) => {
        const said = [
          new RegExp(`name: '${metric}',[\\s\\S]*?labelNames: \\[([^\\]]*)`).exec(text)?.[1],
          new RegExp(`gauge\\('${metric.replace('yardmaster_fleet_', '')}',[^[]*\\[([^\\]]*)`).exec(text)?.[1],
        ];
        return said.flatMap((list) => [...(list ?? '').matchAll(/'(\w+)'/g)].map(([, name]) => name!));
      });
    let asked = 0;
    for (const { expr, alert } of alerts())
      for (const [, by, metric, labels] of expr.matchAll(
        /(?:by \(([^)]*)\) \((?:rate\()?)?(yardmaster_\w+)\{([^}]*)\}/g,
      )) {
        const names = [...(by ?? '').split(/, */), ...labels!.split(',').map((one) => /^\w+/.exec(one)![0])];
        for (const name of names.filter((one) => one !== '' && one !== 'job')) {
          expect(labelsOf(metric!), `${alert}: ${metric} has no label ${name}`).toContain(name);
          asked++;
        }
      }
    expect(asked).toBeGreaterThan(15);
  });

  test('the runbook has no section of an alert that is gone', () => {
    const sections = [...RUNBOOK.matchAll(/^## (Yardmaster\w+)$/gm)].map(([, name]) => name);
    expect(sections.sort()).toEqual(
      alerts()
        .map(({ alert }) => alert)
        .sort(),
    );
  });
});

test('labels by which a Prometheus chooses are those that the values say, and never in place of our own', () => {
  const labels = { release: 'prom', 'app.kubernetes.io/name': 'x' };
  const values = { monitoring: { podMonitor: { enabled: true, labels }, alerts: { enabled: true, labels } } };
  for (const { metadata } of ofKind(render({ values }), 'PodMonitor', 'PrometheusRule'))
    expect(metadata.labels).toMatchObject({ release: 'prom', 'app.kubernetes.io/name': 'yardmaster' });
});

test('the PodMonitor reads every pod that has metrics, and the label that the alerts ask for', () => {
  const manifests = render({ values: ON });
  const { spec } = find(manifests, 'PodMonitor', 'monitoring');
  const read = spec.podMetricsEndpoints.map(({ port }: { port: string }) => port);
  const named = pods(manifests).flatMap(({ containers }) =>
    containers.flatMap(({ ports = [] }) =>
      ports.flatMap(({ name = '' }) => (name.startsWith('metrics') ? [name] : [])),
    ),
  );
  expect(named.length).toBeGreaterThanOrEqual(6);
  for (const name of named) expect(read).toContain(name);
  expect(spec.podTargetLabels).toContain('app.kubernetes.io/component');
  for (const { containers } of pods(manifests))
    for (const container of containers)
      if ('YM_METRICS_PORT' in envOf(container))
        expect(container.ports?.map(({ name }) => name).join()).toContain('metrics');
});
