import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Inject,
  Injectable,
  Module,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { serveTools, type ToolServer } from '@yardmaster/executor-kit';
import { SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import type { ExecutorShellConfig } from './config.js';
import { startRunner, type LocalRunner } from './runner-client/start-runner.js';
import { shellTools } from './shell-tools.js';

/** Holds the NATS login and no shell; the runner that it starts has the shell and no login. */
@Injectable()
export class ShellExecutor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private runner: LocalRunner | undefined;
  private server: ToolServer | undefined;
  private folder: string | undefined;
  private stopping = false;

  constructor(@Inject(SERVICE) private readonly service: ServiceContext<ExecutorShellConfig>) {}

  async onApplicationBootstrap(): Promise<void> {
    const { bus, config, log, health } = this.service;
    this.folder = mkdtempSync(join(tmpdir(), 'ym-shell-'));
    const settings: Record<string, string> = {
      YM_EXECUTOR_SHELL_STATE_DIR: join(this.folder, 'state'),
      ...Object.fromEntries(
        Object.entries(process.env).filter(
          (entry): entry is [string, string] => entry[0].startsWith('YM_EXECUTOR_SHELL_') && entry[1] !== undefined,
        ),
      ),
      YM_EXECUTOR_SHELL_SOCKET: join(this.folder, 'runner.sock'),
      YM_WORKSPACES: config.workspaces,
    };
    this.runner = await startRunner(settings, { onLog: (line) => log.info({ runner: line }, 'runner') });
    const { status } = this.runner;
    log.info(
      { mode: status.mode, profile: status.profile_hash, probes: status.probes.length },
      'the sandbox proved its containment',
    );
    health.addReadiness('runner', async () =>
      (await this.runner?.client.status())?.ready ? undefined : 'the runner is not ready',
    );
    void this.runner.exited.then((code) => {
      if (this.stopping) return;
      log.fatal({ code }, 'the runner ended');
      process.kill(process.pid, 'SIGTERM');
    });
    this.server = await serveTools(
      { kind: 'shell', bus, slots: config.slots, ackWaitMs: config.ackWaitMs, log },
      shellTools(this.runner.client),
    );
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    await this.server?.stop();
    await this.runner?.stop();
    if (this.folder !== undefined) rmSync(this.folder, { recursive: true, force: true });
  }
}

@Module({ providers: [ShellExecutor] })
export class ExecutorShellModule {}
