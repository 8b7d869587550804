import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { KubeConfig, type V1EndpointSlice, type V1Lease } from '@kubernetes/client-node';

/** What goes wrong with requests for EndpointSlices, until it is taken back. */
export interface Faults {
  /** Every list answers this. */
  listStatus?: number;
  /** Every watch answers this. */
  watchStatus?: number;
  /** Watches are accepted and never say anything, not even that they end. */
  hangWatches?: boolean;
}

interface Scale {
  replicas: number;
  version: number;
  selector: string;
}

/**
 * Enough of a Kubernetes API server to be followed, led by and scaled on: lists with pages, watches with versions and
 * bookmarks, Leases and scales with conflicts. What it cannot prove (admission, RBAC, real versions) needs a real one.
 */
export class FakeApiServer {
  readonly slices = new Map<string, V1EndpointSlice>();
  readonly leases = new Map<string, V1Lease>();
  readonly scales = new Map<string, Scale>();
  readonly pods: { name: string; ip: string; labels: Record<string, string>; annotations: Record<string, string> }[] =
    [];
  readonly requests: { method: string; path: string; query: URLSearchParams; type: string; body: unknown }[] = [];
  faults: Faults = {};
  pageSize = 500;
  /** Called for every request; what it answers is sent instead (status). */
  intercept: (request: {
    method: string;
    path: string;
    body: unknown;
  }) => number | undefined | Promise<number | undefined> = () => undefined;
  private version = 100;
  /** Versions up to here are forgotten. */
  private compactedTo = 0;
  private readonly history: { version: number; type: string; object: V1EndpointSlice }[] = [];
  private readonly watchers = new Set<ServerResponse>();
  private readonly sockets = new Set<Socket>();
  private server: Server | undefined;
  private port = 0;

