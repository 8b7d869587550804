import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';
import { IsBoolean, IsInt, IsOptional, IsString, Max, Min } from 'class-validator';

/** The api's variables; the shared ones are in ServiceConfig. */
export class ApiConfig extends ServiceConfig {
  /** Where the HTTP API listens; 0 takes a free port. */
  @FromEnv('YM_API_PORT')
  @IsInt({ message: 'it must be a port number, 0 to 65535' })
  @Min(0)
  @Max(65535)
  port: number = 7070;

  /** Take a free port when the configured one is in use (local stacks). */
  @FromEnv('YM_API_PORT_FALLBACK')
  @IsBoolean({ message: 'it must be true or false' })
  portFallback: boolean = false;

  /** Names that callers may use in the Host header, comma-separated; loopback names always may. */
  @FromEnv('YM_API_HOSTS')
  @IsOptional()
  @IsString()
  hosts: string | undefined = undefined;

  /** Event streams that one tenant may have open at one replica. */
  @FromEnv('YM_API_STREAMS_PER_TENANT')
  @IsInt()
  @Min(1)
  @Max(1_000_000)
  streamsPerTenant: number = 2_000;

  @FromEnv('YM_API_MAX_BODY_BYTES')
  @IsInt()
  @Min(1024)
  @Max(20 * 1_048_576)
  maxBodyBytes: number = 1_048_576;

  /** Requests of one tenant a minute, in bursts of as many; 0: no limit. */
  @FromEnv('YM_API_REQUESTS_PER_MINUTE')
  @IsInt()
  @Min(0)
  @Max(10_000_000)
  requestsPerMinute: number = 0;

  /** Deadline of a question to another service. */
  @FromEnv('YM_API_RPC_TIMEOUT_MS')
  @IsInt()
  @Min(100)
  @Max(60_000)
  rpcTimeoutMs: number = 5_000;

  /** Deadline of one answer of a model on the OpenAI-compatible routes. */
  @FromEnv('YM_API_MODEL_TIMEOUT_MS')
  @IsInt()
  @Min(1000)
  @Max(3_600_000)
  modelTimeoutMs: number = 300_000;

  /** Silence on an event stream after which a comment is sent, so that proxies keep it open. */
  @FromEnv('YM_API_SSE_KEEPALIVE_MS')
  @IsInt()
  @Min(100)
  @Max(300_000)
  sseKeepAliveMs: number = 15_000;

  /** Bytes that a reader of an event stream may be behind before it loses text deltas. */
  @FromEnv('YM_API_SSE_BUFFER_BYTES')
  @IsInt()
  @Min(4096)
  @Max(64 * 1_048_576)
  sseBufferBytes: number = 262_144;

  /** How long a reader may stand still before its connection is closed. */
  @FromEnv('YM_API_SSE_STALLED_MS')
  @IsInt()
  @Min(100)
  @Max(3_600_000)
  sseStalledMs: number = 30_000;

  /** The YAML file with providers, routing and agents. */
  @FromEnv('YM_CONFIG')
  @IsOptional()
  @IsString()
  platformConfig: string | undefined = undefined;
}
