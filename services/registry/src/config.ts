import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';
import { IsInt, IsOptional, IsString, Max, Min } from 'class-validator';

/** The registry's variables; the shared ones are in ServiceConfig. */
export class RegistryConfig extends ServiceConfig {
  /** The YAML file with the MCP servers. */
  @FromEnv('YM_CONFIG')
  @IsOptional()
  @IsString()
  platformConfig: string | undefined = undefined;

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
