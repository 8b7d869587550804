import { afterAll, beforeAll, expect, test } from 'vitest';
import { PROFILES, render } from '../charts/helm.ts';
import { type Manifest, ofKind } from '../charts/manifest.ts';
import { type Cluster, startCluster, variable } from './objects.ts';

// What each service account may do, asked of the authorizer itself: every verb on every resource that the API has.
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster?.plane.stop());

const KUBE = variable('YM_KUBERNETES');
const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection'];

interface Attributes {
  verb: string;
  group: string;
  resource: string;
  subresource?: string;
  namespace?: string;
  name?: string;
}

async function may(account: { namespace: string; name: string }, attributes: Attributes): Promise<boolean> {
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${account.namespace}`, 'system:authenticated'];
  const { status } = await cluster.plane.must('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
    spec: {
      user: `system:serviceaccount:${account.namespace}:${account.name}`,
      groups,
      resourceAttributes: attributes,
    },
  });
  return status.allowed === true;
}

/** `verb resource.group[/name]` of everything that an account may do, in its namespace and beyond. */
async function everythingThat(
  account: { namespace: string; name: string },
  names: readonly string[],
): Promise<string[]> {
  const found: string[] = [];
  const asked = (await cluster.resources()).flatMap(({ group, name: full, namespaced }) => {
    const [resource, subresource] = full.split('/') as [string, string?];
    const places = namespaced ? [account.namespace, 'kube-system'] : [undefined];
    return places.flatMap((namespace) =>
      VERBS.flatMap((verb) =>
        // Without a name: any object. With one: those that a rule may be bound to.
        [undefined, ...(namespace === account.namespace ? names : [])].map((name) => ({
          verb,
          group,
          resource,
          ...(subresource === undefined ? {} : { subresource }),
          ...(namespace === undefined ? {} : { namespace }),
          ...(name === undefined ? {} : { name }),
        })),
      ),
    );
  });
  for (let i = 0; i < asked.length; i += 200)
    await Promise.all(
      asked.slice(i, i + 200).map(async (attributes) => {
        const { verb, group, resource, subresource, namespace, name } = attributes;
        if (!(await may(account, attributes))) return;
        const what = `${resource}${subresource === undefined ? '' : `/${subresource}`}${group === '' ? '' : `.${group}`}`;
        const where = namespace === 'kube-system' ? ' in kube-system' : '';
        found.push(`${verb} ${what}${name === undefined ? '' : ` ${name}`}${where}`);
      }),
    );
  return found.sort();
}

const rulesOf = (manifests: Manifest[]) =>
  ofKind(manifests, 'Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding').sort((a, b) =>
    a.metadata.name < b.metadata.name ? -1 : 1,
  );

test('no service account may do anything that the chart does not need it for', async () => {
  const namespace = 'access';
  await cluster.plane.namespace(namespace, 'privileged');
  const manifests = render({ namespace, kube: KUBE });
  for (const one of [...ofKind(manifests, 'ServiceAccount'), ...rulesOf(manifests)])
    expect((await cluster.apply(one, { namespace })).status, one.metadata.name).toBe(201);
  // What every service account of a cluster may do: ask about itself.
  const nobody = await everythingThat({ namespace, name: 'nobody' }, []);
  expect(nobody.filter((line) => !/^create self/.test(line))).toEqual([]);
  const accounts = ofKind(manifests, 'ServiceAccount');
  expect(accounts.length).toBeGreaterThanOrEqual(8);
  const [shell, files, api, lease] = ['executor-shell', 'executor-files', 'api', 'fleet'].map(
    (component) => `ym-yardmaster-${component}`,
  );
  for (const account of accounts) {
    const isFleet = account.metadata.labels!['app.kubernetes.io/component'] === 'fleet';
    const names = isFleet ? [shell!, files!, api!, lease!] : [];
    const all = await everythingThat({ namespace, name: account.metadata.name }, names);
    // What it may do to any object it may do to a named one: said once.
    const more = all.filter((line) => !nobody.includes(line) && !all.includes(line.split(' ').slice(0, 2).join(' ')));
    const any = all.filter((line) => !nobody.includes(line) && line.split(' ').length === 2);
    expect(any, account.metadata.name).toEqual(isFleet ? ['create leases.coordination.k8s.io'] : []);
    expect(
      more.filter((line) => !any.includes(line)),
      account.metadata.name,
    ).toEqual(
      isFleet
        ? [
            `get deployments/scale.apps ${files}`,
            `get deployments/scale.apps ${shell}`,
            `get leases.coordination.k8s.io ${lease}`,
            `patch deployments/scale.apps ${files}`,
            `patch deployments/scale.apps ${shell}`,
            `update leases.coordination.k8s.io ${lease}`,
          ]
        : [],
    );
  }
});

test('the asking itself notices a grant', async () => {
  const namespace = 'granted';
  await cluster.plane.namespace(namespace, 'privileged');
  const rbac = 'rbac.authorization.k8s.io/v1';
  const metadata = { name: 'too-much', namespace };
  const rules = [{ apiGroups: ['apps'], resources: ['deployments/scale'], resourceNames: ['a'], verbs: ['patch'] }];
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'too-much' };
  const subjects = [{ kind: 'ServiceAccount', name: 'x', namespace }];
  for (const more of [
    { kind: 'Role', rules },
    { kind: 'RoleBinding', roleRef, subjects },
  ])
    expect((await cluster.apply({ apiVersion: rbac, metadata, ...more })).status).toBe(201);
  const all = await everythingThat({ namespace, name: 'x' }, ['a', 'b']);
  expect(all.filter((line) => !/^create self/.test(line))).toEqual(['patch deployments/scale.apps a']);
});

test.each(PROFILES)('%s grants rights to the fleet alone, and of these kinds alone', (profile) => {
  const manifests = render({ profile, kube: KUBE });
  expect(ofKind(manifests, 'ClusterRole', 'ClusterRoleBinding')).toEqual([]);
  const fleet = ofKind(manifests, 'ServiceAccount').find(({ metadata }) => metadata.name === 'ym-yardmaster-fleet')!;
  for (const binding of ofKind(manifests, 'RoleBinding')) {
    const { subjects } = binding as Manifest & { subjects: { name: string }[] };
    expect(subjects.map(({ name }) => name)).toEqual([fleet.metadata.name]);
  }
  const executors = ofKind(manifests, 'Deployment')
    .map(({ metadata }) => metadata.name)
    .filter((name) => name.startsWith('ym-yardmaster-executor'));
  for (const role of ofKind(manifests, 'Role') as (Manifest & { rules: Record<string, string[]>[] })[])
    for (const { apiGroups, resources, verbs, resourceNames } of role.rules) {
      const what = `${verbs!.join(',')} ${resources!.join(',')}.${apiGroups!.join(',')}`;
      expect([
        'get,patch deployments/scale.apps',
        'create leases.coordination.k8s.io',
        'get,update leases.coordination.k8s.io',
        'get,list,watch endpointslices.discovery.k8s.io',
      ]).toContain(what);
      if (what.includes('deployments')) for (const name of resourceNames!) expect(executors).toContain(name);
      if (what.startsWith('get,update')) expect(resourceNames).toEqual(['ym-yardmaster-fleet']);
    }
});
