import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { valuesKeys } from './values-tree.ts';

type Schema = Record<string, unknown>;

const oneOf = (...values: string[]): Schema => ({ type: 'string', enum: values });
const matching = (pattern: string, more: Schema = {}): Schema => ({ type: 'string', pattern, ...more });
const anyObject: Schema = { type: 'object' };
const objects: Schema = { type: 'array', items: { type: 'object' } };
const strings: Schema = { type: 'array', items: { type: 'string' } };
const text: Schema = { type: 'object', additionalProperties: { type: 'string' } };
const quantities: Schema = { type: 'object', additionalProperties: { type: ['string', 'number'] } };
const count: Schema = { type: 'integer', minimum: 0 };
const several: Schema = { type: 'integer', minimum: 1 };
const TOKEN = '^([a-z0-9]+(-[a-z0-9]+)*)?$';

/** Rules by the last key of a path, for what the default value alone does not say. */
const BY_KEY: Record<string, Schema> = {
  env: {
    type: 'object',
    propertyNames: { pattern: '^[A-Za-z_][A-Za-z0-9_]*$' },
    additionalProperties: { type: ['string', 'number', 'boolean', 'object'] },
  },
  resources: {
    type: 'object',
    additionalProperties: false,
    properties: { requests: quantities, limits: quantities, claims: objects },
  },
  nodeSelector: text,
  tolerations: objects,
  affinity: anyObject,
  podAnnotations: text,
  annotations: text,
  commonLabels: text,
  digest: matching('^(sha256:[0-9a-f]{64})?$'),
  pullPolicy: oneOf('Always', 'IfNotPresent', 'Never'),
  extraEgress: objects,
  egressTo: objects,
  apiServerTo: objects,
  egress: objects,
  dnsTo: objects,
  from: objects,
  downloadTo: objects,
  metricsFrom: objects,
  kedaFrom: objects,
  fromNamespaces: anyObject,
  namespaceSelector: anyObject,
  imagePullSecrets: strings,
  hosts: strings,
  command: strings,
  extraArgs: strings,
  terminationGracePeriodSeconds: { type: ['integer', 'null'], minimum: 1 },
  replicas: count,
  slots: several,
  min: count,
  max: several,
  minReplicas: several,
  maxReplicas: several,
  drainSeconds: { type: 'integer', minimum: 0, maximum: 3600 },
  preStopSeconds: count,
  port: { type: 'integer', minimum: 1, maximum: 65535 },
  runAsUser: { type: 'integer', minimum: 1 },
  targetUtilization: { type: 'number', exclusiveMinimum: 0, maximum: 1 },
  policy: anyObject,
  seccompProfile: anyObject,
  appArmorProfile: anyObject,
};

const MODE = oneOf('bundled', 'external');

/** Rules by whole path; they win. */
const BY_PATH: Record<string, Record<string, Schema>> = {
  yardmaster: {
    llama: { type: 'object', description: 'Values of the subchart; it checks them itself.' },
    global: { type: 'object', properties: { imageRegistry: { type: 'string' }, imagePullSecrets: strings } },
    logLevel: oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    'config.providers': anyObject,
    'config.routing': anyObject,
    'config.agents': anyObject,
    'config.approvals': anyObject,
    'config.mcp_servers': { type: 'object', additionalProperties: { type: 'object' } },
    'config.mcp_egress': objects,
    'providerKeys.values': text,
    'providerKeys.env': strings,
    'api.service.type': oneOf('ClusterIP', 'NodePort', 'LoadBalancer'),
    'api.firstTenant': matching('^[a-z0-9][a-z0-9-]{0,39}$'),
    'executorDefaults.type': oneOf('shell', 'files', 'custom'),
    'executorDefaults.kind': matching(TOKEN, { maxLength: 40 }),
    'executorDefaults.isolation': oneOf('standard', 'gvisor', 'kata'),
    'executorDefaults.scaler.mode': oneOf('auto', 'none', 'fleet', 'keda', 'hpa'),
    'fleet.providerKeys': strings,
    'fleet.networkPolicy.apiServerPorts': { type: 'array', items: { type: 'integer', minimum: 1, maximum: 65535 } },
    'llamaReleases.namespaces': strings,
    'executorDefaults.sandbox.mode': oneOf('auto', 'bwrap', 'pod'),
    'executorDefaults.sandbox.memoryMb': several,
    'executorDefaults.sandbox.diskMb': several,
    'workspaceDefaults.accessMode': oneOf('ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'),
    'nats.mode': MODE,
    'nats.external.url': matching('^((nats|tls|ws|wss)://[^/@ ]+)?$'),
    'redis.mode': MODE,
    'redis.external.url': matching('^(rediss?://[^/@ ]+(/[0-9]+)?)?$'),
    'redis.appendfsync': oneOf('everysec', 'always'),
    'bootstrap.tenantShare': several,
  },
  llama: {
    global: { type: 'object', properties: { imageRegistry: { type: 'string' }, imagePullSecrets: strings } },
    // Set by a chart that has this one as a subchart.
    enabled: { type: 'boolean' },
    'model.sha256': matching('^([0-9a-fA-F]{64})?$'),
    'model.url': matching('^(https?://[^ ]+)?$'),
    'server.slots': several,
    'server.contextSize': several,
    startupSeconds: { type: 'integer', minimum: 60 },
    'gpu.count': several,
    tenant: matching('^([a-z0-9][a-z0-9-]{0,39})?$'),
  },
};

/** The values.schema.json of a chart, made from its values.yaml: closed at every level, with the comments as descriptions. */
export function schemaOf(chart: 'yardmaster' | 'llama', valuesFile: string): Schema {
  const values = parse(readFileSync(valuesFile, 'utf8')) as Record<string, unknown>;
  const words = new Map(valuesKeys(valuesFile).map(({ path, text: said }) => [path.join('.'), said]));
  const rules = BY_PATH[chart]!;
  const node = (value: unknown, path: string[]): Schema => {
    const name = path.join('.');
    const said = words.get(name);
    const more = said ? { description: said } : {};
    const rule = rules[name] ?? BY_KEY[path.at(-1) ?? ''];
    if (rule !== undefined) return { ...rule, ...more };
    if (typeof value === 'boolean') return { type: 'boolean', ...more };
    if (typeof value === 'number') return { type: Number.isInteger(value) ? 'integer' : 'number', ...more };
    if (typeof value === 'string') return { type: 'string', ...more };
    if (value === null || Array.isArray(value) || typeof value !== 'object')
      throw new Error(`${chart}: ${name} has no rule in test/charts/generate/schema.ts`);
    return {
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(Object.entries(value).map(([key, below]) => [key, node(below, [...path, key])])),
      ...more,
    };
  };
  const schema = node(values, []) as Schema & { properties: Record<string, Schema> };
  for (const [map, defaults] of [
    ['executors', 'executorDefaults'],
    ['workspaces', 'workspaceDefaults'],
  ] as const)
    if (schema.properties[map] !== undefined)
      schema.properties[map] = {
        type: 'object',
        description: words.get(map),
        propertyNames: { pattern: '^[a-z]([a-z0-9-]{0,22}[a-z0-9])?$' },
        additionalProperties: schema.properties[defaults],
      };
  for (const [name, rule] of Object.entries(rules))
    if (!name.includes('.') && schema.properties[name] === undefined) schema.properties[name] = rule;
  return { $schema: 'http://json-schema.org/draft-07/schema#', title: `Values of the chart ${chart}`, ...schema };
}
