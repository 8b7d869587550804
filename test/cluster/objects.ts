import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';
import type { Manifest } from '../charts/manifest.ts';
import { ControlPlane } from './control-plane.ts';

export const variable = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run this through "npm run test:cluster", which brings it`);
  return value;
};

/** Whether there are controllers and a scheduler (level B); run.ts has said why not. */
export const HAS_CONTROLLERS = Boolean(process.env['YM_CONTROLLERS'] && process.env['YM_SCHEDULER']);

/** An API with the CRDs that the charts' objects are instances of; with controllers and a scheduler when asked for. */
export async function startCluster({
  apiserverArgs = [],
  controllers = false,
}: { apiserverArgs?: readonly string[]; controllers?: boolean } = {}): Promise<Cluster> {
  const plane = await ControlPlane.start({
    etcd: variable('YM_ETCD'),
    apiserver: variable('YM_APISERVER'),
    ...(controllers ? { controllers: variable('YM_CONTROLLERS'), scheduler: variable('YM_SCHEDULER') } : {}),
    apiserverArgs,
  });
  const cluster = new Cluster(plane);
  try {
    await cluster.installDefinitions(readFileSync(variable('YM_CRDS'), 'utf8'));
    return cluster;
  } catch (error) {
    await plane.stop();
    throw error;
  }
}

export interface Resource {
  /** Part of a path: `/apis/apps/v1`. */
  base: string;
  group: string;
  name: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
}

/** What the tests do with objects of any kind. */
export class Cluster {
  private known: Resource[] | undefined;

  constructor(readonly plane: ControlPlane) {}

  /** Every resource of the API in its preferred version, subresources (`deployments/scale`) included. */
  async resources(): Promise<Resource[]> {
    return (this.known ??= await this.discover());
  }

  private async discover(): Promise<Resource[]> {
    const { plane } = this;
    const groups = await plane.must<{ groups: { name: string; preferredVersion: { groupVersion: string } }[] }>(
      'GET',
      '/apis',
    );
    const bases = [
      { group: '', base: '/api/v1' },
      ...groups.groups.map(({ name, preferredVersion }) => ({
        group: name,
        base: `/apis/${preferredVersion.groupVersion}`,
      })),
    ];
    const lists = await Promise.all(
      bases.map(async ({ group, base }) => {
        const { resources } = await plane.must<{ resources: Omit<Resource, 'base' | 'group'>[] }>('GET', base);
        return resources.map(({ name, kind, namespaced, verbs }) => ({ base, group, name, kind, namespaced, verbs }));
      }),
    );
    return lists.flat();
  }

  /** Where an object lies. */
  async pathOf({ apiVersion, kind, metadata }: Manifest, namespace?: string): Promise<string> {
    const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const resource = (await this.resources()).find(
      (one) => one.base === base && one.kind === kind && !one.name.includes('/'),
    );
    if (resource === undefined) throw new Error(`the API has no ${kind} of ${apiVersion}`);
    const within = resource.namespaced ? `/namespaces/${namespace ?? metadata.namespace}` : '';
    return `${base}${within}/${resource.name}`;
  }

  /** Server-side apply, with unknown and doubled fields refused. */
  async apply(manifest: Manifest, { namespace = manifest.metadata.namespace, dryRun = false } = {}) {
    const path = `${await this.pathOf(manifest, namespace)}/${manifest.metadata.name}`;
    const query = `fieldManager=test&fieldValidation=Strict${dryRun ? '&dryRun=All' : ''}`;
    const object = { ...manifest, metadata: { ...manifest.metadata, ...(namespace ? { namespace } : {}) } };
    return this.plane.api('PATCH', `${path}?${query}`, object, { type: 'application/apply-patch+yaml' });
  }

  async installDefinitions(text: string): Promise<void> {
    const definitions = parseAllDocuments(text)
      .map((document) => document.toJS() as Manifest | null)
      .filter((definition) => definition !== null);
    for (const definition of definitions) {
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${definition.metadata.name}`;
      await this.plane.must('PATCH', `${path}?fieldManager=test`, definition, { type: 'application/apply-patch+yaml' });
      for (let tries = 0; ; tries++) {
        const { status } = await this.plane.must('GET', path);
        const established = status?.conditions?.some((one: any) => one.type === 'Established' && one.status === 'True');
        // Its storage answers a moment after that.
        const list = await this.plane.api(
          'GET',
          `/apis/${definition.spec.group}/${definition.spec.versions[0].name}/${definition.spec.names.plural}`,
        );
        const served = await this.plane.api(
          'GET',
          `/apis/${definition.spec.group}/${definition.spec.versions[0].name}`,
        );
        if (
          list.status === 200 &&
          established &&
          served.body.resources?.some((one: { kind: string }) => one.kind === definition.spec.names.kind)
        )
          break;
        if (tries > 300) throw new Error(`${definition.metadata.name} is not served`);
        await sleep(100);
      }
    }
    this.known = undefined;
  }

  /** Everything that is stored in a namespace, but events; by `Kind/name`. */
  async everything(namespace: string): Promise<Map<string, Manifest & { status?: unknown }>> {
    const found = new Map<string, Manifest>();
    const listable = (await this.resources()).filter(
      ({ namespaced, name, verbs, kind }) =>
        namespaced && !name.includes('/') && verbs.includes('list') && kind !== 'Event',
    );
    await Promise.all(
      listable.map(async ({ base, name, kind }) => {
        const { items = [] } = await this.plane.must<{ items?: Manifest[] }>(
          'GET',
          `${base}/namespaces/${namespace}/${name}`,
        );
        for (const item of items) found.set(`${kind}/${item.metadata.name}`, item);
      }),
    );
    return found;
  }
}
