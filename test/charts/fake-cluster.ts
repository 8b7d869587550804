import { createServer, type Server } from 'node:http';
import { mkdtempSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const GROUPS: Record<string, string[]> = {
  v1: ['Namespace', 'Secret', 'ConfigMap', 'Service', 'ServiceAccount', 'PersistentVolumeClaim', 'Pod'],
  'apps/v1': ['Deployment', 'StatefulSet'],
  'batch/v1': ['Job'],
  'policy/v1': ['PodDisruptionBudget'],
  'networking.k8s.io/v1': ['NetworkPolicy'],
  'rbac.authorization.k8s.io/v1': ['Role', 'RoleBinding'],
};

/** As much of a Kubernetes API as helm's `lookup` asks: discovery, namespaces, Secrets and StatefulSets. Read only. */
export async function startFakeCluster(objects: {
  namespaces: string[];
  /** `namespace/name` to the Secret's data. */
  secrets: Record<string, Record<string, string>>;
  /** `namespace/name` to the number of pods. */
  statefulSets?: Record<string, number>;
}): Promise<{ kubeconfig: string; asked: string[]; stop(): void }> {
  const asked: string[] = [];
  const resources = (groupVersion: string) =>
    GROUPS[groupVersion] && {
      kind: 'APIResourceList',
      groupVersion,
      resources: GROUPS[groupVersion].map((kind) => ({
        name: `${kind.toLowerCase().replace(/y$/, 'ie')}s`,
        singularName: kind.toLowerCase(),
        namespaced: kind !== 'Namespace',
        kind,
        verbs: ['get', 'list'],
      })),
    };
  const answers = (path: string): object | undefined => {
    if (path === '/version') return { major: '1', minor: '35', gitVersion: 'v1.35.0' };
    if (path === '/api') return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
    if (path === '/apis')
      return {
        kind: 'APIGroupList',
        apiVersion: 'v1',
        groups: Object.keys(GROUPS)
          .filter((groupVersion) => groupVersion !== 'v1')
          .map((groupVersion) => {
            const [name, version] = groupVersion.split('/');
            return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
          }),
      };
    const group = /^\/apis?\/(v1|[^/]+\/[^/]+)$/.exec(path)?.[1];
    if (group !== undefined && resources(group)) return resources(group);
    const namespace = /^\/api\/v1\/namespaces\/([^/]+)$/.exec(path)?.[1];
    if (namespace !== undefined && objects.namespaces.includes(namespace))
      return { kind: 'Namespace', apiVersion: 'v1', metadata: { name: namespace } };
    // As a release of this name left it: helm takes over no object of somebody else.
    const left = (name: string, namespace: string) => ({
      name,
      namespace,
      labels: { 'app.kubernetes.io/managed-by': 'Helm' },
      annotations: { 'meta.helm.sh/release-name': 'ym', 'meta.helm.sh/release-namespace': namespace },
    });
    const [, place, set] = /^\/apis\/apps\/v1\/namespaces\/([^/]+)\/statefulsets\/([^/]+)$/.exec(path) ?? [];
    const replicas = objects.statefulSets?.[`${place}/${set}`];
    if (replicas !== undefined)
      return {
        kind: 'StatefulSet',
        apiVersion: 'apps/v1',
        metadata: left(set!, place!),
        spec: { replicas },
      };
    const [, at, name] = /^\/api\/v1\/namespaces\/([^/]+)\/secrets\/([^/]+)$/.exec(path) ?? [];
    const data = objects.secrets[`${at}/${name}`];
    return data && { kind: 'Secret', apiVersion: 'v1', metadata: left(name!, at!), data };
  };
  const server: Server = createServer((request, response) => {
    const path = (request.url ?? '').split('?')[0]!;
    asked.push(path);
    const found = answers(path);
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify(
        found ?? {
          kind: 'Status',
          apiVersion: 'v1',
          status: 'Failure',
          reason: 'NotFound',
          code: 404,
          message: `no ${path}`,
        },
      ),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const kubeconfig = join(mkdtempSync(join(tmpdir(), 'yardmaster-kube-')), 'config');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'fake', cluster: { server: `http://127.0.0.1:${port}` } }],
      users: [{ name: 'fake', user: {} }],
      contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'fake' } }],
      'current-context': 'fake',
    }),
  );
  return {
    kubeconfig,
    asked,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
