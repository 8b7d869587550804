import type { Manifest } from './manifest.ts';

// Two checks, because each has a gap: the attribute maps of the official client know every field and its type, but not
// which are required; the compiled schemas know those and the enums, but let unknown fields pass in places.

interface Attribute {
  baseName: string;
  type: string;
}
type Client = Record<string, { getAttributeTypeMap?: () => Attribute[] } | undefined>;
type Model = new (value: unknown) => { validate(): void };

// Names in variables: the packages are those of test/charts/package.json, which the type check of the project does without.
const load = async <T>(name: string): Promise<T> => (await import(/* @vite-ignore */ name)) as T;
const client = await load<Client>('@kubernetes/client-node');

const KINDS: Record<string, string> = {
  'autoscaling/v2 HorizontalPodAutoscaler': 'V2HorizontalPodAutoscaler',
  'keda.sh/v1alpha1 ScaledObject': '',
  'monitoring.coreos.com/v1 PodMonitor': '',
  'monitoring.coreos.com/v1 PrometheusRule': '',
};

function walk(value: unknown, type: string, at: string, problems: string[]): void {
  if (value === null || value === undefined) {
    problems.push(`${at} is null`);
    return;
  }
  const list = /^Array<(.+)>$/.exec(type);
  if (list) {
    if (!Array.isArray(value)) problems.push(`${at} must be a list`);
    else value.forEach((item, i) => walk(item, list[1]!, `${at}[${i}]`, problems));
    return;
  }
  const map = /^\{ \[key: string\]: (.+); \}$/.exec(type);
  if (map) {
    if (typeof value !== 'object' || Array.isArray(value)) problems.push(`${at} must be a map`);
    else
      for (const [key, below] of Object.entries(value)) {
        // Quantities may be written as numbers.
        const inner =
          map[1] === 'string' && /\.(limits|requests|sizeLimit)$/.test(at) && typeof below === 'number'
            ? 'number'
            : map[1]!;
        walk(below, inner, `${at}.${key}`, problems);
      }
    return;
  }
  if (type === 'IntOrString') {
    if (typeof value !== 'number' && typeof value !== 'string') problems.push(`${at} must be a number or a string`);
    return;
  }
  if (['string', 'number', 'boolean'].includes(type)) {
    if (typeof value !== type) problems.push(`${at} must be a ${type}, not ${JSON.stringify(value)}`);
    return;
  }
  const model = client[type];
  if (model?.getAttributeTypeMap === undefined) return; // Date, any: free
  if (typeof value !== 'object' || Array.isArray(value)) {
    problems.push(`${at} must be an object`);
    return;
  }
  const attributes = new Map(model.getAttributeTypeMap().map((one) => [one.baseName, one.type]));
  for (const [key, below] of Object.entries(value)) {
    const next = attributes.get(key);
    if (next === undefined) problems.push(`${at}.${key} is no field of ${type}`);
    else walk(below, next, `${at}.${key}`, problems);
  }
}

const models = new Map<string, Model | undefined>();
async function modelOf(apiVersion: string, kind: string): Promise<Model | undefined> {
  const key = `${apiVersion} ${kind}`;
  if (!models.has(key)) {
    const of = {
      'keda.sh': '@kubernetes-models/keda',
      'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
    };
    const path = `${of[apiVersion.split('/')[0] as keyof typeof of] ?? 'kubernetes-models'}/${apiVersion}`;
    const found = await load<Record<string, Model>>(path).catch(() => ({}) as Record<string, Model>);
    models.set(key, found[kind]);
  }
  return models.get(key);
}

/** What is wrong with an object against the Kubernetes API, each as a line; an unknown kind is wrong too. */
export async function problemsOf(manifest: Manifest): Promise<string[]> {
  const { apiVersion, kind } = manifest;
  const at = `${kind} ${manifest.metadata?.name}`;
  const problems: string[] = [];
  const type = KINDS[`${apiVersion} ${kind}`] ?? `V1${kind}`;
  if (type !== '') {
    if (client[type] === undefined) problems.push(`${at}: there is no kind ${kind} in ${apiVersion}`);
    else walk(manifest, type, at, problems);
  }
  const Model = await modelOf(apiVersion, kind);
  if (Model === undefined) problems.push(`${at}: there is no schema of ${apiVersion} ${kind}`);
  else
    try {
      new Model(manifest).validate();
    } catch (error) {
      problems.push(`${at}: ${(error as Error).message}`);
    }
  return problems;
}
