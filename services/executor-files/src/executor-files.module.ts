import { access, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  Injectable,
  Module,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  Inject,
} from '@nestjs/common';
import { serveTools, type ToolServer } from '@yardmaster/executor-kit';
import { ConfigError, runningCallsMetrics, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import type { ExecutorFilesConfig } from './config.js';
import { ContentThreads } from './content/content-threads.js';
import { embedBy } from './embed.js';
import { fileTools } from './file-tools.js';
import { ripgrepVersion } from './search/ripgrep-matcher.js';
import type { Embed, FileServices } from './services.js';
import { CallJournal } from './storage/call-journal.js';
import { Locks } from './storage/locks.js';
import { Quotas } from './storage/quotas.js';

/** Beside the tenants, whose names begin with no dot: no workspace and no sandbox reaches it, all executors share it. */
const JOURNAL = '.executor-files/journal';

@Injectable()
export class FileExecutor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private server: ToolServer | undefined;
  private content: ContentThreads | undefined;

  constructor(@Inject(SERVICE) private readonly service: ServiceContext<ExecutorFilesConfig>) {}

  async onApplicationBootstrap(): Promise<void> {
    const { bus, config, health, log } = this.service;
    const version = config.ripgrep === 'off' ? undefined : await ripgrepVersion(config.ripgrep);
    log.info(
      { ripgrep: version ?? 'none' },
      version === undefined ? 'own code searches files' : 'ripgrep searches files',
    );
    await prepareJournal(config.workspaces);
    this.content = new ContentThreads({ heapMb: heapMbFor(config) });
    this.server = await serveTools(
      { kind: config.kind, bus, slots: config.slots, ackWaitMs: config.ackWaitMs, log },
      fileTools(fileServices(config, this.content, version === undefined ? undefined : config.ripgrep, embedBy(bus))),
    );
    const { server } = this;
    runningCallsMetrics(health, () => server.counts);
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.server?.stop();
    await this.content?.close();
  }
}

/** Makes the journal's folder. Throws ConfigError when the workspaces cannot be used. */
export async function prepareJournal(workspaces: string): Promise<void> {
  try {
    // A root that is not there is a mistake, not something to make.
    await access(workspaces);
    await mkdir(join(workspaces, JOURNAL), { recursive: true, mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError([`YM_WORKSPACES: the folder must exist and be writable (${code ?? 'error'})`]);
  }
}

/** Memory of one thread in MB: the largest file with all that an edit keeps of it, and a base for the rest. */
function heapMbFor({ maxEditBytes, maxReadBytes, maxWriteBytes }: ExecutorFilesConfig): number {
  return 256 + Math.ceil((16 * maxEditBytes + 4 * Math.max(maxReadBytes, maxWriteBytes)) / 1e6);
}

/** What the tools work with, as configured. */
export function fileServices(
  config: ExecutorFilesConfig,
  content: ContentThreads,
  ripgrep: string | undefined,
  embed: Embed | undefined,
): FileServices {
  return {
    root: config.workspaces,
    limits: {
      readBytes: config.maxReadBytes,
      writeBytes: config.maxWriteBytes,
      editBytes: config.maxEditBytes,
      searchHits: config.searchHits,
    },
    locks: new Locks(),
    quotas: new Quotas(config.workspaces, { bytes: config.quotaBytes, files: config.quotaFiles }),
    journal: new CallJournal(join(config.workspaces, JOURNAL), config.journalCalls),
    content,
    embed,
    ripgrep,
    syntaxGate: config.syntaxGate,
  };
}

@Module({ providers: [FileExecutor] })
export class ExecutorFilesModule {}
