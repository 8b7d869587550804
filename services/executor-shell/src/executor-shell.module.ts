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
import { BUILT_IN_TOOLS, YardError } from '@yardmaster/contracts';
import { defineTool, serveTools, type Tool, type ToolOutcome, type ToolServer } from '@yardmaster/executor-kit';
import { SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import type { ExecutorShellConfig } from './config.js';
import { startRunner, type LocalRunner } from './runner-client/start-runner.js';
import { runShell, type ShellJobArguments, shellJob, type ShellRunArguments } from './shell-tools.js';
import type { RunnerClient } from './runner-client/runner-client.js';

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

/** The registered definitions, run by a runner. */
function shellTools(runner: RunnerClient): Tool[] {
  const definitionOf = (name: string) => {
    const tool = BUILT_IN_TOOLS.find((candidate) => candidate.name === name)!;
    return {
      name,
      description: tool.description,
      effect: tool.effect,
      timeoutMs: tool.timeoutMs,
      input: tool.parameters,
    };
  };
  return [
    defineTool<ShellRunArguments>({
      ...definitionOf('shell_run'),
      run: (args, { tenant, workspace, runId, callId, timeoutMs, signal, output }) =>
        refusals(() =>
          runShell(runner, args, { tenant, workspace, timeoutMs, signal, id: `${runId}.${callId}`, onOutput: output }),
        ),
    }),
    defineTool<ShellJobArguments>({
      ...definitionOf('shell_job'),
      run: (args, { tenant }) => refusals(() => shellJob(runner, args, { tenant })),
    }),
  ];
}

/** What the runner refuses is an answer for the model; only what is our fault is an error. */
async function refusals(work: () => Promise<ToolOutcome>): Promise<ToolOutcome> {
  try {
    return await work();
  } catch (error) {
    if (YardError.is(error) && (error.class === 'INVALID' || error.class === 'NOT_FOUND'))
      return { ok: false, output: error.message, reason: error.code };
    throw error;
  }
}
