import { Readable } from 'node:stream';
import type { Client, jsonSchemaValidator, JsonSchemaValidator, Transport } from '@modelcontextprotocol/client';
import { type TenantId, YardError } from '@yardmaster/contracts';
import {
  operatorPolicy,
  Outbound,
  type Policy,
  type Secret,
  tenantPolicy,
  treeUsage,
  type TenantPolicyOptions,
} from '@yardmaster/guard';
import { type McpCredentials, withoutSecret } from './mcp-credentials.js';
import type { McpDefinition } from './mcp-definition.js';
import { memoryBytes, SandboxProbe, sandboxed, unsandboxed } from './stdio-sandbox.js';
import { unlessAborted } from './unless-aborted.js';

/** How long a server may take until it is connected, however many questions that takes. */
const CONNECT_MS = 20_000;
/** Of that, for the first question, which some servers of an older revision do not answer. */
const PROBE_MS = CONNECT_MS / 2;
const DEBOUNCE_MS = 500;
const MOST_MESSAGE_BYTES = 10 * 1024 * 1024;
const KEPT_STDERR = 1_000;
const LOOK_MS = 500;

/** The error of ours in what the client threw: a refused address, a missing credential. */
export function ownError(error: unknown): YardError | undefined {
  let at = error;
  for (let depth = 0; depth < 5 && at instanceof Error; depth++, at = at.cause) if (YardError.is(at)) return at;
  return undefined;
}

const UNCHECKED: jsonSchemaValidator = {
  getValidator:
    <T>(): JsonSchemaValidator<T> =>
    (input) => ({ valid: true, data: input as T, errorMessage: undefined }),
};

/** What every connection needs of its surroundings. */
export interface LinkEnvironment {
  credentials: McpCredentials;
  bwrap: string;
  sandbox: 'required' | 'off';
  probe: SandboxProbe;
  /** Where tenants' own servers may be. */
  egress: () => TenantPolicyOptions;
}

/**
 * One session with one server, for one tenant (or for the platform's own listing): connected when it is needed, anew
 * after it broke. Nothing of it is shared: neither process nor socket, neither session id nor credential.
 */
export class McpLink {
  /** Told when the server says that its tools have changed. */
  onChanged: () => void = () => {};
  /** Told when a connection ends that had come up. */
  onClosed: () => void = () => {};
  lastUsed = Date.now();
  busy = 0;
  private client: Client | undefined;
  private connecting: Promise<Client> | undefined;
  private readonly closing = new AbortController();
  private outbound: Outbound | undefined;
  private stderr = '';
  private secret: Secret<string> | undefined;
  private watch: NodeJS.Timeout | undefined;

  constructor(
    readonly definition: McpDefinition,
    readonly tenant: TenantId | undefined,
    private readonly environment: LinkEnvironment,
  ) {}

  /** The connected client. Throws a YardError, or the client's error, when the server cannot be reached. */
  connect(): Promise<Client> {
    this.lastUsed = Date.now();
    if (this.closing.signal.aborted) return Promise.reject(this.closing.signal.reason as Error);
    if (this.client !== undefined) return Promise.resolve(this.client);
    return (this.connecting ??= this.open().finally(() => (this.connecting = undefined)));
  }

  /** What went wrong, for whoever looks at the server: without the credential, with the last words of its process. */
  describe(error: unknown): string {
    const cause = (error as { cause?: { message?: string } }).cause?.message;
    const words = [(error as Error).message ?? String(error), cause, this.stderr.trim().slice(-300)];
    return this.clean(
      words
        .filter((text) => text !== undefined && text !== '')
        .join(': ')
        .slice(0, 1_000),
    );
  }

  /** `text` without the credential of this session. */
  clean(text: string): string {
    return withoutSecret(text, this.secret);
  }

  /** Ends the connection, or what is to become one, and lets no other come up. */
  async close(): Promise<void> {
    this.closing.abort(new Error('this server is not configured any more'));
    await this.connecting?.catch(() => undefined);
    await this.drop(this.client);
  }

  /** Ends the connection; the next use makes another one. */
  async reset(): Promise<void> {
    await this.drop(this.client);
  }

