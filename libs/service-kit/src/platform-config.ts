import { readFileSync } from 'node:fs';
import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js';
import { parseDocument } from 'yaml';
import { ConfigError } from './config.js';
import { platformConfigSchema } from './platform-config-schema.js';

export interface ProviderConfig {
  kind: string;
  base_url?: string;
  auth?: 'bearer' | 'x-api-key' | 'none' | { header: string };
  key_env?: string;
  key_file?: string;
  keys?: { env?: string; file?: string }[];
  models?: string[];
  native_tools?: boolean;
  vision?: boolean;
  embeddings?: boolean;
  context?: number;
  max_output_tokens?: number;
  dialect?: string;
  tool_dispatcher?: 'auto' | 'native' | 'xml';
  render?: string;
  merge_system_into_user?: boolean;
  reasoning_fallback?: boolean;
  inline_think?: boolean;
  think_prefilled?: boolean;
  text_fallback?: boolean;
  responses_fallback?: boolean;
  timeout_s?: number;
  connect_timeout_s?: number;
  first_token_timeout_s?: number;
  idle_timeout_s?: number;
  max_connections?: number;
  weight?: number;
  slots?: number;
  headers?: Record<string, string>;
  demo?: boolean;
}

/** Is a pod to be sent anything? Only to a `ready` one. */
export type PodPhase = 'ready' | 'loading' | 'draining' | 'unhealthy' | 'unchecked';

/**
 * What the fleet writes into `ym_providers`: one entry for each pod of a provider. What the configuration says of the
 * provider of that name holds for its pods too, and over what they say of themselves.
 */
export interface FoundProvider extends ProviderConfig {
  base_url: string;
  found: {
    /** The provider whose pod this is. */
    provider: string;
    pod: string;
    namespace: string;
    node: string;
    phase: PodPhase;
    /** Why it is not ready; empty when it is. */
    reason: string;
    /** Milliseconds since the epoch. */
    since_ms: number;
    /** The minute of the last look, so that routers notice when nobody looks any more. */
    seen_ms: number;
  };
}

export interface RoutingConfig {
  default_model?: string;
  embedding_model?: string;
  providers?: string[];
  retries?: number;
  backoff_ms?: number;
  strategy?: 'priority' | 'weighted' | 'least-busy';
  model_fallbacks?: Record<string, string[]>;
}

export interface AgentConfig {
  model?: string;
  providers?: string[];
  model_fallbacks?: Record<string, string[]>;
  system?: string;
  tools?: string[];
  tool_dispatcher?: 'auto' | 'native' | 'xml';
  render?: string;
  temperature?: number;
  max_output_tokens?: number;
  limits?: { max_iterations?: number; max_tokens?: number; max_cost_usd?: number; timeout_s?: number };
}

/** Where a secret is: never the secret itself. */
export type SecretReference = { env: string } | { file: string };

/** What the sandbox of a stdio server lets through, and its limits. */
export interface McpSandboxConfig {
  network?: boolean;
  read?: string[];
  write?: string[];
  memory_mb?: number;
  pids?: number;
  open_files?: number;
  tmp_mb?: number;
}

/** An address, or a range of them, that tenants' MCP servers may be at though it is not a public one. */
export type McpEgressEntry = { host: string; private?: boolean; http?: boolean } | { cidr: string; http?: boolean };

/** An MCP server: `url` for streamable HTTP, `command` for stdio. */
export interface McpServerConfig {
  url?: string;
  /** The platform's own credential, for all tenants unless they have their own. */
  token_env?: string;
  token_file?: string;
  /** Name of a credential that each tenant has for itself: the file `<tenant>.<name>` among the credentials. */
  credential?: string;
  /** The same, named one by one. */
  credentials?: Record<string, SecretReference>;
  command?: string;
  args?: string[];
  env?: Record<string, string>;
  /** stdio: the variable that the credential is given in. */
  credential_env?: string;
  sandbox?: McpSandboxConfig;
  category?: 'read' | 'write' | 'execute' | 'network';
  trusted?: boolean;
  timeout_s?: number;
}

export type ApprovalDecision = 'allow' | 'ask' | 'deny';

