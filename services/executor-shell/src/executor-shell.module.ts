import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Inject,
  Injectable,
  Module,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { BUILT_IN_TOOLS, YardError } from '@yardmaster/contracts';
import { defineTool, serveTools, type Tool, type ToolOutcome, type ToolServer } from '@yardmaster/executor-kit';
import { runningCallsMetrics, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { type ExecutorShellConfig, runnerSettings } from './config.js';
import { readInstallPolicy } from './runner/install/install-stage.js';
import { RegistryProxy } from './registry-proxy/registry-proxy.js';
import { inheritJobs, leaveOwnFolder, makeOwnFolder } from './runner-client/own-folder.js';
import { connectRunner, startRunner, type LocalRunner } from './runner-client/start-runner.js';
import type { RunnerStatus } from './runner-protocol.js';
import { runShell, type ShellJobArguments, shellJob, type ShellRunArguments } from './shell-tools.js';
import type { RunnerClient } from './runner-client/runner-client.js';

/** A runner that ends is started again after so long; one that ends so often in a row is given up. */
const RESTART_MS = 500;
const MOST_RESTARTS = 5;
const CALM_MS = 60_000;

/** Holds the NATS login and no shell; the runner that it starts has the shell and no login. */
@Injectable()
export class ShellExecutor implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private runner: LocalRunner | undefined;
  private server: ToolServer | undefined;
  private proxy: RegistryProxy | undefined;
  private folder: string | undefined;
  /** Where a runner of ours keeps the records of its background jobs. */
  private jobsDir: string | undefined;
  private stopping = false;
  private restarts = 0;

  constructor(@Inject(SERVICE) private readonly service: ServiceContext<ExecutorShellConfig>) {}

  async onApplicationBootstrap(): Promise<void> {
    const { bus, config, log, health } = this.service;
    const client = config.runner === 'external' ? await this.findRunner() : await this.bringUpRunner();
    health.addReadiness('runner', async () => ((await client.status()).ready ? undefined : 'the runner is not ready'));
    this.server = await serveTools(
      { kind: config.kind, bus, slots: config.slots, ackWaitMs: config.ackWaitMs, log },
      shellTools(
        client,
        async () => this.jobsDir !== undefined && (await inheritJobs(this.jobsDir, { wait: true })) > 0,
      ),
    );
    const { server } = this;
    runningCallsMetrics(health, () => server.counts);
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    await this.server?.stop();
    await this.runner?.stop();
    await this.proxy?.close();
    if (this.folder !== undefined) leaveOwnFolder(this.folder);
  }

  private async findRunner(): Promise<RunnerClient> {
    const socket = runnerSettings()['YM_EXECUTOR_SHELL_SOCKET'];
    if (socket === undefined)
      throw new YardError(
        'INVALID',
        'YM-SHELL-CONFIG',
        'YM_EXECUTOR_SHELL_SOCKET must name the socket of the external runner.',
      );
    await this.openProxy(runnerSettings());
    const { client, status } = await connectRunner(socket);
    this.tell(status);
    return client;
  }

  private async bringUpRunner(): Promise<RunnerClient> {
    this.folder = makeOwnFolder();
    const given = runnerSettings();
    const stateDir = given['YM_EXECUTOR_SHELL_STATE_DIR'] ?? join(this.folder, 'state');
    this.jobsDir = join(stateDir, 'jobs');
    await inheritJobs(this.jobsDir);
    const settings: Record<string, string> = {
      ...given,
      YM_EXECUTOR_SHELL_STATE_DIR: stateDir,
      YM_EXECUTOR_SHELL_SOCKET: join(this.folder, 'runner.sock'),
      YM_WORKSPACES: this.service.config.workspaces,
    };
    settings['YM_EXECUTOR_SHELL_INSTALL_PROXY_SOCKET'] = join(this.folder, 'registry.sock');
    await this.openProxy(settings);
    await this.startRunner(settings);
    return this.runner!.client;
  }

  /** The way to the package registries, on a socket that the runner sees too: the runner has no network of its own. */
  private async openProxy(settings: Record<string, string>): Promise<void> {
    const policy = settings['YM_EXECUTOR_SHELL_INSTALL_POLICY_FILE'];
    const path = settings['YM_EXECUTOR_SHELL_INSTALL_PROXY_SOCKET'];
    if (settings['YM_EXECUTOR_SHELL_INSTALL'] !== 'true' || policy === undefined || path === undefined) return;
    this.proxy = new RegistryProxy(path, Object.values(readInstallPolicy(policy).registries));
    await this.proxy.listen();
  }

  /** Commands that a dying runner takes along end as interrupted; the next runner listens on the same socket. */
  private async startRunner(settings: Record<string, string>): Promise<void> {
    const { log } = this.service;
    const runner = await startRunner(settings, { onLog: (line) => log.info({ runner: line }, 'runner') });
    const startedAt = Date.now();
    this.runner = runner;
    this.tell(runner.status);
    void runner.exited.then(async (code) => {
      if (this.stopping) return;
      this.restarts = Date.now() - startedAt > CALM_MS ? 1 : this.restarts + 1;
      log.error({ code, restarts: this.restarts }, 'the runner ended');
      try {
        if (this.restarts > MOST_RESTARTS) throw new Error('it ended too often');
        await sleep(RESTART_MS);
        // It may have been told to end meanwhile.
        if (!this.stopping) await this.startRunner(settings);
      } catch (error) {
        log.fatal({ err: error }, 'the runner cannot be started again');
        process.kill(process.pid, 'SIGTERM');
      }
    });
  }

  private tell({ mode, profile_hash: profile, probes }: RunnerStatus): void {
    this.service.log.info({ mode, profile, probes: probes.length }, 'the sandbox proved its containment');
  }
}

@Module({ providers: [ShellExecutor] })
export class ExecutorShellModule {}

/** The registered definitions, run by a runner; `inherit` looks for jobs of executors that are gone. */
function shellTools(runner: RunnerClient, inherit: () => Promise<boolean>): Tool[] {
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
      run: (args, { tenant }) =>
        refusals(async () => {
          const ask = () => shellJob(runner, args, { tenant });
          try {
            return await ask();
          } catch (error) {
            if (!YardError.is(error) || error.code !== 'YM-SHELL-NO-JOB' || !(await inherit())) throw error;
            return ask();
          }
        }),
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
    if (YardError.is(error) && error.code === 'YM-SHELL-INTERRUPTED')
      return { ok: false, output: error.message, reason: 'interrupted', outcomeUnknown: true };
    throw error;
  }
}
