import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { parseApiKey } from '@yardmaster/contracts';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { startFakeCluster } from './fake-cluster.ts';
import { type HelmName, HELMS, PLATFORM, render } from './helm.ts';
import { type Manifest, ofKind, pods } from './manifest.ts';

type Secrets = Record<string, Record<string, string>>;

/** A rendering by a helm that may ask a cluster which holds these Secrets. */
async function renderIn(
  helm: HelmName,
  secrets: Secrets,
  args: string[] = [],
  {
    namespaces = ['kube-system', 'yard'],
    statefulSets = {},
  }: { namespaces?: string[]; statefulSets?: Record<string, number> } = {},
) {
  const cluster = await startFakeCluster({ namespaces, secrets, statefulSets });
  try {
    const { stdout } = await promisify(execFile)(
      HELMS[helm],
      [
        'template',
        'ym',
        PLATFORM,
        ...['--namespace', 'yard', '--dry-run=server', '--disable-openapi-validation'],
        ...['--kubeconfig', cluster.kubeconfig, ...args],
      ],
      { maxBuffer: 64 << 20 },
    );
    return parseAllDocuments(stdout)
      .map((document) => document.toJS() as Manifest | null)
      .filter((one) => one !== null);
  } finally {
    cluster.stop();
  }
}
const secretsOf = (manifests: Manifest[]): Secrets =>
  Object.fromEntries(ofKind(manifests, 'Secret').map(({ metadata, data = {} }) => [`yard/${metadata.name}`, data]));
const plain = (text = '') => Buffer.from(text, 'base64').toString();
const annotations = (manifests: Manifest[]) =>
  Object.fromEntries(pods(manifests).map(({ component, metadata }) => [component, metadata.annotations]));

test('without a cluster there is no password at all, so none can be guessed', () => {
  for (const secret of ofKind(render(), 'Secret')) expect(secret.data, secret.metadata.name).toBeUndefined();
});

describe.each<HelmName>(['helm3', 'helm4'])('passwords that %s makes in a cluster', (helm) => {
  test('are long, all different, and another key each time', async () => {
    const [one, other] = [secretsOf(await renderIn(helm, {})), secretsOf(await renderIn(helm, {}))];
    const values = Object.values(one).flatMap((data) => Object.values(data));
    expect(values.length).toBe(9 + 4 + 1);
    expect(new Set([...values, ...Object.values(other).flatMap((data) => Object.values(data))]).size).toBe(28);
    for (const value of values) expect(plain(value).length).toBeGreaterThanOrEqual(40);
    expect(parseApiKey(plain(one['yard/ym-yardmaster-api-key']!['api-key']))?.tenant).toBe('default');
  });

  test('are made where the namespace is still to be made too', async () => {
    const made = secretsOf(await renderIn(helm, {}, [], { namespaces: ['kube-system'] }));
    expect(Object.keys(made['yard/ym-yardmaster-nats-auth']!)).toContain('nats-setup');
  });

  test('stay at an upgrade, and no pod restarts because of them', async () => {
    const installed = await renderIn(helm, {});
    const upgraded = await renderIn(helm, secretsOf(installed));
    expect(secretsOf(upgraded)).toEqual(secretsOf(installed));
    expect(annotations(upgraded)).toEqual(annotations(installed));
  });

  test('one more executor is one more password, read by itself and the server', async () => {
    const installed = await renderIn(helm, {});
    const more = ['--set', 'executors.python.image.repository=p'];
    const upgraded = await renderIn(helm, secretsOf(installed), more);
    const [before, after] = [installed, upgraded].map((all) => secretsOf(all)['yard/ym-yardmaster-nats-auth']!);
    const { 'nats-executor-python': added, ...rest } = after!;
    expect(plain(added).length).toBe(40);
    expect(rest).toEqual(before);
    const [was, is] = [annotations(installed), annotations(upgraded)];
    const changed = Object.keys(is).filter((name) => JSON.stringify(is[name]) !== JSON.stringify(was[name]));
    // The fleet scales it: it reads the list of executors at its start.
    expect(changed.sort()).toEqual(['executor-python', 'fleet', 'nats']);
  });
});

describe.each<HelmName>(['helm3', 'helm4'])('servers of NATS, as %s sees them', (helm) => {
  const more = (running: number, replicas: number) =>
    renderIn(helm, {}, ['--set', `nats.replicas=${replicas}`], {
      statefulSets: { 'yard/ym-yardmaster-nats': running },
    });

  test('one that runs alone is not made a cluster in passing: its streams would be lost from sight', async () => {
    await expect(more(1, 3)).rejects.toThrow('"More NATS servers", has the steps');
  });
  test('any other number is taken', async () => {
    for (const [running, replicas] of [
      [1, 1],
      [3, 3],
      [3, 5],
    ] as const)
      expect((await more(running, replicas)).length).toBeGreaterThan(10);
  });
});
