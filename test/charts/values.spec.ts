import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { generatedFiles } from './generate/files.ts';
import { defaultValues, type HelmName, LLAMA, LLAMA_VALUES, PLATFORM, refusal, render, root } from './helm.ts';
import { find, type Manifest, ofKind, pods } from './manifest.ts';
import { problemsOf } from './strict-types.ts';

const HELM: HelmName[] = ['helm3', 'helm4'];

test('what is made from other files is current (else: npx node test/charts/generate/run.ts)', async () => {
  for (const [path, text] of await generatedFiles())
    expect(readFileSync(`${root}${path}`, 'utf8') === text, path).toBe(true);
});

describe.each([PLATFORM, LLAMA])('values.schema.json of %s', (chart) => {
  const schema = JSON.parse(readFileSync(`${chart}/values.schema.json`, 'utf8')) as any; // eslint-disable-line @typescript-eslint/no-explicit-any

  test('covers every key of values.yaml, with words', () => {
    expect(schema.$schema).toContain('draft-07');
    const walk = (value: unknown, node: any, path: string): void => {
      // eslint-disable-line @typescript-eslint/no-explicit-any
      expect(node, `${path} is not in the schema`).toBeTruthy();
      if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
      for (const [key, below] of Object.entries(value)) {
        const next = node.properties?.[key] ?? node.additionalProperties;
        if (next !== undefined || node.additionalProperties === false) walk(below, next, `${path}.${key}`);
      }
    };
    walk(defaultValues(chart), schema, 'values');
  });

  test('is closed wherever it lists keys, but for global', () => {
    const walk = (node: any, path: string): void => {
      // eslint-disable-line @typescript-eslint/no-explicit-any
      if (typeof node !== 'object' || node === null) return;
      if (node.properties !== undefined && !path.endsWith('.global'))
        expect(node.additionalProperties, path).toBe(false);
      for (const [key, below] of Object.entries(node.properties ?? {})) walk(below, `${path}.${key}`);
      walk(node.additionalProperties, `${path}.*`);
    };
    walk(schema, '');
  });
});

describe.each(HELM)('mistakes in values, said by %s', (helm) => {
  const said = (...args: string[]) => refusal({ helm, args });
  test('a wrong type', () => {
    const text = said('--set-string', 'dispatcher.replicas=abc');
    expect(text).toMatch(/\/?dispatcher[/.]replicas/);
    expect(text).toContain('integer');
  });
  test('a misspelt key', () => expect(said('--set', 'dispatcher.replicaCuont=3')).toContain('replicaCuont'));
  test('a misspelt key of an executor', () => expect(said('--set', 'executors.shell.slotz=3')).toContain('slotz'));
  test('a kind that is no part of a subject', () => {
    const text = said('--set', 'executors.shell.kind=Bad.Kind');
    expect(text).toMatch(/executors[/.]shell[/.]kind/);
    expect(text).toContain('[a-z0-9]');
  });
  test.each(['3d', 'a--b', 'a-'])('a kind %s that the fleet would not take', (kind) =>
    expect(said('--set', `executors.shell.kind=${kind}`)).toMatch(/executors[/.]shell[/.]kind/),
  );
  test.each(['a--b', 'A', 'x'.repeat(25)])('an executor called %s', (name) =>
    expect(said('--set', `executors.${name}.image.repository=x`)).toContain(name),
  );
  test('a namespace that is none', () =>
    expect(said('--set', 'llamaReleases.namespaces={GPU}')).toMatch(/llamaReleases[/.]namespaces/));
  test('an unknown isolation class', () =>
    expect(said('--set', 'executors.shell.isolation=vm')).toMatch(/standard.*gvisor.*kata/s));
  test('an unknown scaler mode', () =>
    expect(said('--set', 'executors.shell.scaler.mode=magic')).toMatch(/none.*keda.*hpa/s));
});

