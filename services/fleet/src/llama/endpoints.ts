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

/** How Services are named as providers. */
export interface ProviderNames {
  /** The configured provider that a Service is. */
  of(namespace: string, service: string): string | undefined;
  /** Is this the name of a provider of another kind? Its keys are for its own address, and no Service may take it over. */
  isForeign(provider: string): boolean;
}

/**
 * The pods in a set of EndpointSlices, each once: during a move an address is in two slices, two Services may select
 * the same pods, and a pod with two addresses (IPv4 and IPv6) is in a slice of each family. Whatever one of them says
 * against a pod counts. `onProblem` is told of Services that are left out. Pure.
 */
export function endpointsOf(
  slices: Iterable<V1EndpointSlice>,
  names: ProviderNames,
  onProblem: (problem: string) => void = () => undefined,
): LlamaEndpoint[] {
  const found = new Map<string, LlamaEndpoint>();
  for (const slice of slices) {
    if (slice.addressType === 'FQDN') continue;
    const namespace = slice.metadata?.namespace ?? '';
    const service = slice.metadata?.labels?.[SERVICE_LABEL] ?? slice.metadata?.name ?? '';
    const port = portOf(slice);
    if (port === undefined) continue;
    const said = slice.metadata?.labels?.[PROVIDER_LABEL];
    const named = said !== undefined && PROVIDER_NAME.test(said) ? said : names.of(namespace, service);
    const provider = named ?? tidy(service);
    if (names.isForeign(provider)) {
      onProblem(
        `Service ${namespace}/${service} would be the provider "${provider}", which is configured with another kind: it is left out; name it with the label ${PROVIDER_LABEL}`,
      );
      continue;
    }
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
        found.set(address, better ? against(one, other) : against(other, one));
      }
    }
  }
  // IPv4 before IPv6, and always the same one first: a pod whose address changes is taken for another server.
  const sorted = [...found.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
  const pods = new Map<string, LlamaEndpoint>();
  for (const one of sorted) {
    const key = `${one.provider}/${one.namespace}/${one.pod}`;
    const first = pods.get(key);
    pods.set(key, first === undefined ? one : against(first, one));
  }
  return [...pods.values()];
}

/** The first, with what the second says against it. */
const against = (first: LlamaEndpoint, { ready, terminating }: LlamaEndpoint): LlamaEndpoint => ({
  ...first,
  ready: first.ready && ready,
  terminating: first.terminating || terminating,
});

/** The port named `http`, or the only one. */
function portOf({ ports }: V1EndpointSlice): number | undefined {
  const tcp = (ports ?? []).filter(({ port, protocol }) => port !== undefined && (protocol ?? 'TCP') === 'TCP');
  return (tcp.find(({ name }) => name === 'http') ?? (tcp.length === 1 ? tcp[0] : undefined))?.port;
}

/** A Service's name as the name of a provider. */
const tidy = (service: string): string => service.replace(/[^a-z0-9_-]/g, '-').slice(0, 40) || 'llama';

/** The kinds that llm-wire knows a llama.cpp server by. */
const isLlama = (kind: string): boolean => /^llama([._-]?cpp|-server)/i.test(kind);

/** Which configured provider a Service is: the one whose `base_url` has its name as the host. */
export function providersByService(
  providers: Readonly<Record<string, { kind: string; base_url?: string }>>,
  ownNamespace: string,
): ProviderNames {
  const hosts = new Map<string, string>();
  for (const [name, { kind, base_url: url }] of Object.entries(providers)) {
    if (!isLlama(kind) || url === undefined || !URL.canParse(url)) continue;
    hosts.set(new URL(url).hostname.toLowerCase().replace(/\.$/, ''), name);
  }
  return {
    of(namespace, service) {
      const full = `${service}.${namespace}`;
      const own = namespace === ownNamespace ? [service] : [];
      const names = [full, `${full}.svc`, `${full}.svc.cluster.local`, ...own];
      return names.map((name) => hosts.get(name)).find((name) => name !== undefined);
    },
    isForeign: (provider) => Object.hasOwn(providers, provider) && !isLlama(providers[provider]!.kind),
  };
}