  private async drop(client: Client | undefined): Promise<void> {
    if (this.client === client) this.client = undefined;
    await client?.close().catch(() => undefined);
    clearInterval(this.watch);
    const { outbound } = this;
    this.outbound = undefined;
    await outbound?.destroy().catch(() => undefined);
  }

  private async open(): Promise<Client> {
    const secret = this.environment.credentials.for(this.definition, this.tenant);
    this.secret = secret;
    this.stderr = '';
    // Loaded when it is needed: most registries have no MCP servers.
    const { Client: McpClient } = await import('@modelcontextprotocol/client');
    const client = new McpClient(
      { name: 'yardmaster', version: '0.1.0' },
      {
        versionNegotiation: { mode: 'auto', probe: { timeoutMs: PROBE_MS } },
        // Results are checked against what is registered, with limits of our own: the client's check would see no more.
        jsonSchemaValidator: UNCHECKED,
        listChanged: { tools: { autoRefresh: false, debounceMs: DEBOUNCE_MS, onChanged: () => this.onChanged() } },
      },
    );
    client.onclose = () => {
      if (this.client !== client) return;
      void this.drop(client);
      this.onClosed();
    };
    const transport = await this.transport(secret);
    const late = AbortSignal.timeout(CONNECT_MS);
    const given = AbortSignal.any([late, this.closing.signal]);
    try {
      given.throwIfAborted();
      // The limit of the client is one for each question, and none for what is only told.
      await unlessAborted(client.connect(transport, { timeout: CONNECT_MS }), given);
    } catch (error) {
      await Promise.allSettled([transport.close(), client.close(), this.drop(undefined)]);
      if (error === late.reason) throw new Error(`it has not answered within ${CONNECT_MS / 1000} s`);
      throw error;
    }
    this.client = client;
    return client;
  }

  private async transport(secret: Secret<string> | undefined): Promise<Transport> {
    const { definition, tenant, environment } = this;
    const { id, transport } = definition;
    if (transport.kind === 'stdio') {
      if (secret !== undefined && transport.credentialEnv === undefined)
        throw new YardError(
          'INVALID',
          'YM-MCP-CONFIG',
          `The MCP server "${id}" has a credential and no credential_env that says in which variable it is given.`,
        );
      const secretEnv = secret === undefined ? {} : { [transport.credentialEnv!]: secret.reveal() };
      if (environment.sandbox === 'required') await environment.probe.assertPossible(id);
      const started =
        environment.sandbox === 'required'
          ? sandboxed(environment.bwrap, transport, tenant, secretEnv)
          : unsandboxed(transport, tenant, secretEnv);
      const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
      const stdio = new StdioClientTransport({ ...started, stderr: 'pipe', maxBufferSize: MOST_MESSAGE_BYTES });
      if (stdio.stderr instanceof Readable)
        stdio.stderr.on('data', (chunk: Buffer) => (this.stderr = (this.stderr + String(chunk)).slice(-KEPT_STDERR)));
      this.watchMemory(() => stdio.pid, memoryBytes(transport));
      return stdio;
    }
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const outbound = new Outbound(this.policy(transport.url), {
      connections: 32,
      // A call may take as long as its time limit, and an event stream be quiet for ever.
      headersTimeoutMs: 0,
      bodyTimeoutMs: 0,
    });
    this.outbound = outbound;
    return new StreamableHTTPClientTransport(new URL(transport.url), {
      requestInit: { redirect: 'error' },
      fetch: outbound.fetch(MOST_MESSAGE_BYTES),
      ...(secret === undefined ? {} : { authProvider: { token: () => Promise.resolve(secret.reveal()) } }),
    });
  }

  /** Ends a server whose processes use more than they may together; its last words say so. */
  private watchMemory(pidOf: () => number | null, mostBytes: number): void {
    clearInterval(this.watch);
    const watch = setInterval(() => {
      const pid = pidOf();
      if (pid === null || treeUsage(pid).rssBytes <= mostBytes) return;
      clearInterval(watch);
      this.stderr = `it used more than ${mostBytes / 1024 / 1024} MB of memory and was ended`;
      // The processes in the sandbox end with the one that holds it.
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // ended by itself meanwhile
      }
    }, LOOK_MS);
    this.watch = watch.unref();
  }

  private policy(url: string): Policy {
    return this.definition.owner === undefined ? operatorPolicy(url) : tenantPolicy(this.environment.egress());
  }
}
