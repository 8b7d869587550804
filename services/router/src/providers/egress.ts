import { lookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { YardError } from '@yardmaster/contracts';
import { operatorPolicy, Outbound } from '@yardmaster/guard';
import type { Dispatcher } from 'undici';

/** Nobody serves a model here, whatever a configuration or a name server says: link-local, and the clouds' metadata. */
const NEVER = new BlockList();
NEVER.addSubnet('169.254.0.0', 16, 'ipv4');
NEVER.addSubnet('fe80::', 10, 'ipv6');
NEVER.addAddress('168.63.129.16', 'ipv4');
NEVER.addAddress('100.100.100.200', 'ipv4');
NEVER.addAddress('192.0.0.192', 'ipv4');
NEVER.addAddress('fd00:ec2::254', 'ipv6');

/**
 * The connections to providers. Their addresses come from the operator, so loopback and the cluster are fine, but each
 * provider's go to its own origin only: a name is resolved once per connection and the socket is pinned to that answer.
 */
export class Egress {
  private readonly pools = new Map<string, Outbound>();
  private readonly connections: number;

  constructor(connections: number) {
    this.connections = connections;
  }

  /** The connections of one provider to one origin; no other provider uses them. Throws DENIED for an address that is never called. */
  dispatcherFor(provider: string, url: URL, connectTimeoutMs: number): Dispatcher {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (isIP(host) !== 0) refuseNever([host], host);
    const key = `${provider} ${url.origin} ${connectTimeoutMs}`;
    let pool = this.pools.get(key);
    if (pool === undefined) {
      pool = new Outbound(operatorPolicy(url.origin), { connections: this.connections, connectTimeoutMs, resolve });
      this.pools.set(key, pool);
    }
    return pool.dispatcher;
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    const pools = [...this.pools.values()];
    this.pools.clear();
    await Promise.all(pools.map((pool) => pool.dispatcher.destroy()));
  }
}

async function resolve(host: string): Promise<string[]> {
  const answers = (await lookup(host, { all: true })).map(({ address }) => address);
  refuseNever(answers, host);
  return answers;
}

function refuseNever(addresses: readonly string[], host: string): void {
  if (!addresses.some((address) => NEVER.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4'))) return;
  throw new YardError(
    'DENIED',
    'YM-URL-REFUSED',
    `The provider address at ${host} is refused: it leads to a link-local or metadata address. Correct its base_url.`,
    { details: { reason: 'never' } },
  );
}
