import { type TenantId, type Tool, YardError } from '@yardmaster/contracts';
import type { Logger } from '@yardmaster/service-kit';
import type { ToolCatalogue } from '../tools/tool-catalogue.js';
import { toolHash } from '../tools/tool-hash.js';
import { problemsOf } from '../tools/tool-rules.js';
import { type McpLink, ownError } from './mcp-link.js';
import { listTools } from './mcp-listing.js';
import { toolOf } from './mcp-tools.js';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
const LIST_MS = 30_000;
const SOONEST_RELIST_MS = 1_000;

export interface FollowerState {
  state: 'connecting' | 'ready' | 'failed' | 'refused' | 'no_credential';
  problem: string;
  code: string;
  tools: string[];
  quarantined: Record<string, string>;
  listedAtMs: number;
  protocol: string;
  serverVersion: string;
}

/**
 * Keeps the tools of one server registered, for one tenant or for all: lists them after every connection, when the
 * server says that they changed, and from time to time. What cannot be registered is left out alone, with its reason.
 */
export class McpFollower {
  state: FollowerState = {
    state: 'connecting',
    problem: '',
    code: '',
    tools: [],
    quarantined: {},
    listedAtMs: 0,
    protocol: '',
    serverVersion: '',
  };
  private readonly stopped = new AbortController();
  private wake: () => void = () => {};
  private due = false;
  private round: Promise<void> = Promise.resolve();
  private readonly running: Promise<void>;

  constructor(
    readonly link: McpLink,
    private readonly catalogue: ToolCatalogue,
    private readonly relistMs: number,
    private readonly log: Logger,
  ) {
    link.onChanged = () => this.now();
    link.onClosed = () => this.now();
    this.running = this.follow();
  }

  private get scope(): TenantId | undefined {
    return this.link.tenant;
  }

  /** Lists at once; resolves when that is done, however it ended. */
  async test(): Promise<void> {
    // What failed is tried again as after any failure, not when the last good listing is due to be renewed.
    if ((await this.list()) === undefined) this.now();
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    this.wake();
    await this.link.close();
    await this.running;
  }

  private now(): void {
    this.due = true;
    this.wake();
  }

  private async follow(): Promise<void> {
    const { signal } = this.stopped;
    for (let failures = 0; !signal.aborted;) {
      this.due = false;
      const ttlMs = await this.list();
      failures = ttlMs === undefined ? failures + 1 : 0;
      const pause = ttlMs ?? Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 10));
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, signal.aborted || (this.due && ttlMs !== undefined) ? 0 : pause);
        this.wake = () => {
          // After a failure the pause is kept: a server that closes every connection must not keep us busy.
          if (!signal.aborted && ttlMs === undefined) return;
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  /** One listing after the other; answers for how long it holds, or nothing when it failed. */
  private list(): Promise<number | undefined> {
    const listed = this.round.then(() => this.listOnce());
    this.round = listed.then(
      () => undefined,
      () => undefined,
    );
    return listed;
  }

  private async listOnce(): Promise<number | undefined> {
    const { link, stopped } = this;
    const { id } = link.definition;
    try {
      const client = await link.connect();
      const { tools, misshapen, ttlMs } = await listTools(client, LIST_MS, stopped.signal);
      const quarantined = Object.fromEntries(misshapen);
      const kept = await this.register(tools, quarantined);
      this.state = {
        state: 'ready',
        problem: '',
        code: '',
        tools: kept,
        quarantined: Object.fromEntries(
          Object.entries(quarantined).map(([name, reason]) => [link.clean(name), link.clean(reason)]),
        ),
        listedAtMs: Date.now(),
        protocol: client.getNegotiatedProtocolVersion() ?? '',
        serverVersion: link.clean(serverName(client.getServerVersion())).slice(0, 200),
      };
      const left = Object.keys(this.state.quarantined).length;
      this.log.info(
        { server: link.definition.key, tenant: this.scope, tools: kept.length, quarantined: this.state.quarantined },
        left === 0 ? 'the tools of an MCP server are registered' : 'tools of an MCP server are left out',
      );
      return Math.min(86_400_000, Math.max(SOONEST_RELIST_MS, ttlMs ?? this.relistMs));
    } catch (error) {
      if (stopped.signal.aborted) return undefined;
      const ours = ownError(error);
      const code = ours?.code ?? 'YM-MCP-UNREACHABLE';
      const problem = ours?.message ?? `The MCP server "${id}" cannot be listed: ${link.describe(error)}`;
      const state = code.startsWith('YM-MCP-CREDENTIAL') ? 'no_credential' : ours === undefined ? 'failed' : 'refused';
      // Said when it is news: a server that stays away is tried for ever.
      if (problem !== this.state.problem)
        this.log.warn({ server: link.definition.key, tenant: this.scope, code, problem }, 'an MCP server is not ready');
      this.state = { ...this.state, state, problem, code };
      return undefined;
    }
  }

  /** Registers what can be; adds to `quarantined` what cannot. Answers the names of what is registered now. */
  private async register(
    tools: Awaited<ReturnType<typeof listTools>>['tools'],
    quarantined: Record<string, string>,
  ): Promise<string[]> {
    const { catalogue, scope } = this;
    const { definition } = this.link;
    const kept = new Set<string>();
    const registered = new Map(catalogue.ofServer(scope, definition.id).map((tool) => [tool.name, tool]));
    for (const listed of tools) {
      let tool: Tool;
      let unchanged: boolean;
      try {
        tool = toolOf(definition, listed);
        // What is registered has been checked: doing it again at every listing would keep those waiting that come anew.
        unchanged = registered.get(tool.name)?.hash === toolHash(tool);
      } catch {
        quarantined[listed.name] = 'its schema is nested too deeply to be written down';
        continue;
      }
      const taken = scope === undefined ? undefined : catalogue.ownWithoutServer(scope, tool.name);
      const problems = taken === undefined && !unchanged ? await problemsOf(tool, new Map()) : [];
      if (problems.length > 0 || taken !== undefined || kept.has(tool.name)) {
        quarantined[listed.name] =
          taken !== undefined
            ? `the tenant has registered a tool "${tool.name}" itself`
            : (problems[0]?.message ?? 'it is listed twice');
        continue;
      }
      kept.add(tool.name);
      await catalogue.putOfServer(scope, tool).catch((error: unknown) => {
        // Another replica has just written the same.
        if (!YardError.is(error) || error.class !== 'CONFLICT') throw error;
      });
    }
    for (const known of catalogue.ofServer(scope, definition.id))
      if (!kept.has(known.name)) await catalogue.deleteOfServer(scope, known.name);
    return [...kept].sort();
  }
}

const serverName = (info: { name?: unknown; version?: unknown } | undefined) =>
  info === undefined ? '' : `${String(info.name)} ${String(info.version)}`;
