import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';
import { IsIn, IsInt, IsOptional, IsString, Max, Min } from 'class-validator';

/** The registry's variables; the shared ones are in ServiceConfig. */
export class RegistryConfig extends ServiceConfig {
  /** The YAML file with the MCP servers. */
  @FromEnv('YM_CONFIG')
  @IsOptional()
  @IsString()
  platformConfig: string | undefined = undefined;

  /** Files with tenants' credentials for MCP servers, `<tenant>.<name>`: a mounted Secret. */
  @FromEnv('YM_REGISTRY_MCP_CREDENTIALS')
  @IsOptional()
  @IsString()
  mcpCredentials: string | undefined = undefined;

  /** `required`: an MCP server over stdio runs in a sandbox or not at all; `off`: with the rights of this process. */
  @FromEnv('YM_REGISTRY_MCP_SANDBOX')
  @IsIn(['required', 'off'])
  mcpSandbox: 'required' | 'off' = 'required';

  /** Path of bubblewrap. */
  @FromEnv('YM_REGISTRY_BWRAP')
  @IsString()
  bwrap: string = 'bwrap';

  /** A tenant's session with an MCP server ends when it has not been used for so long. */
  @FromEnv('YM_REGISTRY_MCP_IDLE_MS')
  @IsInt()
  @Min(1_000)
  @Max(86_400_000)
  mcpIdleMs: number = 300_000;

  /** Tools of MCP servers that announce no changes are listed again so often; a server may ask for less or more. */
  @FromEnv('YM_REGISTRY_MCP_RELIST_MS')
  @IsInt()
  @Min(1_000)
  @Max(86_400_000)
  mcpRelistMs: number = 600_000;

  /** Calls of MCP tools at once. */
  @FromEnv('YM_REGISTRY_MCP_SLOTS')
  @IsInt()
  @Min(1)
  @Max(1000)
  mcpSlots: number = 16;

  /** The ack wait of the queue of MCP calls, as the topology was set up. */
  @FromEnv('YM_REGISTRY_MCP_ACK_WAIT_MS')
  @IsInt()
  @Min(500)
  @Max(600_000)
  mcpAckWaitMs: number = 30_000;
}

/** Where references to secrets by variable (`token_env`, `credentials.<tenant>.env`) are looked up. */
export const environment = (): NodeJS.ProcessEnv => process.env;
