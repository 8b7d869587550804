import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallToolResult, Client, Tool as McpTool } from '@modelcontextprotocol/client';
import type { ToolOutcome } from '@yardmaster/executor-kit';
import type { Logger, McpServerConfig } from '@yardmaster/service-kit';
import { type JsonSchema, validateArguments } from '@yardmaster/tool-schema';

const CONNECT_MS = 20_000;
const LONGEST_PAUSE_MS = 30_000;
const DEBOUNCE_MS = 500;
/** Of what a server may list; more is a fault of the server. */
const MOST_TOOLS = 2_000;

export interface McpHandlers {
  /** Told of all tools after every connection and every change. */
  onTools(tools: readonly McpTool[]): Promise<void>;
}

/** One MCP server: connected as long as this process lives, listed again when it says that its tools changed. */
export class McpConnection {
  private client: Client | undefined;
  private readonly stopped = new AbortController();
  private running: Promise<void> | undefined;

  constructor(
    readonly id: string,
    private readonly config: McpServerConfig,
    private readonly handlers: McpHandlers,
    private readonly log: Logger,
  ) {}

  start(): void {
    this.running = this.follow();
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    await this.client?.close().catch(() => undefined);
    await this.running;
  }

  /** The outcome of a call; what the server says went wrong is for the model to read, in either form of saying it. */
  async call(
    name: string,
    args: Record<string, unknown>,
    signal: AbortSignal,
    timeoutMs: number,
  ): Promise<ToolOutcome> {
    const { client } = this;
    if (client === undefined)
      return { ok: false, reason: 'failed', output: `The server "${this.id}" is not connected. Nothing was run.` };
    try {
      return outcomeOf(await client.callTool({ name, arguments: args }, { signal, timeout: timeoutMs }));
    } catch (error) {
      if (signal.aborted) throw error;
      return { ok: false, reason: 'failed', output: `${this.id}: ${(error as Error).message}` };
    }
  }

  private async follow(): Promise<void> {
    for (let tries = 0; !this.stopped.signal.aborted; tries++) {
      const began = Date.now();
      try {
        await this.once();
      } catch (error) {
        if (this.stopped.signal.aborted) return;
        this.log.warn({ server: this.id, err: error }, 'an MCP server cannot be reached');
      }
      if (Date.now() - began > LONGEST_PAUSE_MS) tries = 0;
      await sleep(Math.min(LONGEST_PAUSE_MS, 500 * 2 ** Math.min(tries, 10)), undefined, {
        signal: this.stopped.signal,
      }).catch(() => undefined);
    }
  }

  /** Connects and stays until the connection ends. */
  private async once(): Promise<void> {
    // Loaded when it is needed: most registries have no MCP servers.
    const { Client: McpClient } = await import('@modelcontextprotocol/client');
    const client = new McpClient(
      { name: 'yardmaster', version: '0.1.0' },
      {
        versionNegotiation: { mode: 'auto' },
        // Schemas of servers are code from outside: ours run in linear time.
        jsonSchemaValidator: { getValidator: validatorOf },
        listChanged: {
          tools: { autoRefresh: false, debounceMs: DEBOUNCE_MS, onChanged: () => void this.list(client) },
        },
      },
    );
    const ended = new Promise<void>((resolve) => (client.onclose = () => resolve()));
    try {
      await client.connect(await this.transport(), { timeout: CONNECT_MS });
      this.client = client;
      await this.list(client);
      await ended;
    } finally {
      this.client = undefined;
      await client.close().catch(() => undefined);
    }
  }

  private async transport() {
    const { config } = this;
    if (config.url === undefined) {
      const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
      return new StdioClientTransport({
        command: config.command!,
        args: config.args ?? [],
        // Nothing of ours but the path: a server needs no password of this process.
        env: { PATH: process.env['PATH'] ?? '', ...config.env },
        stderr: 'ignore',
      });
    }
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const token = tokenOf(config);
    return new StreamableHTTPClientTransport(new URL(config.url), {
      requestInit: { redirect: 'error' },
      ...(token === undefined ? {} : { authProvider: { token: () => Promise.resolve(token) } }),
    });
  }

  private async list(client: Client): Promise<void> {
    try {
      const { tools } = await client.listTools(undefined, { timeout: CONNECT_MS });
      if (tools.length > MOST_TOOLS) throw new Error(`it lists ${tools.length} tools, over ${MOST_TOOLS}`);
      await this.handlers.onTools(tools);
    } catch (error) {
      this.log.warn({ server: this.id, err: error }, 'the tools of an MCP server cannot be listed; those known stay');
    }
  }
}

function tokenOf({ token_env, token_file }: McpServerConfig): string | undefined {
  if (token_file !== undefined) return readFileSync(token_file, 'utf8').trim();
  return token_env === undefined ? undefined : process.env[token_env];
}

function validatorOf<T>(schema: unknown) {
  return (input: unknown) => {
    const verdict = validateArguments(schema as JsonSchema, input as Record<string, unknown>);
    return verdict.ok
      ? { valid: true as const, data: input as T, errorMessage: undefined }
      : {
          valid: false as const,
          data: undefined,
          errorMessage: verdict.errors.map(({ path, message }) => `${path} ${message}`).join('; '),
        };
  };
}

function outcomeOf({ content, isError, structuredContent }: CallToolResult): ToolOutcome {
  const parts = (content ?? []).map((part) => {
    if (part.type === 'text') return part.text;
    if (part.type === 'resource' && 'text' in part.resource) return String(part.resource.text);
    if (part.type === 'resource_link') return `[resource ${part.uri}]`;
    if (part.type === 'image' || part.type === 'audio')
      return `[${part.type} ${part.mimeType}, ${part.data.length} characters of base64]`;
    return `[${part.type}]`;
  });
  const text = parts.join('\n');
  const output = text === '' && structuredContent !== undefined ? JSON.stringify(structuredContent) : text;
  return isError === true ? { ok: false, reason: 'failed', output } : { output };
}
