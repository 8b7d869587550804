import {
  Injectable,
  Module,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  Inject,
} from '@nestjs/common';
import { serveTools, type ToolServer } from '@yardmaster/executor-kit';
import { SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import type { ExecutorFilesConfig } from './config.js';
import { fileTools } from './file-tools.js';

@Injectable()
export class FileExecutor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private server: ToolServer | undefined;

  constructor(@Inject(SERVICE) private readonly service: ServiceContext<ExecutorFilesConfig>) {}

  async onApplicationBootstrap(): Promise<void> {
    const { bus, config, log } = this.service;
    this.server = await serveTools(
      { kind: config.kind, bus, slots: config.slots, ackWaitMs: config.ackWaitMs, log },
      fileTools(config.workspaces),
    );
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.server?.stop();
  }
}

@Module({ providers: [FileExecutor] })
export class ExecutorFilesModule {}
