import { IsIn, IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { RUNNER_VARIABLES } from './runner/config.js';
import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';

/** The shell executor's variables; those of its runner (`YM_EXECUTOR_SHELL_*`) are handed through to it. */
export class ExecutorShellConfig extends ServiceConfig {
  /** Root of all workspaces: `<root>/<tenant>/<workspace>`. */
  @FromEnv('YM_WORKSPACES')
  @IsString({ message: 'it must be the folder of the workspaces' })
  workspaces!: string;

  /** The queue that is served: another one for an isolation class of its own, such as `shell-gvisor`. */
  @FromEnv('YM_EXECUTOR_KIND')
  @Matches(/^[a-z0-9]+(-[a-z0-9]+)*$/, { message: 'it must be small letters, digits and single dashes' })
  kind: string = 'shell';

  /** Commands run at once. */
  @FromEnv('YM_EXECUTOR_SHELL_SLOTS')
  @IsInt()
  @Min(1)
  @Max(256)
  slots: number = 8;

  /** `local`: this process starts its runner. `external`: it runs already, behind YM_EXECUTOR_SHELL_SOCKET. */
  @FromEnv('YM_EXECUTOR_SHELL_RUNNER')
  @IsIn(['local', 'external'])
  runner: 'local' | 'external' = 'local';

  @FromEnv('YM_EXECUTOR_SHELL_ACK_WAIT_MS')
  @IsInt()
  @Min(500)
  @Max(600_000)
  ackWaitMs: number = 30_000;
}

/** The settings of the runner as this process was given them; nothing else of its environment reaches the runner. */
export function runnerSettings(): Record<string, string> {
  return Object.fromEntries(
    RUNNER_VARIABLES.flatMap((name) => {
      const value = process.env[name];
      return value === undefined || value === '' ? [] : [[name, value]];
    }),
  );
}
