import { IsInt, IsOptional, IsString, Max, Min } from 'class-validator';
import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';

/** The router's variables; the shared ones are in ServiceConfig. */
export class RouterConfig extends ServiceConfig {
  /** The YAML file with providers, routing and agents. */
  @FromEnv('YM_CONFIG')
  @IsOptional()
  @IsString()
  platformConfig: string | undefined = undefined;

  /** Text pieces of an answer are joined for this long before they are sent on, in milliseconds; 0 sends each at once. */
  @FromEnv('YM_ROUTER_COALESCE_MS')
  @IsInt()
  @Min(0)
  @Max(1000)
  coalesceMs: number = 25;

  /** Rendered histories that are kept, so that a turn costs only what is new. */
  @FromEnv('YM_ROUTER_PREFIX_CACHE')
  @IsInt()
  @Min(0)
  @Max(1_000_000)
  prefixCache: number = 2_000;

  /** Newest items of a conversation that are sent at the most. */
  @FromEnv('YM_ROUTER_WINDOW_ITEMS')
  @IsInt()
  @Min(1)
  @Max(100_000)
  windowItems: number = 1_000;

  /** Connections to one provider address. */
  @FromEnv('YM_ROUTER_CONNECTIONS')
  @IsInt()
  @Min(1)
  @Max(10_000)
  connections: number = 256;
}
