import { Controller, Module, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { MicroserviceOptions } from '@nestjs/microservices';
import {
  type GetToolRequest,
  newId,
  Registry,
  Router,
  RunEventSchema,
  type RunMessage,
  RunMessageSchema,
  Runs,
  subjects,
  tenantId,
  YardError,
} from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Bus, ensureTopology, type ServeContext, type StreamContext, type WorkContext } from '../index.js';
import { BusServer, Hears, Serves, Works } from './index.js';

const TENANT = tenantId('acme');
const worked: string[] = [];
const heard: string[] = [];

@Controller()
class Handlers {
  @Serves(Registry.get)
  get({ name }: GetToolRequest, { tenant }: ServeContext) {
    if (name === 'secret') throw new YardError('DENIED', 'YM-TEST', 'Not for you.', { details: { name } });
    return Promise.resolve({ name, tenant });
  }
  @Serves(Registry.delete)
  delete() {
    return {};
  }
  @Serves(Router.chat)
  async chat(_: unknown, context: StreamContext<typeof Router.chat.frame>) {
    context.send({ kind: { case: 'delta', value: 'a' } });
    await Promise.resolve();
    throw new YardError('EXHAUSTED', 'YM-TEST', 'No more.');
  }
  @Works(Runs.work, { slots: 2 })
  work({ runId }: RunMessage, { deliveryCount }: WorkContext) {
    if (deliveryCount === 1) throw new YardError('UNAVAILABLE', 'YM-TEST', 'Later.');
    worked.push(runId);
  }
  @Hears('ym.evt.>', RunEventSchema)
  hear({ runId }: { runId: string }) {
    heard.push(`1 ${runId}`);
  }
  @Hears('ym.evt.>', RunEventSchema)
  hearToo({ runId }: { runId: string }) {
    heard.push(`2 ${runId}`);
  }
}
@Module({ controllers: [Handlers] })
class App {}
@Controller()
class Twice {
  @Serves(Registry.delete)
  delete() {
    return {};
  }
}
@Module({ controllers: [Handlers, Twice] })
class Broken {}

let servers: Servers;
let bus: Bus;
let app: Awaited<ReturnType<typeof start>>;
const start = (module: Type) =>
  NestFactory.createMicroservice<MicroserviceOptions>(module, {
    strategy: new BusServer(bus, { work: { [Runs.work.stream]: { backoffMs: { base: 10, cap: 10 } } } }),
    logger: false,
    abortOnError: false,
  });

beforeAll(async () => {
  servers = await startServers();
  bus = await Bus.connect({ url: servers.natsUrl, user: 'registry' });
  await ensureTopology(bus, { kinds: [] });
  app = await start(App);
  await app.listen();
});
afterAll(async () => {
  await app.close();
  await bus.close();
  await servers.stop();
});

it('handlers are ordinary Nest message handlers, and their errors cross the bus as they are', async () => {
  const ask = (name: string) => bus.request(Registry.get, TENANT, { name }, { timeoutMs: 1000 });
  expect(await ask('x')).toMatchObject({ name: 'x', tenant: 'acme' });
  await expect(ask('secret')).rejects.toMatchObject({
    class: 'DENIED',
    code: 'YM-TEST',
    message: 'Not for you.',
    details: { name: 'secret' },
  });
});

it('an answer of zero bytes is an answer', async () => {
  expect((await bus.request(Registry.delete, TENANT, {}, { timeoutMs: 1000 })).$typeName).toBe(
    'yardmaster.common.v1.Empty',
  );
});

it('a streamed answer sends its frames and then its error', async () => {
  const seen: unknown[] = [];
  const read = async () => {
    for await (const { kind } of bus.stream(Router.chat, TENANT, {}, { requestId: 'r', timeoutMs: 1000 }))
      seen.push(kind.value);
  };
  await expect(read()).rejects.toMatchObject({ class: 'EXHAUSTED', message: 'No more.' });
  expect(seen).toEqual(['a']);
});

it('a work handler that throws gets its message again', async () => {
  const runId = newId();
  await bus.enqueue(subjects.runStart(TENANT), RunMessageSchema, { runId });
  await expect.poll(() => worked).toEqual([runId]);
});

it('several handlers may hear the same events', async () => {
  bus.publish(subjects.event(TENANT, 'r1'), RunEventSchema, { runId: 'r1' });
  await expect.poll(() => heard.sort()).toEqual(['1 r1', '2 r1']);
});

it('two handlers for one operation are an error at start-up', async () => {
  const broken = async () => (await start(Broken)).listen();
  await expect(broken()).rejects.toThrow('two handlers for "serves registry.delete"');
});
