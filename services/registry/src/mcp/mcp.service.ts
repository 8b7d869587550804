import { create } from '@bufbuild/protobuf';
import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { Tool as McpTool } from '@modelcontextprotocol/client';
import { type Bus } from '@yardmaster/bus';
import { type Effect, type Tool, ToolSchema, YardError } from '@yardmaster/contracts';
import { serveTools, type Tool as ServedTool, type ToolServer } from '@yardmaster/executor-kit';
import { BUS, LOGGER, type Logger, type McpServerConfig, PlatformConfigFile } from '@yardmaster/service-kit';
import { exposedName, isServerId } from '@yardmaster/tool-render';
import { RegistryConfig } from '../config.js';
import { ToolCatalogue } from '../tools/tool-catalogue.js';
import { problemsOf } from '../tools/tool-rules.js';
import { McpConnection } from './mcp-connection.js';

export const MCP_KIND = 'mcp';
const DEFAULT_TIMEOUT_S = 60;
const MOST_DESCRIPTION = 10_000;

/**
 * The MCP servers of the configuration as tools that every tenant sees: each definition passes the gate by itself, and a
 * bad one is left out without harm to the others. Calls come over the queue of the kind `mcp`, like those of executors.
 */
@Injectable()
export class McpService implements OnApplicationBootstrap, OnModuleDestroy {
  private readonly connections = new Map<string, McpConnection>();
  private server: ToolServer | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    private readonly catalogue: ToolCatalogue,
    private readonly config: RegistryConfig,
    private readonly platform: PlatformConfigFile,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const servers = Object.entries(this.platform.current.mcpServers);
    for (const tool of this.catalogue.ofServers())
      if (!(tool.server in this.platform.current.mcpServers)) await this.catalogue.deleteShared(tool.name);
    if (servers.length === 0) return;
    for (const [id, config] of servers) {
      if (!isServerId(id)) {
        this.log.warn({ server: id }, 'this cannot be the id of an MCP server: letters, digits and -, at most 20');
        continue;
      }
      const connection = new McpConnection(
        id,
        config,
        { onTools: (tools) => this.register(id, config, tools) },
        this.log,
      );
      this.connections.set(id, connection);
      connection.start();
    }
    this.server = await serveTools(
      {
        kind: MCP_KIND,
        bus: this.bus,
        slots: this.config.mcpSlots,
        ackWaitMs: this.config.mcpAckWaitMs,
        log: this.log,
        find: (name) => this.served(name),
      },
      [],
    );
  }

  async onModuleDestroy(): Promise<void> {
    await this.server?.stop();
    await Promise.all([...this.connections.values()].map((connection) => connection.stop()));
  }

  /** The tool of a call, as the catalogue has it now. */
  private served(name: string): ServedTool | undefined {
    const tool = this.catalogue.shared(name);
    const connection = tool?.kind === MCP_KIND ? this.connections.get(tool.server) : undefined;
    if (tool === undefined || connection === undefined) return undefined;
    return {
      name,
      description: tool.description,
      effect: tool.effect as Effect,
      timeoutMs: tool.timeoutMs,
      input: {},
      run: (args, { signal, timeoutMs }) => connection.call(tool.serverTool, args, signal, timeoutMs),
    };
  }

  private async register(id: string, config: McpServerConfig, listed: readonly McpTool[]): Promise<void> {
    const kept = new Set<string>();
    const refused: Record<string, string> = {};
    for (const mcpTool of listed) {
      const tool = definitionOf(id, config, mcpTool);
      const problems = await problemsOf(tool, new Map());
      if (problems.length > 0 || kept.has(tool.name)) {
        refused[mcpTool.name.slice(0, 100)] = problems[0]?.message ?? 'listed twice';
        // The definition was fine when it was registered, and the machine may only be busy now.
        if (problems.every(({ message }) => message.includes('takes more than'))) kept.add(tool.name);
        continue;
      }
      kept.add(tool.name);
      await this.catalogue.putShared(tool).catch((error: unknown) => {
        // Another replica has just written the same.
        if (!YardError.is(error) || error.class !== 'CONFLICT') throw error;
      });
    }
    for (const known of this.catalogue.ofServers())
      if (known.server === id && !kept.has(known.name)) await this.catalogue.deleteShared(known.name);
    this.log.info({ server: id, tools: kept.size, refused }, 'the tools of an MCP server are registered');
  }
}

/** What a server says of a tool counts only where the operator trusts it: then it may run again, or be called harmless. */
function definitionOf(id: string, config: McpServerConfig, tool: McpTool): Tool {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = tool.annotations ?? {};
  const trusted = config.trusted ?? false;
  const annotations = Object.fromEntries(
    Object.entries({
      readOnly: readOnlyHint,
      // What only reads destroys nothing, whatever the default of the hint.
      destructive: readOnlyHint === true ? undefined : destructiveHint,
      idempotent: idempotentHint,
      openWorld: openWorldHint,
    }).filter(([, flag]) => typeof flag === 'boolean'),
  );
  const effect: Effect = !trusted ? 'unsafe' : readOnlyHint ? 'read' : idempotentHint ? 'idempotent' : 'unsafe';
  const description = (tool.description ?? tool.title ?? '').trim();
  return create(ToolSchema, {
    name: exposedName(id, tool.name),
    description: (description === '' ? `The tool ${tool.name} of ${id}.` : description).slice(0, MOST_DESCRIPTION),
    parametersJson: JSON.stringify(tool.inputSchema),
    kind: MCP_KIND,
    effect,
    category: config.category ?? (config.url === undefined ? 'execute' : 'network'),
    timeoutMs: (config.timeout_s ?? DEFAULT_TIMEOUT_S) * 1000,
    state: 'active',
    server: id,
    serverTool: tool.name,
    annotationsJson: Object.keys(annotations).length === 0 ? '' : JSON.stringify(annotations),
    annotationsTrusted: trusted,
    outputSchemaJson: tool.outputSchema === undefined ? '' : JSON.stringify(tool.outputSchema),
  });
}