describe('mistakes that a schema cannot see, said in words', () => {
  test.each<[object, string]>([
    [{ nats: { mode: 'external' } }, 'set nats.external.url'],
    [{ redis: { mode: 'external', external: { url: 'redis://r:6379' } } }, 'set redis.auth.existingSecret'],
    [
      { redis: { mode: 'external', external: { url: 'redis://r:6379' }, auth: { existingSecret: 's' } } },
      'set redis.external.egressTo',
    ],
    [{ nats: { replicas: 2 } }, 'nats.replicas must be 1, 3 or 5'],
    [{ executors: { python: {} } }, 'set executors.python.image.repository'],
    [{ executors: { other: { kind: 'shell', image: { repository: 'x' } } } }, 'both serve the kind "shell"'],
    [{ executors: { shell: { workspace: 'none' } } }, 'there are: shared'],
    [
      { executors: { shell: { networkPolicy: { extraEgress: [{ to: [{ ipBlock: { cidr: '1.2.3.4/32' } }] }] } } } },
      'reaches NATS and DNS only',
    ],
    [{ executors: { mcp: { image: { repository: 'x' } } } }, 'the kind "mcp", which is Yardmaster\'s own'],
    [
      {
        executors: {
          shell: { sandbox: { install: { enabled: true, policy: { registries: { npm: 'https://n.example' } } } } },
        },
      },
      'set executors.shell.sandbox.install.egress',
    ],
    [{ providerKeys: { env: ['X'] } }, 'providerKeys.env names keys'],
    [
      { config: { mcp_servers: { disk: { command: 'node', args: ['server.js'] } } } },
      'config.mcp_servers.disk.command: a server over stdio',
    ],
    [
      { executors: { shell: { isolation: 'gvisor' } }, workspaces: { shared: { colocate: true } } },
      'must have the same isolation',
    ],
  ])('%j', (values, words) => expect(refusal({ values })).toContain(words));
});

describe('null', () => {
  const keysOf = (node: unknown, path: string[] = []): string[][] =>
    typeof node !== 'object' || node === null || Array.isArray(node)
      ? []
      : Object.entries(node).flatMap(([key, below]) => [[...path, key], ...keysOf(below, [...path, key])]);
  /** Is the key named by the schema of the level it is on? */
  const isRequired = (chart: string, path: string[]) => {
    const schema = JSON.parse(readFileSync(`${chart}/values.schema.json`, 'utf8')) as any; // eslint-disable-line @typescript-eslint/no-explicit-any
    const level = path
      .slice(0, -1)
      .reduce((node, key) => node?.properties?.[key] ?? node?.additionalProperties, schema);
    return level?.required?.includes(path.at(-1)) === true;
  };
  // What an entry must say, and two that are asked for in words.
  const SAID =
    /^(executors|workspaces)\.|^model\.(url|sha256)$|^llama\b|\.seccompProfile\.|\.appArmorProfile\.|\.policy\./;

  test.each([
    ['yardmaster', PLATFORM, {}],
    ['llama', LLAMA, LLAMA_VALUES],
  ])('in %s is the empty value wherever the schema does not ask for the key', async (_, chart, base) => {
    const free = keysOf(defaultValues(chart)).filter(
      (path) => !isRequired(chart, path) && !SAID.test(path.join('.')) && !path.includes('resources'),
    );
    expect(free.length).toBeGreaterThan(20);
    const manifests = render({
      chart,
      values: base,
      args: free.flatMap((path) => ['--set', `${path.join('.')}=null`]),
    });
    expect((await Promise.all(manifests.map(problemsOf))).flat()).toEqual([]);
  });

  test.each(HELM)('is refused by %s with the name of the key where something is needed', (helm) => {
    for (const path of [
      'api',
      'api.replicas',
      'nats.image.repository',
      'executorDefaults.scaler',
      'networkPolicy.dnsTo',
    ])
      expect(refusal({ helm, args: ['--set', `${path}=null`] })).toContain(path.split('.').at(-1));
  });

  test('takes an executor or a workspace away', () => {
    const manifests = render({
      args: ['--set', 'executors.shell=null', '--set', 'executors.files=null', '--set', 'workspaces.shared=null'],
    });
    expect(manifests.filter(({ metadata }) => /executor-|workspace-/.test(metadata.name))).toEqual([]);
  });
});

