/** What the tests look at of a Kubernetes object; whether it has the right form at all is for strict-types.ts. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
  spec?: any; // eslint-disable-line @typescript-eslint/no-explicit-any
  data?: Record<string, string>;
  automountServiceAccountToken?: boolean;
  rules?: unknown[];
  roleRef?: { name: string };
  subjects?: unknown[];
}
export interface Metadata {
  name: string;
  namespace?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
}
export interface Container {
  name: string;
  image: string;
  command?: string[];
  args?: string[];
  env?: { name: string; value?: string; valueFrom?: any }[]; // eslint-disable-line @typescript-eslint/no-explicit-any
  envFrom?: unknown[];
  ports?: { name?: string; containerPort: number }[];
  resources?: { requests?: Record<string, string | number>; limits?: Record<string, string | number> };
  securityContext?: any; // eslint-disable-line @typescript-eslint/no-explicit-any
  volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
  [probe: string]: any; // eslint-disable-line @typescript-eslint/no-explicit-any
}
/** A pod template with the object that it belongs to. */
export interface Pod {
  owner: Manifest;
  component: string;
  metadata: Metadata;
  spec: any; // eslint-disable-line @typescript-eslint/no-explicit-any
  containers: Container[];
  initContainers: Container[];
  all: Container[];
}

const WORKLOADS = ['Deployment', 'StatefulSet', 'DaemonSet', 'Job'];

/** Every pod template of a render: of workloads, of cron jobs, and bare pods. */
export function pods(manifests: Manifest[]): Pod[] {
  return manifests.flatMap((owner) => {
    const template =
      owner.kind === 'Pod'
        ? owner
        : owner.kind === 'CronJob'
          ? owner.spec.jobTemplate.spec.template
          : WORKLOADS.includes(owner.kind)
            ? owner.spec.template
            : undefined;
    if (template === undefined) return [];
    const containers = template.spec.containers as Container[];
    const initContainers = (template.spec.initContainers ?? []) as Container[];
    const component = template.metadata.labels['app.kubernetes.io/component'] as string;
    return [
      {
        owner,
        component,
        metadata: template.metadata,
        spec: template.spec,
        containers,
        initContainers,
        all: [...initContainers, ...containers],
      },
    ];
  });
}

export const ofKind = (manifests: Manifest[], ...kinds: string[]) =>
  manifests.filter(({ kind }) => kinds.includes(kind));

/** The one object of this kind for a component; fails when there is none. */
export function find(manifests: Manifest[], kind: string, component: string): Manifest {
  const found = manifests.filter(
    (one) => one.kind === kind && one.metadata.labels?.['app.kubernetes.io/component'] === component,
  );
  if (found.length === 0) throw new Error(`there is no ${kind} of ${component}`);
  return found[0]!;
}

export const envOf = (container: Container) =>
  Object.fromEntries((container.env ?? []).map(({ name, value }) => [name, value]));

/** Does a label selector (matchLabels only, as all of ours) take these labels? */
export const selects = (selector: Record<string, string>, labels: Record<string, string> = {}) =>
  Object.entries(selector).every(([key, value]) => labels[key] === value);

/** Long-running workloads that a budget or a scaler can name. */
export const workloads = (manifests: Manifest[]) => ofKind(manifests, 'Deployment', 'StatefulSet', 'DaemonSet');

/** Cores of `100m`, `2`; bytes of `192Mi`, `4Gi`. */
export function quantity(text: string | number): number {
  const [, number = '', unit = ''] = /^([0-9.]+)(m|Ki|Mi|Gi|Ti)?$/.exec(String(text)) ?? [];
  const scale: Record<string, number> = { m: 1e-3, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  if (number === '') throw new Error(`"${text}" is no quantity`);
  return Number(number) * (scale[unit] ?? 1);
}
