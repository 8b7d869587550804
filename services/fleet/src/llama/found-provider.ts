import type { FoundProvider } from '@yardmaster/service-kit';
import type { PodState } from './pod-state.js';

/** The key of a pod in `ym_providers`. */
export const providerKey = ({ provider, namespace, pod }: PodState['endpoint']): string =>
  `${provider}/${namespace}/${pod.replace(/[^-_=.a-zA-Z0-9]/g, '-').replace(/^\.+|\.+$/g, '')}`;

/** How often an entry is written although nothing changed: routers that hear nothing for three times as long know that nobody leads. */
export const SEEN_MS = 60_000;

/** What the router reads about a pod. Pure. */
export function foundProvider({ endpoint, phase, reason, capabilities, since }: PodState, now: number): FoundProvider {
  const { slots, context, nativeTools, vision, model } = capabilities;
  return {
    kind: 'llamacpp',
    base_url: `http://${endpoint.address}/v1`,
    ...(slots === undefined ? {} : { slots }),
    ...(context === undefined ? {} : { context }),
    ...(nativeTools === undefined ? {} : { native_tools: nativeTools }),
    ...(vision === undefined ? {} : { vision }),
    ...(model === undefined ? {} : { models: [model] }),
    found: {
      provider: endpoint.provider,
      pod: endpoint.pod,
      namespace: endpoint.namespace,
      node: endpoint.node,
      phase,
      reason,
      since_ms: since,
      seen_ms: Math.floor(now / SEEN_MS) * SEEN_MS,
    },
  };
}