test('large numbers of a file arrive as they were written', () => {
  const values = {
    api: { env: { YM_API_MAX_BODY_BYTES: 20_000_000 } },
    bootstrap: { tenantShare: 1_000_000 },
    executors: { shell: { slots: 1_000_000, sandbox: { memoryMb: 1_048_576, diskMb: 10_000_000 } } },
    llama: { enabled: true, model: LLAMA_VALUES.model, server: { contextSize: 1_000_000 }, env: { X: 3_000_000 } },
  };
  for (const helm of HELM) expect(JSON.stringify(pods(render({ values, helm })))).not.toMatch(/[0-9]e\+/);
  const [api] = pods(render({ values })).find(({ component }) => component === 'api')!.containers;
  expect(api!.env).toContainEqual({ name: 'YM_API_MAX_BODY_BYTES', value: '20000000' });
});

describe('executors', () => {
  const python = { image: { repository: 'team/python', tag: '3' }, scaler: { mode: 'keda', min: 2 } };
  const key = ({ kind, metadata }: Manifest) => `${kind} ${metadata.name}`;

  test('one more entry is one more of each object, and changes nothing of the others', () => {
    const before = new Map(render().map((one) => [key(one), one]));
    const after = render({ values: { executors: { python } } });
    expect(
      after
        .filter((one) => !before.has(key(one)))
        .map(({ kind }) => kind)
        .sort(),
    ).toEqual(['Deployment', 'Job', 'NetworkPolicy', 'PodDisruptionBudget', 'ScaledObject', 'ServiceAccount']);
    const changed = after.filter(
      (one) => before.has(key(one)) && JSON.stringify(before.get(key(one))) !== JSON.stringify(one),
    );
    // The server learns the account; KEDA may ask it.
    expect(changed.map(key).sort()).toEqual(['NetworkPolicy ym-yardmaster-nats', 'StatefulSet ym-yardmaster-nats']);
  });

  test('a class of isolation is a kind of its own on a runtime of its own', () => {
    const manifests = render({
      values: {
        executors: {
          'shell-gvisor': { type: 'shell', workspace: 'shared', isolation: 'gvisor', sandbox: { mode: 'pod' } },
        },
      },
    });
    const { template } = find(manifests, 'Deployment', 'executor-shell-gvisor').spec;
    expect(template.spec.runtimeClassName).toBe('gvisor');
    expect(template.spec.containers[0].env).toContainEqual({ name: 'YM_EXECUTOR_KIND', value: 'shell-gvisor' });
    expect(template.spec.containers[0].env).toContainEqual({ name: 'YM_NATS_USER', value: 'executor-shell-gvisor' });
    expect(find(manifests, 'Deployment', 'executor-shell').spec.template.spec.runtimeClassName).toBeUndefined();
  });

  test('colocated executors are one pod with one volume, and no port twice', () => {
    const manifests = render({ values: { workspaces: { shared: { colocate: true, ephemeral: true } } } });
    expect(ofKind(manifests, 'PersistentVolumeClaim')).toEqual([]);
    const pod = pods(manifests).find(({ component }) => component === 'executors-shared')!;
    expect(pod.containers.map(({ name }) => name)).toEqual(['executor-files', 'executor-shell', 'runner']);
    const ports = pod.containers.flatMap(({ ports: some = [] }) => some.map(({ containerPort }) => containerPort));
    expect(new Set(ports).size).toBe(ports.length);
    expect(manifests.some(({ metadata }) => metadata.name.includes('executor-shell'))).toBe(false);
  });
});

test('colocation, of one volume or of all, asks for a volume that one node can mount', () => {
  const one = render({ values: { workspaces: { shared: { colocate: true } } } });
  expect(render({ values: { executors: { colocate: true } } })).toEqual(one);
  expect(find(one, 'PersistentVolumeClaim', 'workspace-shared').spec.accessModes).toEqual(['ReadWriteOnce']);
  expect(find(render(), 'PersistentVolumeClaim', 'workspace-shared').spec.accessModes).toEqual(['ReadWriteMany']);
  const kept = { shared: { colocate: true, accessMode: 'ReadWriteMany' } };
  expect(
    find(render({ values: { workspaces: kept } }), 'PersistentVolumeClaim', 'workspace-shared').spec.accessModes,
  ).toEqual(['ReadWriteMany']);
});

