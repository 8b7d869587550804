import { describe, expect, test } from 'vitest';
import { LLAMA, LLAMA_VALUES, PROFILES, render, renderText } from './helm.ts';
import { type Container, envOf, find, ofKind, type Pod, pods } from './manifest.ts';

const renders = () => [
  ...PROFILES.map((profile) => ({ name: profile, manifests: render({ profile }) })),
  { name: 'llama', manifests: render({ chart: LLAMA, values: LLAMA_VALUES }) },
  { name: 'colocated', manifests: render({ values: { workspaces: { shared: { colocate: true } } } }) },
  { name: 'mode pod', manifests: render({ values: { executors: { shell: { sandbox: { mode: 'pod' } } } } }) },
];
const eachPod = (look: (pod: Pod, name: string) => void) => {
  for (const { name, manifests } of renders())
    for (const pod of pods(manifests)) look(pod, `${name}: ${pod.component}`);
};
const isRunner = (container: Container) => container.name === 'runner' || container.name.startsWith('runner-');

/** What Pod Security "restricted" has against a pod, each as a line. */
function againstRestricted({ spec, all }: Pod): string[] {
  const found: string[] = [];
  const say = (wrong: unknown, text: string) => void (wrong && found.push(text));
  say(spec.hostNetwork || spec.hostPID || spec.hostIPC, 'host namespaces');
  const kinds = [
    'emptyDir',
    'configMap',
    'secret',
    'persistentVolumeClaim',
    'projected',
    'downwardAPI',
    'csi',
    'ephemeral',
  ];
  for (const { name, ...source } of spec.volumes ?? [])
    say(!Object.keys(source).every((kind) => kinds.includes(kind)), `volume ${name}`);
  for (const { name, securityContext: own = {}, ports = [] } of all) {
    const seccomp = own.seccompProfile?.type ?? spec.securityContext?.seccompProfile?.type;
    say(!['RuntimeDefault', 'Localhost'].includes(seccomp), `${name}: seccompProfile`);
    say((own.runAsNonRoot ?? spec.securityContext?.runAsNonRoot) !== true, `${name}: runAsNonRoot`);
    say((own.runAsUser ?? spec.securityContext?.runAsUser) === 0, `${name}: runAsUser`);
    say(own.allowPrivilegeEscalation !== false, `${name}: allowPrivilegeEscalation`);
    say(own.privileged === true, `${name}: privileged`);
    say(JSON.stringify(own.capabilities) !== '{"drop":["ALL"]}', `${name}: capabilities`);
    say(own.procMount !== undefined && own.procMount !== 'Default', `${name}: procMount`);
    say(own.appArmorProfile?.type === 'Unconfined', `${name}: appArmorProfile`);
    say(
      ports.some((port) => 'hostPort' in port),
      `${name}: hostPort`,
    );
  }
  return found;
}

test('every pod is "restricted" but the runner that makes sandboxes, in the fields that it needs and no other', () => {
  eachPod((pod, name) => {
    const runners = pod.containers.filter(isRunner).filter((one) => envOf(one)['YM_EXECUTOR_SHELL_MODE'] !== 'pod');
    const allowed = runners.flatMap((one) => [`${one.name}: procMount`, `${one.name}: appArmorProfile`]);
    expect(againstRestricted(pod), name).toEqual(allowed);
    expect(pod.spec.hostUsers, name).toBe(runners.length > 0 ? false : undefined);
  });
});

test('the exception is empty where no such runner is', () => {
  for (const values of [
    { executors: { shell: { sandbox: { mode: 'pod' } } } },
    { executors: { shell: { enabled: false } } },
  ])
    for (const pod of pods(render({ values }))) expect(againstRestricted(pod), pod.component).toEqual([]);
});

test('the checker of "restricted" proves itself', () => {
  const pod = structuredClone(pods(render())[0]!);
  pod.spec.hostPID = true;
  pod.spec.volumes.push({ name: 'bad', hostPath: { path: '/' } });
  pod.all[0]!.securityContext = { privileged: true };
  expect(againstRestricted(pod)).toEqual(
    expect.arrayContaining([
      'host namespaces',
      'volume bad',
      `${pod.all[0]!.name}: privileged`,
      `${pod.all[0]!.name}: capabilities`,
    ]),
  );
});