/** The file of YM_CONFIG: who serves models, in which order, and the agents that callers may name. */
export interface PlatformConfig {
  providers: Record<string, ProviderConfig>;
  routing: RoutingConfig;
  agents: Record<string, AgentConfig>;
  approvals: Partial<Record<'read' | 'write' | 'execute' | 'network', ApprovalDecision>>;
  mcpServers: Record<string, McpServerConfig>;
  mcpEgress: McpEgressEntry[];
  /** Executor kinds that are not Yardmaster's own. */
  executors: string[];
  /** What is wrong but not fatal, such as a chain that names a provider which is not there. */
  warnings: string[];
}

const LOOK_MS = 1_000;

const validate = new Ajv2020({ allErrors: true, strict: false }).compile(platformConfigSchema);

function describe(error: ErrorObject): string {
  const where = error.instancePath === '' ? 'the file' : error.instancePath.slice(1).replaceAll('/', '.');
  if (error.keyword === 'additionalProperties')
    return `${where}: there is no key "${String(error.params['additionalProperty'])}" here`;
  if (error.keyword === 'enum')
    return `${where}: must be one of ${(error.params['allowedValues'] as unknown[]).join(', ')}`;
  return `${where}: ${error.message ?? 'is wrong'}`;
}

/** The configuration in `text` (YAML). Throws ConfigError with a line per mistake, naming key and rule. */
export function parsePlatformConfig(text: string, file = 'YM_CONFIG'): PlatformConfig {
  const document = parseDocument(text, { prettyErrors: true });
  if (document.errors.length > 0)
    throw new ConfigError(document.errors.map((error) => `${file}: ${error.message.split('\n')[0]}`));
  const value = (document.toJS({ maxAliasCount: 100 }) ?? {}) as Partial<PlatformConfig>;
  if (!validate(value))
    throw new ConfigError([...new Set((validate.errors ?? []).map((error) => `${file}: ${describe(error)}`))]);
  const config: PlatformConfig = {
    providers: value.providers ?? {},
    routing: value.routing ?? {},
    agents: value.agents ?? {},
    approvals: value.approvals ?? {},
    mcpServers: (value as { mcp_servers?: Record<string, McpServerConfig> }).mcp_servers ?? {},
    mcpEgress: (value as { mcp_egress?: McpEgressEntry[] }).mcp_egress ?? [],
    executors: value.executors ?? [],
    warnings: [],
  };
  // A chain that names an unknown provider still works with the others: a warning, not the end.
  const check = (where: string, names: string[] | undefined) => {
    for (const name of names ?? [])
      if (!(name in config.providers)) config.warnings.push(`${where}: there is no provider "${name}"; it is left out`);
  };
  check('routing.providers', config.routing.providers);
  for (const [name, agent] of Object.entries(config.agents)) check(`agents.${name}.providers`, agent.providers);
  return config;
}

/** The configuration file, read again when it changes; a broken new version is reported and the old one stays. */
export class PlatformConfigFile {
  private config: PlatformConfig;
  private readonly listeners = new Set<(config: PlatformConfig) => void>();
  private text = '';
  private broken: string | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly file: string | undefined,
    private readonly onProblem: (message: string) => void = () => {},
  ) {
    this.config = this.load();
    for (const warning of this.config.warnings) this.onProblem(warning);
    if (file !== undefined) {
      // Read and compared, not watched: a mounted ConfigMap changes by a swapped link, and other file systems tell nothing.
      this.timer = setInterval(() => this.reload(), LOOK_MS);
      this.timer.unref();
    }
  }

  get current(): PlatformConfig {
    return this.config;
  }

  onChange(listener: (config: PlatformConfig) => void): void {
    this.listeners.add(listener);
  }

  close(): void {
    clearInterval(this.timer);
  }

  private load(): PlatformConfig {
    if (this.file === undefined) return parsePlatformConfig('');
    try {
      this.text = readFileSync(this.file, 'utf8');
    } catch (error) {
      throw new ConfigError([
        `YM_CONFIG: ${this.file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'error'})`,
      ]);
    }
    return parsePlatformConfig(this.text, this.file);
  }

  private reload(): void {
    const before = this.text;
    try {
      const config = this.load();
      this.broken = undefined;
      if (this.text === before) return;
      this.config = config;
      for (const warning of config.warnings) this.onProblem(warning);
      for (const listener of this.listeners) listener(config);
    } catch (error) {
      const { message } = error as Error;
      this.text = before;
      // Said once, not every second.
      if (message !== this.broken) this.onProblem(`the configuration stays as it was: ${message}`);
      this.broken = message;
    }
  }
}
