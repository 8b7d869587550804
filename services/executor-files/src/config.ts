import { IsBoolean, IsInt, IsString, Matches, Max, Min } from 'class-validator';
import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';

const GIB = 1024 ** 3;

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

  /** Largest file that is read or searched. */
  @FromEnv('YM_EXECUTOR_FILES_MAX_READ_BYTES')
  @IsInt()
  @Min(1)
  @Max(100_000_000)
  maxReadBytes: number = 10_000_000;

  /** Largest content that is written whole. */
  @FromEnv('YM_EXECUTOR_FILES_MAX_WRITE_BYTES')
  @IsInt()
  @Min(1)
  @Max(100_000_000)
  maxWriteBytes: number = 10_000_000;

  /** Largest file that is edited, before and after. */
  @FromEnv('YM_EXECUTOR_FILES_MAX_EDIT_BYTES')
  @IsInt()
  @Min(1)
  @Max(50_000_000)
  maxEditBytes: number = 5_000_000;

  /** What all workspaces of one tenant may hold together; 0: no limit. */
  @FromEnv('YM_EXECUTOR_FILES_QUOTA_BYTES')
  @IsInt()
  @Min(0)
  @Max(1_000_000 * GIB)
  quotaBytes: number = 10 * GIB;

  /** Files, folders and links of one tenant; 0: no limit. */
  @FromEnv('YM_EXECUTOR_FILES_QUOTA_FILES')
  @IsInt()
  @Min(0)
  @Max(1_000_000_000)
  quotaFiles: number = 500_000;

  /** Calls remembered for each workspace, so that one that is delivered again is not done again. */
  @FromEnv('YM_EXECUTOR_FILES_JOURNAL_CALLS')
  @IsInt()
  @Min(10)
  @Max(100_000)
  journalCalls: number = 1_000;

  /** Lines that one search shows. */
  @FromEnv('YM_EXECUTOR_FILES_SEARCH_HITS')
  @IsInt()
  @Min(1)
  @Max(2_000)
  searchHits: number = 300;

  /** The ripgrep program; `off`: never look for it. Without one our own code searches. */
  @FromEnv('YM_EXECUTOR_FILES_RIPGREP')
  @Matches(/^(off|rg|\/.+)$/, { message: 'it must be off, rg or an absolute path' })
  ripgrep: string = 'rg';

  /** Refuse an approximate edit after which the file has more syntax errors than before. */
  @FromEnv('YM_EXECUTOR_FILES_SYNTAX_GATE')
  @IsBoolean({ message: 'it must be true or false' })
  syntaxGate: boolean = false;
}
