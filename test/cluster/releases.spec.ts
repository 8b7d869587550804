import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type HelmName, LLAMA, LLAMA_VALUES, PLATFORM, PROFILES } from '../charts/helm.ts';
import type { Manifest } from '../charts/manifest.ts';
import { type Cluster, startCluster } from './objects.ts';
import { Releases } from './release.ts';

// helm's own install, upgrade, rollback and uninstall against a real API: what it stores, what it may not change, and who
// owns which field. Without --wait: nothing here runs pods.
let cluster: Cluster;
const releases = new Releases(() => cluster);

beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(async () => {
  await cluster?.plane.stop();
  releases.close();
});

const nextRelease = (chart: string) => releases.version(chart, '0.2.0');
const runner = (helm: HelmName, namespace: string, release = 'ym') => releases.of(helm, namespace, { release });

const CHANGED = { config: { routing: { default_model: 'another' } }, nats: { extraConfig: 'max_connections: 1000' } };
const secrets = (state: Record<string, object>) =>
  Object.fromEntries(
    Object.entries(state)
      .filter(([key]) => key.startsWith('Secret/'))
      .map(([key, object]) => [key, (object as Manifest).data]),
  );

describe.each<HelmName>(['helm3', 'helm4'])('%s', (helm) => {
  test.each(PROFILES)(
    '%s: install, upgrade to the next release, roll back, uninstall, install again',
    async (profile) => {
      const namespace = `${helm}-${profile}`;
      const yard = runner(helm, namespace);
      const bundled = profile !== 'external-deps';
      await yard.install(PLATFORM, undefined, profile);
      const installed = await yard.state();
      expect(Object.keys(installed).filter((key) => key.startsWith('Deployment/')).length).toBeGreaterThanOrEqual(6);
      const passwords = secrets(installed);
      for (const [key, data] of Object.entries(passwords))
        for (const [name, value] of Object.entries(data ?? {}))
          expect(value.length, `${key} ${name}`).toBeGreaterThan(40);
      expect(Object.keys(passwords).length).toBe(bundled ? (profile === 'gpu' ? 4 : 3) : 1);

      await yard.upgrade(nextRelease(PLATFORM), CHANGED, profile);
      const upgraded = await yard.state();
      expect(secrets(upgraded)).toEqual(passwords);
      const router = JSON.stringify(upgraded['Deployment/ym-yardmaster-router']);
      expect(router).toContain('yardmaster/router:0.2.0');
      expect(JSON.stringify(installed['Deployment/ym-yardmaster-router'])).toContain('yardmaster/router:0.1.0');
      expect(JSON.stringify(upgraded['ConfigMap/ym-yardmaster-config'])).toContain('another');

      await yard.rollback(1);
      expect(await yard.state()).toEqual(installed);

      await yard.uninstall();
      const left = Object.keys(await yard.state()).sort();
      // What holds data and what opens it; the rest of the claims belong to StatefulSets, which make them only as pods.
      expect(left.filter((key) => !/^(Secret|PersistentVolumeClaim)\//.test(key))).toEqual([]);
      expect(left.filter((key) => key.startsWith('Secret/')).length).toBe(Object.keys(passwords).length);

      await yard.install(PLATFORM, undefined, profile);
      expect(secrets(await yard.state())).toEqual(passwords);
    },
  );

  test('from one server of each to the ha profile, by the steps of docs/install.md, and back: nothing immutable', async () => {
    const namespace = `${helm}-grow`;
    const yard = runner(helm, namespace);
    await yard.install(PLATFORM, undefined, 'default');
    const small = await yard.state();
    await expect(yard.upgrade(PLATFORM, undefined, 'ha')).rejects.toThrow(/More NATS servers/);
    await cluster.plane.must('DELETE', `/apis/apps/v1/namespaces/${namespace}/statefulsets/ym-yardmaster-nats`);
    await yard.upgrade(PLATFORM, undefined, 'ha');
    const nats = (await yard.state())['StatefulSet/ym-yardmaster-nats'] as Manifest;
    expect(nats.spec.replicas).toBe(3);
    await yard.upgrade(PLATFORM, undefined, 'default');
    expect(await yard.state()).toEqual(small);
  });

  test('pods that a scaler has added stay at an upgrade', async () => {
    const namespace = `${helm}-scaled`;
    const yard = runner(helm, namespace);
    const values = { executors: { shell: { scaler: { mode: 'keda' } } } };
    await yard.install(PLATFORM, values);
    const path = `/apis/apps/v1/namespaces/${namespace}/deployments/ym-yardmaster-executor-shell`;
    await cluster.plane.must(
      'PATCH',
      `${path}/scale?fieldManager=scaler`,
      { spec: { replicas: 5 } },
      { type: 'application/merge-patch+json' },
    );
    await yard.upgrade(nextRelease(PLATFORM), { ...values, ...CHANGED });
    const { spec } = await cluster.plane.must('GET', path);
    expect(spec.replicas).toBe(5);
    expect(JSON.stringify(spec.template)).toContain('yardmaster/executor-shell:0.2.0');
  });

  test('one more executor and one less are upgrades', async () => {
    const yard = runner(helm, `${helm}-executors`);
    await yard.install(PLATFORM);
    const before = await yard.state();
    await yard.upgrade(PLATFORM, { executors: { python: { image: { repository: 'team/python', tag: '3' } } } });
    const after = await yard.state();
    expect(Object.keys(after)).toContain('Deployment/ym-yardmaster-executor-python');
    await yard.upgrade(PLATFORM);
    const { ['Secret/ym-yardmaster-nats-auth']: _, ...rest } = await yard.state();
    const { ['Secret/ym-yardmaster-nats-auth']: __, ...was } = before;
    expect(rest).toEqual(was);
  });

  test('a release of charts/llama beside it: install, upgrade, roll back, uninstall', async () => {
    const yard = runner(helm, `${helm}-llama`, 'qwen');
    await yard.install(LLAMA, LLAMA_VALUES);
    const installed = await yard.state();
    expect(Object.keys(installed)).toContain('Deployment/qwen-llama');
    await yard.upgrade(nextRelease(LLAMA), { ...LLAMA_VALUES, server: { slots: 2 } });
    expect(secrets(await yard.state())).toEqual(secrets(installed));
    await yard.rollback(1);
    expect(await yard.state()).toEqual(installed);
    await yard.uninstall();
    expect(Object.keys(await yard.state()).filter((key) => !/^(Secret|PersistentVolumeClaim)\//.test(key))).toEqual([]);
  });
});
