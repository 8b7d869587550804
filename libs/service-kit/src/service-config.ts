import { IsIn, IsInt, IsOptional, IsString, Matches, Max, Min } from 'class-validator';
import { FromEnv } from './config.js';

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** The variables that every service has. Passwords come from files, so that none stands in a process listing. */
export class ServiceConfig {
  @FromEnv('YM_NATS_URL')
  @Matches(/^(nats|tls|ws|wss):\/\/[^/@\s]+$/, {
    message: 'it must be an address such as nats://127.0.0.1:4222, without user or password',
  })
  natsUrl: string = 'nats://127.0.0.1:4222';

  @FromEnv('YM_NATS_USER')
  @IsOptional()
  @IsString()
  natsUser: string | undefined = undefined;

  @FromEnv('YM_NATS_PASSWORD_FILE')
  @IsOptional()
  @IsString()
  natsPasswordFile: string | undefined = undefined;

  @FromEnv('YM_REDIS_URL')
  @Matches(/^rediss?:\/\/[^/@\s]+(\/\d+)?$/, {
    message: 'it must be an address such as redis://127.0.0.1:6379, without user or password',
  })
  redisUrl: string = 'redis://127.0.0.1:6379';

  @FromEnv('YM_REDIS_USER')
  @IsOptional()
  @IsString()
  redisUser: string | undefined = undefined;

  @FromEnv('YM_REDIS_PASSWORD_FILE')
  @IsOptional()
  @IsString()
  redisPasswordFile: string | undefined = undefined;

  @FromEnv('YM_LOG_LEVEL')
  @IsIn(LOG_LEVELS, { message: `it must be one of ${LOG_LEVELS.join(', ')}` })
  logLevel: string = 'info';

  /** Where /livez and /readyz listen; 0 takes a free port. */
  @FromEnv('YM_HEALTH_PORT')
  @IsInt({ message: 'it must be a port number, 0 to 65535' })
  @Min(0)
  @Max(65535)
  healthPort: number = 0;

  /** Where /metrics listens; 0 takes a free port. */
  @FromEnv('YM_METRICS_PORT')
  @IsInt({ message: 'it must be a port number, 0 to 65535' })
  @Min(0)
  @Max(65535)
  metricsPort: number = 0;

  @FromEnv('YM_HOST')
  @IsString()
  host: string = '127.0.0.1';

  /** How long running work may go on after SIGTERM, in milliseconds. */
  @FromEnv('YM_DRAIN_MS')
  @IsInt()
  @Min(0)
  @Max(3_600_000)
  drainMs: number = 60_000;

  /** Set by the local stack: the service ends when the process with this id is gone. */
  @FromEnv('YM_PARENT_PID', { type: Number })
  @IsOptional()
  @IsInt()
  parentPid: number | undefined = undefined;
}
