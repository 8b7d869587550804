import { readFileSync } from 'node:fs';
import {
  AppsV1Api,
  CoordinationV1Api,
  CoreV1Api,
  createConfiguration,
  KubeConfig,
  type RequestContext,
  type SecurityAuthentication,
  ServerConfiguration,
} from '@kubernetes/client-node';
import { ConfigError } from '@yardmaster/service-kit';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';

/** Kubernetes puts the pod's own namespace here. */
const NAMESPACE_FILE = '/var/run/secrets/kubernetes.io/serviceaccount/namespace';
const NO_CLUSTER =
  'KUBECONFIG: no Kubernetes cluster is configured; set it to a kubeconfig with a current context and user, or run in a pod that has a token';
const REQUEST_MS = 5_000;

/** An answer of the API server that is no success, or no answer at all (status 0). */
export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'ApiFailure';
  }
}

/**
 * The connections to the API server, all over one pool. The library makes a new pool for every single request
 * (`applySecurityAuthentication` of 2.0), whose sockets stay open until they time out: so it gets ours, and is used for
 * what it knows best: kubeconfigs, tokens that change, exec plugins, and the types.
 */
export class KubernetesConnection {
  readonly apps: AppsV1Api;
  readonly core: CoreV1Api;
  readonly coordination: CoordinationV1Api;
  readonly server: string;
  private dispatcher: Dispatcher | undefined;
  private madeOf = '';

  constructor(private readonly config: KubeConfig) {
    const cluster = config.getCurrentCluster();
    if (cluster === null) throw new ConfigError([NO_CLUSTER]);
    this.server = cluster.server.replace(/\/+$/, '');
    const shared: SecurityAuthentication = {
      getName: () => 'shared connections',
      applySecurityAuthentication: (context: RequestContext) => this.authenticate(context),
    };
    const configuration = createConfiguration({
      baseServer: new ServerConfiguration(this.server, {}),
      authMethods: { default: shared },
    });
    this.apps = new AppsV1Api(configuration);
    this.core = new CoreV1Api(configuration);
    this.coordination = new CoordinationV1Api(configuration);
  }

  /** KUBECONFIG, ~/.kube/config, or the token of the pod. Throws when there is none of them. */
  static fromEnvironment(): KubernetesConnection {
    const config = new KubeConfig();
    config.loadFromDefault();
    // With nothing to go by the library takes a server at localhost:8080, which nobody means.
    if (config.getCurrentUser() === null || config.getCurrentCluster()?.server === 'http://localhost:8080')
      throw new ConfigError([NO_CLUSTER]);
    return new KubernetesConnection(config);
  }

  /** The namespace that this process is in. */
  get namespace(): string {
    try {
      return readFileSync(NAMESPACE_FILE, 'utf8').trim();
    } catch {
      return this.config.getContextObject(this.config.getCurrentContext())?.namespace ?? 'default';
    }
  }

  /** Sends a GET and answers as soon as the headers are there. Throws ApiFailure for every other status than 200. */
  async get(
    path: string,
    query: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData['body']> {
    const url = new URL(this.server + path);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const { headers, dispatcher } = await this.credentials();
    let response: Dispatcher.ResponseData;
    try {
      response = await dispatcher.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: 'GET',
        headers: { accept: 'application/json', ...headers },
        signal,
        headersTimeout: REQUEST_MS,
        // A watch is silent for as long as nothing happens; whoever reads it has a limit of its own.
        bodyTimeout: 0,
      });
    } catch (cause) {
      throw new ApiFailure(0, `the API server cannot be reached: ${(cause as Error).message}`, { cause });
    }
    if (response.statusCode === 200) return response.body;
    const text = await response.body.text().catch(() => '');
    throw new ApiFailure(response.statusCode, `the API server answers ${response.statusCode}: ${messageIn(text)}`);
  }

  async close(): Promise<void> {
    await this.dispatcher?.destroy();
  }

  private async authenticate(context: RequestContext): Promise<void> {
    const { headers, dispatcher } = await this.credentials();
    for (const [name, value] of Object.entries(headers)) context.setHeaderParam(name, value);
    context.setDispatcher(dispatcher);
    context.setSignal(AbortSignal.timeout(REQUEST_MS));
  }

  /** The headers of this moment (a projected token changes each hour), and the pool that fits the certificates. */
  private async credentials(): Promise<{ headers: Record<string, string>; dispatcher: Dispatcher }> {
    const options: Parameters<KubeConfig['applyToHTTPSOptions']>[0] = {};
    await this.config.applyToHTTPSOptions(options);
    const headers = Object.fromEntries(
      Object.entries(options.headers ?? {}).map(([name, value]) => [name, String(value as string)]),
    );
    const user = this.config.getCurrentUser();
    if (options.auth !== undefined && options.auth !== null)
      headers['Authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`;
    else if (user?.username !== undefined && user.password !== undefined)
      headers['Authorization'] = `Basic ${Buffer.from(`${user.username}:${user.password}`).toString('base64')}`;
    const { ca, cert, key, rejectUnauthorized, servername } = options;
    const madeOf = JSON.stringify([ca, cert, key, rejectUnauthorized, servername].map((part) => part?.toString()));
    if (this.dispatcher === undefined || this.madeOf !== madeOf) {
      const old = this.dispatcher;
      this.dispatcher = this.pool({ ca, cert, key, rejectUnauthorized, servername });
      this.madeOf = madeOf;
      // Watches over the old pool go on until they end by themselves.
      void old?.close();
    }
    return { headers, dispatcher: this.dispatcher };
  }

  private pool(tls: Record<string, unknown>): Dispatcher {
    const connect = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
    const limits = {
      connections: 16,
      pipelining: 1,
      allowH2: false,
      keepAliveTimeout: 20_000,
      keepAliveMaxTimeout: 60_000,
    };
    const proxy = this.config.getCurrentCluster()?.proxyUrl;
    if (proxy !== undefined) return new ProxyAgent({ uri: proxy, requestTls: connect, ...limits });
    return new Agent({
      ...limits,
      connect: { ...connect, timeout: REQUEST_MS, keepAlive: true, keepAliveInitialDelay: 15_000 },
    });
  }
}

/** What a Status object says, or the beginning of whatever came instead. */
function messageIn(text: string): string {
  try {
    const { message } = JSON.parse(text) as { message?: string };
    if (typeof message === 'string') return message;
  } catch {
    // A proxy in between answers in words of its own.
  }
  return text.slice(0, 200).trim() || 'no reason given';
}

/** The status of an error of the library or of ours; 0 when there was no answer. */
export function statusOf(error: unknown): number {
  const { code, status } = (error ?? {}) as { code?: unknown; status?: unknown };
  if (typeof code === 'number') return code;
  return typeof status === 'number' ? status : 0;
}

/** An error in a few words, without the headers and bodies that the library puts into its messages. */
export function inWords(error: unknown): string {
  const status = statusOf(error);
  const { body, message } = (error ?? {}) as { body?: unknown; message?: string };
  if (status !== 0 && body !== undefined)
    return `the API server answers ${status}: ${messageIn(typeof body === 'string' ? body : JSON.stringify(body))}`;
  return message?.split('\n')[0]?.slice(0, 300) ?? String(error);
}
