import type { V1EndpointSlice } from '@kubernetes/client-node';
import { ApiFailure, type KubernetesConnection } from './connection.js';
import type { WatchEvent, WatchSource } from './supervised-watch.js';

/** A longer line is no EndpointSlice (they have 1000 addresses at the most), but something that eats memory. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;
const PAGE = '500';

/** The EndpointSlices of one namespace that a selector takes. */
export class EndpointSliceSource implements WatchSource<V1EndpointSlice> {
  private readonly path: string;

  constructor(
    private readonly kubernetes: Pick<KubernetesConnection, 'get'>,
    namespace: string,
    private readonly selector: string,
  ) {
    this.path = `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/endpointslices`;
  }

  async list(page: { continue: string | undefined }, signal: AbortSignal) {
    const query: Record<string, string> = { labelSelector: this.selector, limit: PAGE };
    if (page.continue !== undefined) query['continue'] = page.continue;
    const body = await this.kubernetes.get(this.path, query, signal);
    let list: { items?: V1EndpointSlice[] | null; metadata?: { resourceVersion?: string; continue?: string } };
    try {
      list = JSON.parse(await body.text()) as typeof list;
    } catch (cause) {
      throw new ApiFailure(0, 'the list broke off', { cause });
    }
    const { resourceVersion, continue: next } = list.metadata ?? {};
    if (resourceVersion === undefined)
      throw new ApiFailure(0, 'the list has no version: is this a Kubernetes API server?');
    return { items: list.items ?? [], resourceVersion, continue: next };
  }

  async *watch(
    { resourceVersion, timeoutSeconds }: { resourceVersion: string; timeoutSeconds: number },
    signal: AbortSignal,
  ): AsyncGenerator<WatchEvent<V1EndpointSlice>, void, void> {
    const body = await this.kubernetes.get(
      this.path,
      {
        labelSelector: this.selector,
        watch: 'true',
        allowWatchBookmarks: 'true',
        resourceVersion,
        timeoutSeconds: String(timeoutSeconds),
      },
      signal,
    );
    try {
      for await (const line of linesOf(body)) yield JSON.parse(line) as WatchEvent<V1EndpointSlice>;
    } catch (cause) {
      if (cause instanceof ApiFailure) throw cause;
      throw new ApiFailure(0, `the watch was cut: ${(cause as Error).message}`, { cause });
    } finally {
      body.destroy();
    }
  }
}

/** The lines of a stream, joined over its chunks; what follows the last line break is part of a line that was cut. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    if (rest.length > MAX_LINE_CHARS) throw new ApiFailure(0, 'a line of the watch is too long');
    let from = 0;
    for (let end = rest.indexOf('\n', from); end >= 0; end = rest.indexOf('\n', from)) {
      const line = rest.slice(from, end).trim();
      from = end + 1;
      if (line !== '') yield line;
    }
    rest = rest.slice(from);
  }
  if (rest.trim() !== '') throw new ApiFailure(0, 'the watch was cut in the middle of a line');
}
