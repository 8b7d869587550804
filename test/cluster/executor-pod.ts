// What runs in an executor's pod in scaling.spec.ts: the executor kit with one tool, whose calls last until the test ends
// them. HOLD_FOLDER: where calls say who runs them, and where the test says which may end. HOLD_POD: this pod's name.
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DynamicModule } from '@nestjs/common';
import { defineTool, serveTools, type ToolServer } from '@yardmaster/executor-kit';
import { runningCallsMetrics, ServiceConfig, type ServiceContext, startService } from '@yardmaster/service-kit';

const folder = process.env['HOLD_FOLDER']!;
const pod = process.env['HOLD_POD']!;
const note = (id: string, event: string) =>
  appendFileSync(join(folder, 'calls.jsonl'), `${JSON.stringify({ id, pod, event })}\n`);

const hold = defineTool<{ id: string }>({
  name: 'hold',
  description: 'Lasts until the file of its id is there.',
  effect: 'unsafe',
  input: { type: 'object' },
  async run({ id }, { signal }) {
    note(id, 'begin');
    while (!existsSync(join(folder, id))) await sleep(50, undefined, { signal });
    note(id, 'end');
    return id;
  },
});

class Executor {
  private server: ToolServer | undefined;

  private readonly service: ServiceContext<ServiceConfig>;

  constructor(service: ServiceContext<ServiceConfig>) {
    this.service = service;
  }

  async onApplicationBootstrap(): Promise<void> {
    const { bus, health, log } = this.service;
    const slots = Number(process.env['YM_EXECUTOR_SLOTS']);
    const server = (this.server = await serveTools({ kind: 'shell', bus, slots, log }, [hold]));
    runningCallsMetrics(health, () => server.counts);
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.server?.stop();
  }
}

const moduleOf = (service: ServiceContext<ServiceConfig>): DynamicModule => ({
  module: class HoldModule {},
  providers: [{ provide: Executor, useFactory: () => new Executor(service) }],
});

await startService({ name: 'executor-shell', config: ServiceConfig, module: moduleOf });
