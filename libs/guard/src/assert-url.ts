import { lookup } from 'node:dns/promises';
import { YardError } from '@yardmaster/contracts';
import { type Address, contains, embedded, parseAddress } from './address.js';
import { BAD_PORTS, classify, entriesFor, isInsideName, isMetadata, type Policy, type TenantPolicy } from './policy.js';

/** Why an address was refused; `details.reason` of the error. */
export type Refusal =
  | 'ctl'
  | 'parse'
  | 'scheme'
  | 'userinfo'
  | 'port'
  | 'name'
  | 'nodns'
  | 'never'
  | 'platform'
  | 'private'
  | 'http'
  | 'origin'
  | 'method'
  | 'hops';

/** A checked address: what may be connected to, and nothing else. */
export interface Target {
  /** As parsed, once; no other parser may look at the text again. */
  url: URL;
  /** All answers of the one resolution, all of them allowed; for a literal, itself. */
  addresses: string[];
  /** The first of them. */
  address: string;
}

/** All addresses of a name. */
export type Resolve = (host: string) => Promise<readonly string[]>;

const RESOLVE_MS = 10_000;

/** The system's own resolver, which may otherwise wait for a dead name server for most of a minute. */
const systemResolver: Resolve = async (host) => {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the resolver did not answer')), RESOLVE_MS);
  });
  try {
    const found = await Promise.race([lookup(host, { all: true }), late]);
    return found.map(({ address }) => address);
  } finally {
    clearTimeout(timer);
  }
};

const WORDS: Record<Refusal, string> = {
  ctl: 'it has a space or a control character in it',
  parse: 'it is no URL',
  scheme: 'only https (and http where it is listed) is allowed',
  userinfo: 'it carries a user name or a password',
  port: 'the port belongs to another protocol',
  name: 'the name is one of the inside (single label, localhost, .local, .internal, .svc) and is not listed',
  nodns: 'the name has no address',
  never: 'it leads to this machine, a metadata service or a reserved range, which no list opens',
  platform: 'it leads to a part of the platform itself',
  private: 'it leads to a private address that is not listed',
  http: 'http would send keys in clear; list the address with http: true, or use https',
  origin: 'it is not the address that the operator configured',
  method: 'only GET and HEAD follow a redirect',
  hops: 'too many redirects',
};

/** The error of a refusal. It names the host at most: the rest of a URL may hold a secret. */
export function refused(reason: Refusal, host?: string): YardError {
  const where = host === undefined || host === '' ? 'This address' : `The address at ${host}`;
  // No answer may be a passing trouble of the resolver; everything else stays refused however often it is tried.
  const errorClass = reason === 'nodns' ? 'UNAVAILABLE' : 'DENIED';
  return new YardError(errorClass, 'YM-URL-REFUSED', `${where} is refused: ${WORDS[reason]}.`, { details: { reason } });
}

/**
 * May this address be called under this policy? Parses once, resolves once (not at all for a literal or for what the
 * text alone refuses) and checks every answer. Throws DENIED (`details.reason` says which rule), UNAVAILABLE when the
 * name has no address.
 */
export async function assertUrl(raw: string, policy: Policy, resolve: Resolve = systemResolver): Promise<Target> {
  return judge(checkText(raw, policy), policy, resolve);
}

/** The part of the check that needs no resolution. */
export function checkText(raw: string, policy: Policy, base?: URL): URL {
  if (/[\p{Cc}\p{Z}]/u.test(raw)) throw refused('ctl');
  const url = URL.parse(raw, base?.href);
  if (url === null) throw refused('parse');
  return checkParsed(url, policy);
}

function checkParsed(url: URL, policy: Policy): URL {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw refused('scheme');
  if (url.hostname === '') throw refused('parse');
  if (url.username !== '' || url.password !== '') throw refused('userinfo', url.hostname);
  if (policy.kind === 'operator') {
    if (url.origin !== policy.origin) throw refused('origin', url.hostname);
    return url;
  }
  if (url.port !== '' && BAD_PORTS.has(Number(url.port))) throw refused('port', url.hostname);
  if (parseAddress(url.hostname) === undefined) {
    if (isInsideName(url.hostname) && entriesFor(policy, url.hostname).length === 0)
      throw refused('name', url.hostname);
  }
  return url;
}

/** The rest: resolves and judges all answers. `url` must come from `checkText`. */
export async function judge(url: URL, policy: Policy, resolve: Resolve = systemResolver): Promise<Target> {
  const literal = parseAddress(url.hostname);
  const addresses = literal === undefined ? await answers(url.hostname, resolve) : [bare(url.hostname)];
  const parsed = addresses.map(parseAddress);
  if (parsed.length === 0) throw refused('nodns', url.hostname);
  if (policy.kind === 'tenant') judgeAddresses(url, parsed, policy);
  else if (parsed.some((one) => one === undefined || isMetadata(embedded(one)))) throw refused('never', url.hostname);
  return { url, addresses, address: addresses[0]! };
}

function judgeAddresses(url: URL, parsed: (Address | undefined)[], policy: TenantPolicy): void {
  const entries = entriesFor(policy, url.hostname);
  const inside = parsed.map((one) => {
    // An answer that is no address (a zone, a truncated record) cannot be judged, so it is not allowed.
    if (one === undefined) throw refused('private', url.hostname);
    const address = embedded(one);
    const covering = policy.ranges.filter(({ range }) => contains(range, address) || contains(range, one));
    const kind = classify(address);
    if (kind === 'never') throw refused('never', url.hostname);
    if (policy.platformDeny.some((range) => contains(range, address) || contains(range, one)))
      throw refused('platform', url.hostname);
    if (kind === 'private' && covering.length === 0 && !entries.some((entry) => entry.private))
      throw refused('private', url.hostname);
    return covering;
  });
  if (url.protocol === 'https:' || entries.some((entry) => entry.http)) return;
  if (!inside.every((covering) => covering.some(({ http }) => http))) throw refused('http', url.hostname);
}

async function answers(host: string, resolve: Resolve): Promise<string[]> {
  try {
    return [...(await resolve(host))];
  } catch {
    throw refused('nodns', host);
  }
}

const bare = (hostname: string) => (hostname.startsWith('[') ? hostname.slice(1, -1) : hostname);