test('the platform may choose the user, as OpenShift does; nobody is root all the same', () => {
  const llama = { enabled: true, model: LLAMA_VALUES.model, runAsUser: null };
  for (const pod of pods(render({ values: { podDefaults: { runAsUser: null }, llama } }))) {
    expect(pod.spec.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    });
  }
  // A number of a namespace there; helm reads it as 1.00066e+09.
  for (const { spec } of pods(render({ values: { podDefaults: { runAsUser: 1000660000 } } })))
    expect(spec.securityContext).toMatchObject({ runAsUser: 1000660000, fsGroup: 1000660000 });
});

test('root file systems are read-only; what is written to has a limit of its own', () => {
  eachPod(({ spec, all }, name) => {
    const volumes = new Map<string, any>((spec.volumes ?? []).map((one: { name: string }) => [one.name, one])); // eslint-disable-line @typescript-eslint/no-explicit-any
    for (const container of all) {
      expect(container.securityContext.readOnlyRootFilesystem, `${name}/${container.name}`).toBe(true);
      const tmp = container.volumeMounts?.find(({ mountPath }) => mountPath === '/tmp');
      expect(volumes.get(tmp?.name ?? '')?.emptyDir?.sizeLimit, `${name}/${container.name} /tmp`).toBeTruthy();
    }
    for (const volume of volumes.values())
      if (volume.emptyDir) expect(volume.emptyDir.sizeLimit, `${name}: ${volume.name}`).toBeTruthy();
  });
});

test('the fleet alone has a token, and each pod has an account of its own', () => {
  for (const { name, manifests } of renders()) {
    for (const account of ofKind(manifests, 'ServiceAccount'))
      expect(account.automountServiceAccountToken, name).toBe(false);
    const seen = new Map<string, string>();
    for (const { spec, component } of pods(manifests)) {
      expect(spec.automountServiceAccountToken, `${name}: ${component}`).toBe(component === 'fleet');
      expect(spec.serviceAccountName).toMatch(/./);
      expect(spec.serviceAccountName).not.toBe('default');
      expect(seen.get(spec.serviceAccountName) ?? component).toBe(component);
      seen.set(spec.serviceAccountName, component);
      expect(spec.enableServiceLinks, component).toBe(false);
    }
  }
});