  async start(): Promise<this> {
    const server = createServer((request, response) => void this.answer(request, response));
    server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
      socket.on('error', () => undefined);
    });
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
    return this;
  }

  /** Everything is cut; the port is closed. `start` brings it back, with what it held. */
  async stop(): Promise<void> {
    const closed = new Promise<void>((resolve) =>
      this.server === undefined ? resolve() : this.server.close(() => resolve()),
    );
    this.cut();
    this.server?.closeAllConnections();
    await closed;
    this.server = undefined;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get connections(): number {
    return this.sockets.size;
  }

  get watching(): number {
    return this.watchers.size;
  }

  kubeConfig(): KubeConfig {
    const config = new KubeConfig();
    config.loadFromOptions({
      clusters: [{ name: 'fake', server: this.url, skipTLSVerify: true }],
      users: [{ name: 'me', token: 'token-of-the-test' }],
      contexts: [{ name: 'fake', cluster: 'fake', user: 'me', namespace: 'yard' }],
      currentContext: 'fake',
    });
    return config;
  }

  /** The same as a file for KUBECONFIG. */
  kubeConfigText(): string {
    return JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'fake',
      clusters: [{ name: 'fake', cluster: { server: this.url, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'me', user: { token: 'token-of-the-test' } }],
      contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'me', namespace: 'yard' } }],
    });
  }

  put(
    name: string,
    addresses: Record<string, { ready?: boolean; terminating?: boolean; pod?: string }>,
    port = 8080,
    more: Partial<V1EndpointSlice> = {},
  ): void {
    const isNew = !this.slices.has(name);
    const slice: V1EndpointSlice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      addressType: 'IPv4',
      endpoints: Object.entries(addresses).map(([ip, { ready = true, terminating = false, pod }]) => ({
        addresses: [ip],
        conditions: { ready, serving: ready, terminating },
        targetRef: { kind: 'Pod', name: pod ?? `pod-${ip.replaceAll('.', '-')}` },
      })),
      ports: [{ name: 'http', port, protocol: 'TCP' }],
      ...more,
      metadata: {
        name,
        namespace: 'yard',
        labels: { 'kubernetes.io/service-name': name, 'app.kubernetes.io/name': 'llama' },
        ...more.metadata,
        resourceVersion: String(++this.version),
      },
    };
    this.slices.set(name, slice);
    this.tell(isNew ? 'ADDED' : 'MODIFIED', slice);
  }

  remove(name: string): void {
    const slice = this.slices.get(name);
    if (slice === undefined) return;
    this.slices.delete(name);
    this.tell('DELETED', { ...slice, metadata: { ...slice.metadata, resourceVersion: String(++this.version) } });
  }

  bookmark(): void {
    this.tell('BOOKMARK', {
      kind: 'EndpointSlice',
      metadata: { resourceVersion: String(++this.version) },
    } as V1EndpointSlice);
  }

  /** Forgets the past, as etcd does: watches from older versions get a 410. */
  compact(): void {
    this.compactedTo = this.version++;
    this.history.length = 0;
  }

  /** Drops what nobody will ask for any more: the past that every watch has seen. */
  forget(): void {
    this.history.splice(0, Math.max(0, this.history.length - 20));
  }

  /** Resets every open watch (TCP RST). */
  cut(): void {
    for (const response of this.watchers) response.socket?.resetAndDestroy();
    this.watchers.clear();
  }

  /** Ends every watch in the middle of a chunk. */
  halfClose(): void {
    for (const response of this.watchers) {
      response.write('{"type":"MODI');
      response.socket?.end();
    }
    this.watchers.clear();
  }

  /** Ends every watch as a server does when its time is over. */
  endWatches(): void {
    for (const response of this.watchers) response.end();
    this.watchers.clear();
  }

  /** Tells every watch that it is too old, inside the stream. */
  expireWatches(): void {
    const status = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' };
    for (const response of this.watchers) response.end(`${JSON.stringify({ type: 'ERROR', object: status })}\n`);
    this.watchers.clear();
  }

  private tell(type: string, object: V1EndpointSlice): void {
    if (type !== 'BOOKMARK') this.history.push({ version: this.version, type, object });
    if (this.faults.hangWatches === true) return;
    const line = `${JSON.stringify({ type, object })}\n`;
    for (const response of this.watchers) {
      // In two pieces: readers must join them.
      response.write(line.slice(0, 20));
      response.write(line.slice(20));
    }
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    const { method = 'GET' } = request;
    const type = request.headers['content-type'] ?? '';
    this.requests.push({ method, path: url.pathname, query: url.searchParams, type, body });
    if (this.requests.length > 5000) this.requests.splice(0, 2500);
    if (request.headers.authorization !== 'Bearer token-of-the-test') return refuse(response, 401, 'Unauthorized');
    const instead = await this.intercept({ method, path: url.pathname, body });
    if (instead !== undefined) return refuse(response, instead, 'as the test wants it');
    const parts = url.pathname.split('/').filter(Boolean);
    if (url.pathname.endsWith('/endpointslices'))
      return url.searchParams.get('watch') === 'true'
        ? this.watch(url.searchParams, response)
        : this.list(url.searchParams, response);
    const lease = parts.indexOf('leases');
    if (lease >= 0) return this.lease(method, parts[lease + 1], body as V1Lease, response);
    const deployment = parts.indexOf('deployments');
    if (deployment >= 0 && parts[deployment + 2] === 'scale')
      return this.scale(
        method,
        parts[deployment + 1]!,
        type,
        body as { spec: Partial<Scale>; metadata?: { resourceVersion?: string } },
        response,
      );
    const pods = parts.indexOf('pods');
    if (pods >= 0) return this.pod(method, parts[pods + 1], type, body, url.searchParams, response);
    refuse(response, 404, `there is no ${url.pathname}`);
  }

  private list(query: URLSearchParams, response: ServerResponse): void {
    if (this.faults.listStatus !== undefined) return refuse(response, this.faults.listStatus, 'the list fails');
    const all = [...this.slices.values()];
    const from = Number(query.get('continue') ?? 0);
    const size = Math.min(this.pageSize, Number(query.get('limit') ?? this.pageSize));
    const next = from + size < all.length ? String(from + size) : undefined;
    send(response, 200, {
      kind: 'EndpointSliceList',
      metadata: { resourceVersion: String(this.version), ...(next === undefined ? {} : { continue: next }) },
      items: all.slice(from, from + size),
    });
  }

  private watch(query: URLSearchParams, response: ServerResponse): void {
    if (this.faults.watchStatus !== undefined) return refuse(response, this.faults.watchStatus, 'the watch fails');
    const from = Number(query.get('resourceVersion'));
    if (from < this.compactedTo) return refuse(response, 410, 'too old resource version');
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    this.watchers.add(response);
    response.on('close', () => this.watchers.delete(response));
    if (this.faults.hangWatches === true) return;
    for (const { version, type, object } of this.history)
      if (version > from) response.write(`${JSON.stringify({ type, object })}\n`);
    const seconds = Number(query.get('timeoutSeconds') ?? 60);
    const end = setTimeout(() => this.watchers.delete(response) && response.end(), seconds * 1000).unref();
    // A timer that outlives its watch would hold the response, and count as memory of the one who watched.
    response.on('close', () => clearTimeout(end));
  }

  private lease(method: string, name: string | undefined, body: V1Lease, response: ServerResponse): void {
    const key = name ?? body.metadata?.name ?? '';
    const known = this.leases.get(key);
    if (method === 'GET')
      return known === undefined ? refuse(response, 404, 'no such lease') : send(response, 200, known);
    if (method === 'POST' && known !== undefined) return refuse(response, 409, 'already exists');
    if (method === 'PUT' && body.metadata?.resourceVersion !== known?.metadata?.resourceVersion)
      return refuse(response, 409, 'the object has been modified');
    const lease: V1Lease = {
      ...body,
      metadata: { ...body.metadata, name: key, resourceVersion: String(++this.version) },
    };
    this.leases.set(key, lease);
    send(response, method === 'POST' ? 201 : 200, lease);
  }

  private scale(
    method: string,
    name: string,
    type: string,
    body: { spec: Partial<Scale>; metadata?: { resourceVersion?: string } },
    response: ServerResponse,
  ): void {
    const scale = this.scales.get(name);
    if (scale === undefined) return refuse(response, 404, `deployments.apps "${name}" not found`);
    if (method === 'PATCH') {
      // As a real one: a merge body under the library's default type is no JSON patch.
      if (type !== 'application/merge-patch+json') return refuse(response, 400, `cannot read a patch of type ${type}`);
      const version = body.metadata?.resourceVersion;
      if (version !== undefined && version !== String(scale.version))
        return refuse(response, 409, 'the object has been modified');
      scale.replicas = body.spec.replicas ?? scale.replicas;
      scale.version = ++this.version;
    }
    send(response, 200, {
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name, namespace: 'yard', resourceVersion: String(scale.version) },
      spec: { replicas: scale.replicas },
      status: { replicas: scale.replicas, selector: scale.selector },
    });
  }

  private pod(
    method: string,
    name: string | undefined,
    type: string,
    body: unknown,
    query: URLSearchParams,
    response: ServerResponse,
  ): void {
    if (method === 'PATCH') {
      const pod = this.pods.find((one) => one.name === name);
      if (pod === undefined || type !== 'application/merge-patch+json')
        return refuse(response, pod ? 400 : 404, 'no such pod, or no merge patch');
      Object.assign(pod.annotations, (body as { metadata: { annotations: object } }).metadata.annotations);
    }
    const wanted = (query.get('labelSelector') ?? '')
      .split(',')
      .filter(Boolean)
      .map((one) => one.split('='));
    const shown = this.pods
      .filter((pod) =>
        name === undefined ? wanted.every(([key, value]) => pod.labels[key!] === value) : pod.name === name,
      )
      .map((pod) => ({
        metadata: { name: pod.name, namespace: 'yard', labels: pod.labels, annotations: pod.annotations },
        status: { podIP: pod.ip },
      }));
    send(response, 200, name === undefined ? { kind: 'PodList', items: shown, metadata: {} } : shown[0]);
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

function refuse(response: ServerResponse, code: number, message: string): void {
  send(response, code, { kind: 'Status', status: 'Failure', code, message });
}
