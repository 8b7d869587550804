import { IsInt, IsString, Max, Min } from 'class-validator';
import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';

/** The shell executor's variables; those of its runner (`YM_EXECUTOR_SHELL_*`) are handed through to it. */
export class ExecutorShellConfig extends ServiceConfig {
  /** Root of all workspaces: `<root>/<tenant>/<workspace>`. */
  @FromEnv('YM_WORKSPACES')
  @IsString({ message: 'it must be the folder of the workspaces' })
  workspaces!: string;

  /** Commands run at once. */
  @FromEnv('YM_EXECUTOR_SHELL_SLOTS')
  @IsInt()
  @Min(1)
  @Max(256)
  slots: number = 8;

  @FromEnv('YM_EXECUTOR_SHELL_ACK_WAIT_MS')
  @IsInt()
  @Min(500)
  @Max(600_000)
  ackWaitMs: number = 30_000;
}