describe('what may be done with the Kubernetes API', () => {
  const LEASES = [
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['create'] },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      resourceNames: ['ym-yardmaster-fleet'],
      verbs: ['get', 'update'],
    },
  ];
  const ENDPOINTS = [
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['get', 'list', 'watch'] },
  ];
  const rolesOf = (values: object = {}) => ofKind(render({ values }), 'Role');
  const role = (name: string, values: object = {}) =>
    rolesOf(values).find(({ metadata }) => metadata.name === `ym-yardmaster-fleet-${name}`)?.rules;

  test('no rule has a star, there is no ClusterRole, and only the fleet is bound', () => {
    for (const { name, manifests } of renders()) {
      expect(ofKind(manifests, 'ClusterRole', 'ClusterRoleBinding'), name).toEqual([]);
      for (const { rules } of ofKind(manifests, 'Role')) expect(JSON.stringify(rules), name).not.toContain('"*"');
      for (const { subjects, roleRef } of ofKind(manifests, 'RoleBinding')) {
        expect(subjects).toEqual([{ kind: 'ServiceAccount', name: 'ym-yardmaster-fleet', namespace: 'yard' }]);
        expect(ofKind(manifests, 'Role').map(({ metadata }) => metadata.name)).toContain(roleRef!.name);
      }
    }
  });

  test('discovery reads EndpointSlices and nothing else, where llama.cpp servers are', () => {
    expect(role('discovery')).toBeUndefined();
    expect(role('discovery', { llama: { enabled: true, model: LLAMA_VALUES.model } })).toEqual(ENDPOINTS);
    expect(role('discovery', { llamaReleases: { enabled: true } })).toEqual(ENDPOINTS);
    const spread = { llamaReleases: { enabled: true, namespaces: ['gpu-a', 'gpu-b'] } };
    const where = (kind: string) =>
      ofKind(render({ values: spread }), kind)
        .filter(({ metadata }) => metadata.name.endsWith('-discovery'))
        .map(({ metadata }) => metadata.namespace);
    expect([where('Role'), where('RoleBinding')]).toEqual([
      ['gpu-a', 'gpu-b'],
      ['gpu-a', 'gpu-b'],
    ]);
  });

  test('scaling gets and patches the scale of the executors by name, and its Lease; nothing else', () => {
    const scale = (...names: string[]) => ({
      apiGroups: ['apps'],
      resources: ['deployments/scale'],
      resourceNames: names.map((name) => `ym-yardmaster-executor-${name}`),
      verbs: ['get', 'patch'],
    });
    expect(role('scaler')).toEqual([scale('files', 'shell'), ...LEASES]);
    const values = {
      executors: {
        shell: { scaler: { mode: 'keda' } },
        python: { image: { repository: 'p', tag: '1' }, scaler: { min: 0 } },
      },
    };
    expect(role('scaler', values)).toEqual([scale('files', 'python'), ...LEASES]);
    expect(role('scaler', { executorDefaults: { scaler: { mode: 'none' } } })).toEqual(LEASES);
    // The Lease that the Role names is the one that the fleet takes.
    expect(envOf(pods(render()).find(({ component }) => component === 'fleet')!.containers[0]!)).toMatchObject({
      YM_FLEET_LEASE: 'ym-yardmaster-fleet',
      YM_FLEET_NAMESPACE: 'yard',
    });
  });

  test('pods may be patched only where that is switched on', () => {
    expect(role('pods')).toBeUndefined();
    expect(role('pods', { fleet: { deletionCost: { enabled: true } } })).toEqual([
      { apiGroups: [''], resources: ['pods'], verbs: ['list', 'patch'] },
    ]);
  });

  test('without the fleet nothing may use it', () => {
    const manifests = render({ values: { fleet: { enabled: false } } });
    expect(ofKind(manifests, 'Role', 'RoleBinding')).toEqual([]);
    expect(manifests.filter(({ metadata }) => metadata.labels?.['app.kubernetes.io/component'] === 'fleet')).toEqual(
      [],
    );
  });

  test('of provider keys the fleet sees those that the values name', () => {
    const values = { providerKeys: { existingSecret: 'keys' }, fleet: { providerKeys: ['LLAMA_KEY'] } };
    const { spec } = pods(render({ values })).find(({ component }) => component === 'fleet')!;
    const volume = spec.volumes.find(({ name }: { name: string }) => name === 'provider-keys');
    expect(volume.secret).toEqual({ secretName: 'keys', items: [{ key: 'LLAMA_KEY', path: 'LLAMA_KEY' }] });
  });
});

