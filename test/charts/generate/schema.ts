import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { valuesKeys } from './values-tree.ts';

type Schema = Record<string, unknown>;

const oneOf = (...values: string[]): Schema => ({ type: 'string', enum: values });
const matching = (pattern: string, more: Schema = {}): Schema => ({ type: 'string', pattern, ...more });
const anyObject: Schema = { type: 'object' };
const objects: Schema = { type: 'array', items: { type: 'object', minProperties: 1 } };
/** Without one a rule would open its ports to everybody. */
const peers: Schema = { ...objects, minItems: 1 };
/** Rules of egress; one without `to` would open its ports to everywhere. */
const egressRules: Schema = {
  type: 'array',
  items: {
    type: 'object',
    additionalProperties: false,
    properties: { to: peers, ports: objects },
    required: ['to'],
  },
};
const strings: Schema = { type: 'array', items: { type: 'string' } };
const text: Schema = { type: 'object', additionalProperties: { type: 'string' } };
const quantities: Schema = { type: 'object', additionalProperties: { type: ['string', 'number'] } };
const count: Schema = { type: 'integer', minimum: 0 };
const several: Schema = { type: 'integer', minimum: 1 };
/** A label of DNS, or nothing. */
const NAME = '([a-z]([-a-z0-9]*[a-z0-9])?)?';
/** Part of a subject and of the names of streams, as the fleet and `yard executor add` take it. */
const TOKEN = '[a-z][a-z0-9]*(-[a-z0-9]+)*';
const ports: Schema = {
  type: 'array',
  minItems: 1,
  items: { type: 'integer', minimum: 1, maximum: 65535 },
};

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
  labels: text,
  digest: matching('^(sha256:[0-9a-f]{64})?$'),
  pullPolicy: oneOf('Always', 'IfNotPresent', 'Never'),
  extraEgress: egressRules,
  egressTo: objects,
  apiServerTo: objects,
  egress: egressRules,
  dnsTo: peers,
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
  runAsUser: { type: ['integer', 'null'], minimum: 1 },
  nameOverride: matching(`^${NAME}$`, { maxLength: 63 }),
  fullnameOverride: matching(`^${NAME}$`, { maxLength: 63 }),
  dnsPorts: ports,
  targetUtilization: { type: 'number', exclusiveMinimum: 0, maximum: 1 },
  policy: anyObject,
  seccompProfile: anyObject,
  appArmorProfile: anyObject,
};

const MODE = oneOf('bundled', 'external');

/** Rules by whole path; they win. */
const BY_PATH: Record<string, Record<string, Schema>> = {
  yardmaster: {
    llama: {
      type: 'object',
      required: ['enabled'],
      description: 'Values of the subchart; it checks them itself.',
    },
    global: { type: 'object', properties: { imageRegistry: { type: 'string' }, imagePullSecrets: strings } },
    logLevel: oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    'config.providers': anyObject,
    'config.routing': anyObject,
    'config.agents': anyObject,
    'config.approvals': anyObject,
    'config.mcp_servers': anyObject,
    'config.mcp_egress': objects,
    'providerKeys.values': text,
    'providerKeys.env': strings,
    'api.service.type': oneOf('ClusterIP', 'NodePort', 'LoadBalancer'),
    'api.firstTenant': matching('^[a-z0-9][a-z0-9-]{0,39}$'),
    'executorDefaults.type': oneOf('shell', 'files', 'custom'),
    'executorDefaults.kind': matching(`^(${TOKEN})?$`, { maxLength: 40 }),
    'executorDefaults.isolation': oneOf('standard', 'gvisor', 'kata'),
    'executorDefaults.scaler.mode': oneOf('auto', 'none', 'fleet', 'keda', 'hpa'),
    'fleet.providerKeys': strings,
    'fleet.networkPolicy.apiServerPorts': ports,
    'llamaReleases.namespaces': { type: 'array', items: matching('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$') },
    'executorDefaults.sandbox.mode': oneOf('auto', 'bwrap', 'pod'),
    'executorDefaults.sandbox.memoryMb': several,
    'executorDefaults.sandbox.diskMb': several,
    'workspaceDefaults.accessMode': oneOf('', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'),
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
    'networkPolicy.from': peers,
    'server.slots': several,
    'server.contextSize': several,
    startupSeconds: { type: 'integer', minimum: 60 },
    'gpu.count': several,
    tenant: matching('^([a-z0-9][a-z0-9-]{0,39})?$'),
  },
};

/**
 * Would a template miss this key? `null` in somebody's values takes a key away: lists, free maps and what is empty by
 * default are then simply empty; for the rest the schema names the key instead of a template failing somewhere.
 */
function isNeeded(schema: Schema, value: unknown): boolean {
  const types = [schema['type']].flat();
  if (types.includes('null') || value === '') return false;
  if (types.includes('array')) return schema['minItems'] !== undefined;
  return !types.includes('object') || schema['properties'] !== undefined;
}

function withoutRequired({ required: _, ...schema }: Schema): Schema {
  const properties = schema['properties'] as Record<string, Schema> | undefined;
  if (properties === undefined) return schema;
  const entries = Object.entries(properties).map(([key, below]) => [key, withoutRequired(below)]);
  return { ...schema, properties: Object.fromEntries(entries) };
}

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
    // An empty map that is closed would take no key at all.
    const isEmpty = (map: object) => Object.keys(map).length === 0 && path[0] !== 'workspaces';
    if (value === null || Array.isArray(value) || typeof value !== 'object' || isEmpty(value))
      throw new Error(`${chart}: ${name} has no rule in test/charts/generate/schema.ts`);
    const properties = Object.fromEntries(
      Object.entries(value).map(([key, below]) => [key, node(below, [...path, key])]),
    );
    const required = Object.keys(properties).filter((key) => isNeeded(properties[key]!, (value as Schema)[key]));
    return {
      type: 'object',
      additionalProperties: false,
      properties,
      ...(required.length > 0 && { required }),
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
        propertyNames: { pattern: `^${TOKEN}$`, maxLength: 24 },
        ...(map === 'executors' && {
          patternProperties: {
            '^colocate$': { type: 'boolean', description: 'Short for `colocate` of every workspace.' },
          },
        }),
        // What an entry leaves out comes from the defaults.
        additionalProperties: withoutRequired(schema.properties[defaults]!),
      };
  for (const [name, rule] of Object.entries(rules))
    if (!name.includes('.') && schema.properties[name] === undefined) schema.properties[name] = rule;
  return { $schema: 'http://json-schema.org/draft-07/schema#', title: `Values of the chart ${chart}`, ...schema };
}
