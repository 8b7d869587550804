import { IsInt, IsOptional, IsString, Max, Min } from 'class-validator';
import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';

/** The dispatcher's variables; the shared ones are in ServiceConfig. */
export class DispatcherConfig extends ServiceConfig {
  /** Runs that this process works on at once. */
  @FromEnv('YM_DISPATCHER_SLOTS')
  @IsInt()
  @Min(1)
  @Max(1000)
  slots: number = 64;

  /** How long a conversation stays ours without a sign of life. */
  @FromEnv('YM_DISPATCHER_LEASE_MS')
  @IsInt()
  @Min(1000)
  @Max(600_000)
  leaseMs: number = 30_000;

  /** How long NATS waits for a sign of life before it delivers a run again; equal to the consumer's ack wait. */
  @FromEnv('YM_DISPATCHER_ACK_WAIT_MS')
  @IsInt()
  @Min(500)
  @Max(600_000)
  ackWaitMs: number = 30_000;

  /** Deliveries without progress after which a run is given up. */
  @FromEnv('YM_DISPATCHER_MAX_ATTEMPTS')
  @IsInt()
  @Min(1)
  @Max(100)
  maxAttempts: number = 4;

  /** Calls of one round that may run at the same time. */
  @FromEnv('YM_DISPATCHER_PARALLEL_CALLS')
  @IsInt()
  @Min(1)
  @Max(64)
  parallelCalls: number = 8;

  @FromEnv('YM_DISPATCHER_MAX_ITERATIONS')
  @IsInt()
  @Min(1)
  @Max(10_000)
  maxIterations: number = 50;

  @FromEnv('YM_DISPATCHER_RUN_TIMEOUT_MS')
  @IsInt()
  @Min(1000)
  @Max(86_400_000)
  runTimeoutMs: number = 3_600_000;

  /** Deadline of one answer of a model, whatever the router tries within it. */
  @FromEnv('YM_DISPATCHER_MODEL_TIMEOUT_MS')
  @IsInt()
  @Min(1000)
  @Max(3_600_000)
  modelTimeoutMs: number = 300_000;

  /** Identical calls in a row after which a run ends with a reason. */
  @FromEnv('YM_DISPATCHER_MAX_REPEATS')
  @IsInt()
  @Min(2)
  @Max(1000)
  maxRepeats: number = 5;

  /** How long a call that needs a person's approval waits for one. */
  @FromEnv('YM_DISPATCHER_APPROVAL_TIMEOUT_MS')
  @IsInt()
  @Min(1000)
  @Max(30 * 86_400_000)
  approvalTimeoutMs: number = 86_400_000;

  /** How often the leader looks for due timers, waiting runs and orphans. */
  @FromEnv('YM_DISPATCHER_SWEEP_MS')
  @IsInt()
  @Min(100)
  @Max(600_000)
  sweepMs: number = 1_000;

  /** How often the leader clears the queues of messages that were done already. */
  @FromEnv('YM_DISPATCHER_JANITOR_MS')
  @IsInt()
  @Min(100)
  @Max(3_600_000)
  janitorMs: number = 10_000;

  /** The YAML file with providers, routing and agents. */
  @FromEnv('YM_CONFIG')
  @IsOptional()
  @IsString()
  platformConfig: string | undefined = undefined;
}