describe('secrets', () => {
  const SECRETS = {
    nats: { auth: { existingSecret: 'my-nats' } },
    redis: { auth: { existingSecret: 'my-redis' } },
    api: { auth: { existingSecret: 'my-key' } },
    providerKeys: { existingSecret: 'my-providers' },
    llama: { enabled: true, model: { existingClaim: 'c' }, apiKey: { existingSecret: 'my-llama' } },
  };

  test('with every existingSecret there is no Secret in the render', () => {
    expect(ofKind(render({ values: SECRETS }), 'Secret')).toEqual([]);
  });

  test.each(Object.keys(SECRETS))('existingSecret of %s puts its name in place of a generated Secret', (key) => {
    const rest = { llama: { enabled: true, model: { existingClaim: 'c' } }, providerKeys: { values: { KEY: 'x' } } };
    const own = SECRETS[key as keyof typeof SECRETS];
    const before = ofKind(render({ values: rest }), 'Secret').length;
    const manifests = render({ values: { ...rest, [key]: own } });
    expect(ofKind(manifests, 'Secret').length).toBe(before - 1);
    expect(JSON.stringify(pods(manifests).map(({ spec }) => spec))).toContain(
      `my-${{ nats: 'nats', redis: 'redis', api: 'key', providerKeys: 'providers', llama: 'llama' }[key]}`,
    );
  });

  test('a key in the values is in its Secret and nowhere else', () => {
    const text = renderText({
      values: { providerKeys: { values: { ANTHROPIC_API_KEY: 'sk-very-secret' }, env: ['ANTHROPIC_API_KEY'] } },
    });
    expect(text).not.toContain('sk-very-secret');
    expect(text.split(Buffer.from('sk-very-secret').toString('base64')).length).toBe(2);
  });

  test('credentials are files or secretKeyRefs, never arguments', () => {
    for (const { manifests } of renders())
      for (const { all } of pods(manifests))
        for (const container of all) {
          expect(JSON.stringify([container.command, container.args])).not.toMatch(/password|--api-key"|LLAMA_API_KEY/i);
          for (const { name, value } of container.env ?? [])
            if (/PASSWORD|TOKEN|SECRET|API_KEY/.test(name) && value !== undefined)
              expect(value, name).toMatch(/^\/run\//);
        }
  });

  test('an executor sees its own password alone, its runner none', () => {
    const pod = pods(render()).find(({ component }) => component === 'executor-shell')!;
    const items = pod.spec.volumes.filter((one: any) => one.secret); // eslint-disable-line @typescript-eslint/no-explicit-any
    expect(items.map((one: any) => one.secret.items)).toEqual([[{ key: 'nats-executor-shell', path: 'password' }]]); // eslint-disable-line @typescript-eslint/no-explicit-any
    const runner = pod.containers.find(isRunner)!;
    expect(runner.volumeMounts!.map(({ mountPath }) => mountPath)).not.toContain('/run/yardmaster/nats');
    expect(Object.keys(envOf(runner)).filter((name) => !/^YM_(EXECUTOR_SHELL_|WORKSPACES)/.test(name))).toEqual([]);
  });

  test('what a user sets for an executor reaches its runner only where it is a setting of it', () => {
    const env = { OTHER: 'x', YM_EXECUTOR_SHELL_PIDS: '99' };
    const runner = pods(render({ values: { executors: { shell: { env } } } }))
      .find(({ component }) => component === 'executor-shell')!
      .containers.find(isRunner)!;
    expect(envOf(runner)).toMatchObject({ YM_EXECUTOR_SHELL_PIDS: '99' });
    expect(envOf(runner)).not.toHaveProperty('OTHER');
  });
});

describe('images', () => {
  test('every image has a tag that does not move to "latest"; our own is the appVersion', () => {
    eachPod(({ all }, name) => {
      for (const { image } of all) expect(image, name).toMatch(/[:@](?!latest$)[\w.:-]+$/);
    });
    expect(find(render(), 'Deployment', 'router').spec.template.spec.containers[0].image).toBe(
      'yardmaster/router:0.1.0',
    );
  });

  test('a digest wins, and a global registry and pull secrets reach every pod', () => {
    const digest = `sha256:${'0'.repeat(64)}`;
    const manifests = render({
      values: {
        // As it is often copied out of a browser.
        global: { imageRegistry: 'mirror.example.com/', imagePullSecrets: ['pull'] },
        nats: { image: { digest } },
        executors: { python: { image: { repository: 'team/python', tag: '3' } } },
        llama: { enabled: true, model: LLAMA_VALUES.model },
      },
    });
    const all = pods(manifests);
    for (const { component, all: containers, spec } of all) {
      for (const { image } of containers) expect(image, component).toMatch(/^mirror\.example\.com\/[a-z]/);
      expect(spec.imagePullSecrets, component).toEqual([{ name: 'pull' }]);
    }
    expect(all.find(({ component }) => component === 'nats')!.containers[0]!.image).toBe(
      `mirror.example.com/nats@${digest}`,
    );
  });
});
