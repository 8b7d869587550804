import { render as renderChart } from '../charts/helm.ts';
import type { Manifest } from '../charts/manifest.ts';
import { variable } from './objects.ts';

export { root } from '../charts/helm.ts';
export { find, ofKind } from '../charts/manifest.ts';

/** The platform's chart, rendered for the API server that the tests run. */
export const render = (values: object = {}): Manifest[] => renderChart({ values, kube: variable('YM_KUBERNETES') });

/** What the fleet needs: the grants of services/fleet/README.md and nothing else. */
export function fleetGrants(namespace: string, deployments: readonly string[]): Manifest[] {
  const metadata = { name: 'fleet', namespace };
  const all = ['get', 'list', 'watch'];
  const rules = [
    { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: all },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['create'] },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      resourceNames: ['yardmaster-fleet'],
      verbs: ['get', 'update'],
    },
    { apiGroups: ['apps'], resources: ['deployments/scale'], resourceNames: deployments, verbs: ['get', 'patch'] },
  ];
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'fleet' };
  const rbac = 'rbac.authorization.k8s.io/v1';
  const objects: object[] = [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    { apiVersion: rbac, kind: 'Role', metadata, rules },
    { apiVersion: rbac, kind: 'RoleBinding', metadata, roleRef, subjects: [{ kind: 'ServiceAccount', ...metadata }] },
  ];
  return objects as Manifest[];
}
