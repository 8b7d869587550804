import { type Address, contains, parseAddress, type Range, range } from './address.js';

/** Opens a private range or a name; kept by the operator, per tenant. `http` also allows http there. */
export type AllowEntry = { cidr: string; http?: boolean } | { host: string; private?: boolean; http?: boolean };

export interface TenantPolicyOptions {
  allow?: readonly AllowEntry[];
  /** Ranges of the platform itself (Redis, NATS, the API server): no list opens them. */
  platformDeny?: readonly string[];
}

/** For addresses that a tenant, a tool, a server or a provider's answer can choose. */
export interface TenantPolicy {
  kind: 'tenant';
  ranges: { range: Range; http: boolean }[];
  names: { host: string; below: boolean; private: boolean; http: boolean }[];
  platformDeny: Range[];
}

/** For one origin out of the operator's own configuration, loopback and http included. */
export interface OperatorPolicy {
  kind: 'operator';
  origin: string;
}

export type Policy = TenantPolicy | OperatorPolicy;

/** Compiles a tenant's list. Throws a RangeError for a range that is none. */
export function tenantPolicy({ allow = [], platformDeny = [] }: TenantPolicyOptions = {}): TenantPolicy {
  const policy: TenantPolicy = { kind: 'tenant', ranges: [], names: [], platformDeny: platformDeny.map(range) };
  for (const entry of allow) {
    const http = entry.http === true;
    if ('cidr' in entry) policy.ranges.push({ range: range(entry.cidr), http });
    else {
      const below = entry.host.startsWith('*.');
      const host = canonicalName(below ? entry.host.slice(2) : entry.host);
      const address = parseAddress(host);
      // A literal in the place of a name is the range of one address.
      if (address !== undefined && entry.private === true)
        policy.ranges.push({ range: { ...address, prefix: address.family === 4 ? 32 : 128 }, http });
      policy.names.push({ host, below, private: entry.private === true, http });
    }
  }
  return policy;
}

/** The policy for one address of the operator's configuration. Throws a TypeError when it is no URL. */
export function operatorPolicy(url: string): OperatorPolicy {
  return { kind: 'operator', origin: new URL(url).origin };
}

/** A name without case and without the dots at its end, which are the same name. */
export function canonicalName(host: string): string {
  return host.toLowerCase().replace(/\.+$/, '');
}

/** The entries of the list that cover a name; a wildcard covers one or more labels below, never the name itself. */
export function entriesFor(policy: TenantPolicy, host: string) {
  const name = canonicalName(host);
  const literal = parseAddress(name) !== undefined;
  return policy.names.filter((entry) =>
    entry.below ? !literal && name.endsWith(`.${entry.host}`) : name === entry.host,
  );
}

/** Names that mean something inside a cluster, a cloud or a machine only. */
export function isInsideName(host: string): boolean {
  const name = canonicalName(host);
  if (!name.includes('.')) return true; // localhost, and what the search path of a pod would complete
  return /\.(localhost|local|internal|svc)$/.test(name) || name.endsWith('.cluster.local');
}

const ranges = (...cidrs: string[]) => cidrs.map(range);

/** Link-local, and where clouds serve their metadata and credentials: nobody serves a model or a webhook there. */
const METADATA = ranges(
  '169.254.0.0/16',
  '168.63.129.16/32', // Azure's host service: looks public in every table
  '100.100.100.200/32', // Alibaba
  '192.0.0.192/32', // Oracle
  'fe80::/10',
  'fd00:ec2::254/128', // Amazon
);

/** Never opened by any list: this host, multicast, reserved, and the above. */
const NEVER = [
  ...METADATA,
  ...ranges('0.0.0.0/8', '127.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4', '::/128', '::1/128', 'ff00::/8'),
];

/** IANA's special-purpose ranges: not reachable from the internet, opened by the operator's list only. */
const PRIVATE_V4 = ranges(
  '10.0.0.0/8',
  '100.64.0.0/10',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
);
const PUBLIC_V6 = range('2000::/3');
const NOT_PUBLIC_V6 = ranges('2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20');

/** What an address is, whoever asks. IPv4 in IPv6 must have been unpacked. */
export function classify(address: Address): 'never' | 'private' | 'public' {
  const within = (list: Range[]) => list.some((one) => contains(one, address));
  if (within(NEVER)) return 'never';
  if (address.family === 4) return within(PRIVATE_V4) ? 'private' : 'public';
  return contains(PUBLIC_V6, address) && !within(NOT_PUBLIC_V6) ? 'public' : 'private';
}

/** The one thing that the operator's own configuration may not reach either: a name can be made to point there. */
export const isMetadata = (address: Address): boolean => METADATA.some((one) => contains(one, address));

/** Ports of other protocols that must not be spoken to in HTTP (Fetch Standard, "port blocking"). */
export const BAD_PORTS = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);