test('no container has two variables of one name, whatever is set twice', () => {
  const values = {
    env: { YM_LOG_LEVEL: 'debug', A: '1' },
    api: { env: { A: '2', YM_API_PORT: '8080' } },
    executors: { shell: { env: { YM_EXECUTOR_SHELL_MODE: 'bwrap' } } },
  };
  const manifests = render({ values });
  for (const { all } of pods(manifests))
    for (const { env = [], name } of all) {
      const names = env.map((one) => one.name);
      expect(
        names.filter((one, i) => names.indexOf(one) !== i),
        name,
      ).toEqual([]);
    }
  expect(find(manifests, 'Deployment', 'api').spec.template.spec.containers[0].env).toContainEqual({
    name: 'A',
    value: '2',
  });
});

describe('checksums', () => {
  const sums = (values: object) =>
    Object.fromEntries(
      pods(render({ values })).map(({ component, metadata }) => [
        component,
        JSON.stringify(metadata.annotations ?? {}),
      ]),
    );
  const changed = (values: object) => {
    const [before, after] = [sums({}), sums(values)];
    return Object.keys(after)
      .filter((component) => before[component] !== after[component])
      .sort();
  };

  test('a template has one for each ConfigMap and generated Secret that it reads', () => {
    const manifests = render({
      values: { llama: { enabled: true, model: LLAMA_VALUES.model }, providerKeys: { values: { K: 'v' } } },
    });
    const made = new Set(
      manifests.filter(({ kind }) => kind === 'ConfigMap' || kind === 'Secret').map(({ metadata }) => metadata.name),
    );
    for (const { spec, metadata, component } of pods(manifests)) {
      const read = (spec.volumes ?? [])
        .map((one: any) => one.configMap?.name ?? one.secret?.secretName)
        .filter((name: string) => made.has(name)); // eslint-disable-line @typescript-eslint/no-explicit-any
      const has = Object.keys(metadata.annotations ?? {}).filter((name) => name.startsWith('checksum/'));
      expect(has.length, component).toBe(new Set(read).size);
    }
  });

  test('a change of the configuration changes exactly what reads it', () => {
    const servers = { mcp_servers: { github: { url: 'https://mcp.example.com' } } };
    expect(changed({ config: servers })).toEqual(['api', 'dispatcher', 'fleet', 'registry', 'router']);
    expect(changed({ config: { routing: { default_model: 'x' } } })).toEqual(['api', 'dispatcher', 'fleet', 'router']);
    expect(changed({ executors: { shell: { scaler: { max: 3 } } } })).toEqual(['fleet']);
    expect(changed({ nats: { extraConfig: 'max_connections: 1000' } })).toEqual(['nats']);
    expect(changed({ providerKeys: { values: { K: 'v' } } })).toEqual(['router']);
  });
});

test('there is one provider more when the release brings a llama.cpp server', () => {
  const text = find(render({ profile: 'gpu' }), 'ConfigMap', 'config').data!['config.yaml']!;
  expect(text).toContain('base_url: http://ym-llama:8080/v1');
  const elsewhere = render({ profile: 'gpu', values: { llama: { service: { port: 80 } } } });
  expect(find(elsewhere, 'ConfigMap', 'config').data!['config.yaml']).toContain('base_url: http://ym-llama:80/v1');
  expect(text).toContain('key_file: /run/yardmaster/llama/api-key');
  find(render({ profile: 'gpu' }), 'Service', 'llama');
});

test('a list of host names has the names of the Service and the Ingress too', () => {
  const values = { api: { hosts: ['api.example.com'], ingress: { enabled: true, host: 'ym.example.com' } } };
  const { env } = find(render({ values }), 'Deployment', 'api').spec.template.spec.containers[0];
  expect(env.find(({ name }: { name: string }) => name === 'YM_API_HOSTS').value.split(',')).toEqual([
    'api.example.com',
    'ym-yardmaster-api',
    'ym-yardmaster-api.yard',
    'ym-yardmaster-api.yard.svc',
    'ym-yardmaster-api.yard.svc.cluster.local',
    'ym.example.com',
  ]);
});
