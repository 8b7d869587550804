import { IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';

/** The file executor's variables; the shared ones are in ServiceConfig. */
export class ExecutorFilesConfig extends ServiceConfig {
  /** Root of all workspaces: `<root>/<tenant>/<workspace>`. */
  @FromEnv('YM_WORKSPACES')
  @IsString({ message: 'it must be the folder of the workspaces' })
  workspaces!: string;

  /** The queue that is served: another one for an isolation class of its own, such as `files-gvisor`. */
  @FromEnv('YM_EXECUTOR_KIND')
  @Matches(/^[a-z0-9]+(-[a-z0-9]+)*$/, { message: 'it must be small letters, digits and single dashes' })
  kind: string = 'files';

  /** Calls run at once. */
  @FromEnv('YM_EXECUTOR_FILES_SLOTS')
  @IsInt()
  @Min(1)
  @Max(256)
  slots: number = 16;

  @FromEnv('YM_EXECUTOR_FILES_ACK_WAIT_MS')
  @IsInt()
  @Min(500)
  @Max(600_000)
  ackWaitMs: number = 30_000;
}
