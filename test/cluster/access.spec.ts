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
  for (const account of accounts) {
    const all = await everythingThat({ namespace, name: account.metadata.name }, []);
    expect(
      all.filter((line) => !nobody.includes(line)),
      account.metadata.name,
    ).toEqual([]);
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

test.each(PROFILES.filter((profile) => profile !== 'default'))('%s grants nothing more', (profile) => {
  const rules = (all: Manifest[]) => rulesOf(all).map(({ kind, ...rest }) => ({ kind, ...rest }));
  expect(rules(render({ profile, kube: KUBE }))).toEqual(rules(render({ kube: KUBE })));
});
