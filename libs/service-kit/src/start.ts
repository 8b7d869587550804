import 'reflect-metadata';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type DynamicModule, type INestApplicationContext, Module, type Type } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { Bus } from '@yardmaster/bus';
import { BusServer, RethrowFilter } from '@yardmaster/bus/nest';
import { ConfigError, loadConfigOrExit } from './config.js';
import { Health } from './health.js';
import { createLogger, type Logger, NestLogger } from './logging.js';
import type { ServiceConfig } from './service-config.js';
import { BUS, HEALTH, LOGGER, SERVICE, type ServiceContext } from './tokens.js';

export interface ServiceStart<C extends ServiceConfig> {
  /** The service's name: its NATS login (unless YM_NATS_USER says otherwise), its queue group, its log lines. */
  name: string;
  config: new () => C;
  module: Type | ((context: ServiceContext<C>) => Type | DynamicModule);
  /** For services with an HTTP API of their own: makes the application instead of the plain message-driven one. */
  createApplication?: (
    module: DynamicModule,
    context: ServiceContext<C>,
  ) => Promise<{ app: INestApplicationContext; listening: Record<string, unknown> }>;
}

/** Extra time after the drain until a process that still hangs is ended. */
const HANG_MS = 5_000;
const PARENT_LOOK_MS = 1_000;

@Module({})
class ServiceRoot {}

/**
 * Starts a service: configuration, log, health, bus, Nest; prints one `ready` line with its ports; on SIGTERM or SIGINT
 * stops taking work, waits for what runs, closes and exits with 0.
 */
export async function startService<C extends ServiceConfig>(start: ServiceStart<C>): Promise<void> {
  const config = loadConfigOrExit(start.config);
  const log = createLogger(start.name, config.logLevel);
  const startedAt = performance.now();
  try {
    await run(start, config, log, startedAt);
  } catch (error) {
    if (error instanceof ConfigError) {
      for (const mistake of error.mistakes) process.stderr.write(`configuration: ${mistake}\n`);
      process.exit(78);
    }
    log.fatal({ err: error }, 'the service cannot start');
    // A log line that is still in the pipe would be lost with the process.
    setTimeout(() => process.exit(1), 50);
  }
}

async function run<C extends ServiceConfig>(
  start: ServiceStart<C>,
  config: C,
  log: Logger,
  startedAt: number,
): Promise<void> {
  const health = new Health(start.name);
  const closers: (() => Promise<void> | void)[] = [];
  let app: INestApplicationContext | undefined;
  let stopping: Promise<void> | undefined;
  // Nothing to close while the connection is still being tried, which may take as long as NATS is away.
  let closeBus = async () => {};

  // Handlers first: a signal during the start must not end the process half-way.
  const stop = (why: string) => (stopping ??= shutDown(why));
  process.on('SIGTERM', () => void stop('SIGTERM'));
  process.on('SIGINT', () => void stop('SIGINT'));
  process.on('unhandledRejection', (error) => log.error({ err: error }, 'a rejection was not handled'));

  const bus = await Bus.connect({
    url: config.natsUrl,
    user: config.natsUser ?? start.name,
    pass: passwordIn(config.natsPasswordFile, 'YM_NATS_PASSWORD_FILE'),
    log,
  });
  closeBus = () => bus.close();
  health.addReadiness('nats', () =>
    bus.status() === 'connected' ? undefined : `the connection to NATS is ${bus.status()}`,
  );
  health.addLiveness('nats', () => (bus.isClosed() ? 'the connection to NATS is closed for good' : undefined));

  const context: ServiceContext<C> = {
    name: start.name,
    instance: `${hostname()}.${process.pid}.${randomBytes(4).toString('hex')}`,
    config,
    log,
    health,
    bus,
    onClose: (close) => closers.push(close),
  };

  async function shutDown(why: string): Promise<void> {
    log.info({ why }, 'shutting down');
    health.drain();
    const hang = setTimeout(() => {
      log.error('the shutdown took too long');
      process.exit(1);
    }, config.drainMs + HANG_MS);
    hang.unref();
    try {
      await app?.close();
      for (const close of closers.reverse()) await close();
      await closeBus();
      await health.close();
      log.info('stopped');
      process.exit(0);
    } catch (error) {
      log.error({ err: error }, 'the shutdown failed');
      process.exit(1);
    }
  }

  const moduleOf = isModule(start.module) ? start.module : start.module(context);
  const root: DynamicModule = {
    module: ServiceRoot,
    global: true,
    imports: [moduleOf],
    providers: [
      { provide: BUS, useValue: bus },
      { provide: LOGGER, useValue: log },
      { provide: HEALTH, useValue: health },
      { provide: SERVICE, useValue: context },
      { provide: APP_FILTER, useClass: RethrowFilter },
    ],
    exports: [BUS, LOGGER, HEALTH, SERVICE],
  };
  const options = { logger: new NestLogger(log), abortOnError: false } as const;
  let listening: Record<string, unknown> = {};
  if (start.createApplication !== undefined) {
    const made = await start.createApplication(root, context);
    listening = made.listening;
    app = made.app;
  } else {
    const service = await NestFactory.createMicroservice(root, { ...options, strategy: new BusServer(bus) });
    app = service;
    await service.listen();
  }
  const ports = await health.listen(config.host, config.healthPort, config.metricsPort);
  if (config.parentPid !== undefined) watchParent(config.parentPid, () => void stop('the parent process is gone'));
  collectGarbage();
  // Whoever started this process waits for this line, whatever the level of the log.
  log.child({}, { level: 'info' }).info(
    {
      ...ports,
      ...listening,
      pid: process.pid,
      node: process.versions.node,
      ready_ms: Math.round(performance.now() - startedAt),
    },
    'ready',
  );
}

/** What the start leaves behind is a third of an idle service's memory; given back once, before there is work. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as (options?: { type: 'major'; flavor: 'last-resort' }) => void;
  gc({ type: 'major', flavor: 'last-resort' });
}

function isModule<C extends ServiceConfig>(module: ServiceStart<C>['module']): module is Type {
  return (
    Reflect.hasMetadata('imports', module) ||
    Reflect.hasMetadata('providers', module) ||
    Reflect.hasMetadata('controllers', module)
  );
}

function passwordIn(file: string | undefined, variable: string): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new ConfigError([
      `${variable}: the file cannot be read (${(error as NodeJS.ErrnoException).code ?? 'error'})`,
    ]);
  }
}

/** Where Redis is, and as whom, in the form that `@yardmaster/conversation` takes. */
export function connectionOf(config: ServiceConfig): { url: string; username?: string; password?: string } {
  const password = passwordIn(config.redisPasswordFile, 'YM_REDIS_PASSWORD_FILE');
  return {
    url: config.redisUrl,
    ...(config.redisUser === undefined ? {} : { username: config.redisUser }),
    ...(password === undefined ? {} : { password }),
  };
}

function watchParent(pid: number, gone: () => void): void {
  const timer = setInterval(() => {
    try {
      process.kill(pid, 0);
    } catch (error) {
      // One of another user is there, and may not be signalled.
      if ((error as NodeJS.ErrnoException).code === 'EPERM') return;
      clearInterval(timer);
      gone();
    }
  }, PARENT_LOOK_MS);
  timer.unref();
}
