import type { V1EndpointSlice } from '@kubernetes/client-node';

/** One address of a llama.cpp Service, as Kubernetes tells of it. */
export interface LlamaEndpoint {
  /** The provider whose pod this is. */
  provider: string;
  namespace: string;
  service: string;
  /** The pod's name; its address where nobody says. */
  pod: string;
  node: string;
  /** Host and port, as in an URL. */
  address: string;
  /** May new requests go there, as far as Kubernetes knows? */
  ready: boolean;
  terminating: boolean;
}

/** Says on a Service (and so on its EndpointSlices) which provider its pods are. */
export const PROVIDER_LABEL = 'yardmaster.dev/provider';
const SERVICE_LABEL = 'kubernetes.io/service-name';
const PROVIDER_NAME = /^[a-z0-9][a-z0-9_-]{0,39}$/;

/**
 * The pods in a set of EndpointSlices, each once: during a move an address is in two slices, and two Services may select
 * the same pods. Whatever one of them says against an address counts. Pure.
 */
export function endpointsOf(
  slices: Iterable<V1EndpointSlice>,
  providerOf: (namespace: string, service: string) => string | undefined,
): LlamaEndpoint[] {
  const found = new Map<string, LlamaEndpoint>();
  for (const slice of slices) {
    if (slice.addressType === 'FQDN') continue;
    const namespace = slice.metadata?.namespace ?? '';
    const service = slice.metadata?.labels?.[SERVICE_LABEL] ?? slice.metadata?.name ?? '';
    const port = portOf(slice);
    if (port === undefined) continue;
    const said = slice.metadata?.labels?.[PROVIDER_LABEL];
    const named = said !== undefined && PROVIDER_NAME.test(said) ? said : providerOf(namespace, service);
    const provider = named ?? tidy(service);
    for (const { addresses, conditions = {}, targetRef, nodeName } of slice.endpoints ?? []) {
      // The addresses of one endpoint are the same pod: the first will do.
      const [ip] = addresses;
      if (ip === undefined) continue;
      const address = `${slice.addressType === 'IPv6' ? `[${ip}]` : ip}:${port}`;
      // Unknown is to be taken as ready; of a pod that ends, only that counts.
      const one: LlamaEndpoint = {
        provider,
        namespace,
        service,
        pod: targetRef?.name ?? ip,
        node: nodeName ?? '',
        address,
        ready: conditions.ready !== false,
        terminating: conditions.terminating === true,
      };
      const other = found.get(address);
      if (other === undefined) found.set(address, one);
      else {
        // Of two Services the one that a provider is named after gives the name, else the one that comes first.
        const better = named !== undefined || (other.provider === tidy(other.service) && service < other.service);
        const kept = better ? one : other;
        found.set(address, {
          ...kept,
          ready: one.ready && other.ready,
          terminating: one.terminating || other.terminating,
        });
      }
    }
  }
  return [...found.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
}

/** The port named `http`, or the only one. */
function portOf({ ports }: V1EndpointSlice): number | undefined {
  const tcp = (ports ?? []).filter(({ port, protocol }) => port !== undefined && (protocol ?? 'TCP') === 'TCP');
  return (tcp.find(({ name }) => name === 'http') ?? (tcp.length === 1 ? tcp[0] : undefined))?.port;
}

/** A Service's name as the name of a provider. */
const tidy = (service: string): string => service.replace(/[^a-z0-9_-]/g, '-').slice(0, 40) || 'llama';

/** Which configured provider a Service is: the one whose `base_url` has its name as the host. */
export function providersByService(
  providers: Readonly<Record<string, { kind: string; base_url?: string }>>,
  ownNamespace: string,
): (namespace: string, service: string) => string | undefined {
  const hosts = new Map<string, string>();
  for (const [name, { kind, base_url: url }] of Object.entries(providers)) {
    if (!/^llama[._-]?cpp/.test(kind) || url === undefined || !URL.canParse(url)) continue;
    hosts.set(new URL(url).hostname.toLowerCase().replace(/\.$/, ''), name);
  }
  return (namespace, service) => {
    const full = `${service}.${namespace}`;
    const names = [full, `${full}.svc`, `${full}.svc.cluster.local`, ...(namespace === ownNamespace ? [service] : [])];
    return names.map((name) => hosts.get(name)).find((name) => name !== undefined);
  };
}
