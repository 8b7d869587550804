import { type DynamicModule, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { fromBinary } from '@bufbuild/protobuf';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { BusServer } from '@yardmaster/bus/nest';
import { BUCKETS, BUILT_IN_TOOLS, Registry, tenantId, ToolSchema, type YardError } from '@yardmaster/contracts';
import { BUS, createLogger, Health, HEALTH, LOGGER, loadConfig, SERVICE } from '@yardmaster/service-kit';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it, test } from 'vitest';
import { RegistryConfig } from './config.js';
import { RegistryModule } from './registry.module.js';

@Module({})
class Root {}

const acme = tenantId('acme');
const globex = tenantId('globex');
let servers: Servers;
let caller: Bus;
let watcher: Bus;
const closers: (() => Promise<unknown>)[] = [];

async function startRegistry(): Promise<void> {
  const bus = await Bus.connect({ url: servers.natsUrl, ...servers.nats.login('registry') });
  const log = createLogger('registry', 'silent');
  const health = new Health('registry');
  const root: DynamicModule = {
    module: Root,
    global: true,
    imports: [RegistryModule],
    providers: [
      { provide: BUS, useValue: bus },
      { provide: LOGGER, useValue: log },
      { provide: HEALTH, useValue: health },
      {
        provide: SERVICE,
        useValue: {
          name: 'registry',
          instance: 'test',
          config: loadConfig(RegistryConfig, {}),
          log,
          health,
          bus,
          onClose() {},
        },
      },
    ],
    exports: [BUS, LOGGER, HEALTH, SERVICE],
  };
  const app = await NestFactory.createMicroservice(root, { logger: false, strategy: new BusServer(bus) });
  await app.listen();
  closers.push(async () => {
    await app.close();
    await bus.close();
  });
}

beforeAll(async () => {
  servers = await startServers({ executors: ['crm'] });
  const connect = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  const setup = await connect('setup');
  await ensureTopology(setup, { kinds: ['crm'] });
  await setup.close();
  [caller, watcher] = await Promise.all([connect('api'), connect('dispatcher')]);
  // Two, so that each test also says that it does not matter which replica answers.
  await startRegistry();
  await startRegistry();
});
afterAll(async () => {
  for (const close of closers) await close();
  await Promise.all([caller?.close(), watcher?.close()]);
  await servers?.stop();
});

const tool = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  description: `Looks up a customer by number (${name}).`,
  parametersJson: JSON.stringify({
    type: 'object',
    properties: { id: { type: 'integer', description: 'Number of the customer' } },
    required: ['id'],
    additionalProperties: false,
  }),
  kind: 'crm',
  effect: 'read',
  category: 'read',
  timeoutMs: 10_000,
  ...more,
});
const put = (definition: ReturnType<typeof tool>, tenant = acme) =>
  caller.request(Registry.put, tenant, { tool: definition }, { timeoutMs: 10_000 });
const get = (name: string, tenant = acme) => caller.request(Registry.get, tenant, { name }, { timeoutMs: 5_000 });
/** Both replicas have seen a change only a moment after the one that made it. */
const eventually = (name: string, version: number) =>
  expect
    .poll(async () => (await Promise.all([1, 2, 3, 4].map(() => get(name)))).map((one) => one.version))
    .toEqual(Array<number>(4).fill(version));
const refusal = async (promise: Promise<unknown>): Promise<YardError> => {
  try {
    await promise;
  } catch (error) {
    return error as YardError;
  }
  throw new Error('it was not refused');
};

it('lists all tools: the built-in ones for everybody, a tenant’s own for that tenant', async () => {
  await put(tool('crm_find'));
  await eventually('crm_find', 1);
  const { tools, revision } = await caller.request(Registry.list, acme, {}, { timeoutMs: 5_000 });
  const names = tools.map(({ name }) => name);
  expect(names).toEqual([...names].sort());
  expect(names).toEqual(expect.arrayContaining([...BUILT_IN_TOOLS.map(({ name }) => name), 'crm_find']));
  expect(revision).toBeGreaterThan(0n);
  const others = await caller.request(Registry.list, globex, {}, { timeoutMs: 5_000 });
  expect(others.tools.map(({ name }) => name)).not.toContain('crm_find');
});

it('pages', async () => {
  const names: string[] = [];
  let cursor = '';
  do {
    const page = await caller.request(Registry.list, acme, { cursor, limit: 3 }, { timeoutMs: 5_000 });
    names.push(...page.tools.map(({ name }) => name));
    cursor = page.nextCursor;
  } while (cursor !== '');
  const { tools } = await caller.request(Registry.list, acme, {}, { timeoutMs: 5_000 });
  expect(names).toEqual(tools.map(({ name }) => name));
});

it('a changed definition is a new version with another hash; the same one is no change', async () => {
  const first = await put(tool('crm_update'));
  expect(first).toMatchObject({ version: 1, state: 'active', tenant: 'acme' });
  expect(first.hash).toMatch(/^[0-9a-f]{64}$/);
  expect(await put(tool('crm_update'))).toMatchObject({ version: 1, hash: first.hash });
  const slower = await put(tool('crm_update', { timeoutMs: 20_000 }));
  expect(slower, 'a time limit is nothing that somebody agreed to').toMatchObject({ version: 2, hash: first.hash });
  const changed = await put(tool('crm_update', { description: 'Deletes a customer.' }));
  expect(changed.version).toBe(3);
  expect(changed.hash).not.toBe(first.hash);
  const dispatched = await put(tool('crm_update', { dispatchJson: '{"queue":"other"}' }));
  expect(dispatched.hash, 'what a call does is part of what was agreed to').not.toBe(first.hash);
});

test.each([
  ['a reserved name', { name: '__tool_search' }, 'bad_name'],
  ['the name that models know a meta tool by', { name: 'tool_search' }, 'bad_name'],
  ['the same as an alias', { aliases: ['tool_describe'] }, 'bad_name'],
  ['a schema that is no object', { parametersJson: '{"type":"array"}' }, 'top_not_object'],
  [
    'a reference elsewhere',
    { parametersJson: '{"type":"object","properties":{"a":{"$ref":"https://x.org/s"}}}' },
    'remote_ref',
  ],
  ['a dangling reference', { parametersJson: '{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}}}' }, 'bad_ref'],
  ['a look-around', { parametersJson: '{"type":"object","properties":{"a":{"pattern":"(?=a)"}}}' }, 'unsafe_pattern'],
  [
    'an unknown dialect',
    { parametersJson: '{"type":"object","$schema":"https://json-schema.org/draft/2019-09/schema"}' },
    'bad_dialect',
  ],
  ['text that is no JSON', { parametersJson: '{' }, 'bad_schema'],
  [
    'a schema over 64 KiB',
    { parametersJson: JSON.stringify({ type: 'object', description: 'x'.repeat(70_000) }) },
    'too_large',
  ],
  ['no effect', { effect: '' }, 'bad_field'],
  ['an unknown category', { category: 'harmless' }, 'bad_field'],
  ['an unknown annotation', { annotationsJson: '{"safe":true}' }, 'bad_field'],
  ['an alias of another tool', { aliases: ['file_read'] }, 'bad_field'],
])('refuses %s with its code', async (_, more, code) => {
  const error = await refusal(put(tool('crm_bad', more)));
  expect(error).toMatchObject({ class: 'INVALID', code: 'YM-TOOL-INVALID' });
  expect((error.details as { codes: string[] }).codes).toContain(code);
});

it('a hostile schema is decided and the registry answers others meanwhile', async () => {
  const union = (depth: number): unknown =>
    depth === 0
      ? { type: 'string' }
      : { type: 'object', properties: { a: { anyOf: Array(3).fill(union(depth - 1)) } } };
  const hostile = refusal(put(tool('crm_hostile', { parametersJson: JSON.stringify(union(7)) })));
  await get('file_read');
  expect(await hostile).toMatchObject({ code: 'YM-TOOL-INVALID' });
});

it('annotations of a tenant are never trusted, whatever it claims', async () => {
  const stored = await put(tool('crm_claims', { annotationsJson: '{"readOnly":true}', annotationsTrusted: true }));
  expect(stored.annotationsTrusted).toBe(false);
});

it('an alias leads to its tool, an unknown name to the nearest one', async () => {
  await put(tool('crm_lookup', { aliases: ['customer_search'] }));
  await eventually('crm_lookup', 1);
  expect(await get('customer_search')).toMatchObject({ name: 'crm_lookup' });
  const resolved = await caller.request(
    Registry.resolve,
    acme,
    { names: ['customer_search', 'crm_lokup', 'tool_search'] },
    { timeoutMs: 5_000 },
  );
  expect(resolved.tools.map(({ name }) => name)).toEqual(['crm_lookup', '__tool_search']);
  expect(resolved.unknown).toEqual({ crm_lokup: 'crm_lookup' });
  expect(await refusal(get('crm_lokup'))).toMatchObject({
    code: 'YM-TOOL-UNKNOWN',
    details: { nearest: 'crm_lookup' },
  });
  expect((await refusal(get('crm_lookup', globex))).class).toBe('NOT_FOUND');
});

it('finds tools by what they do, in the languages of their search words, and nothing rather than weak hits', async () => {
  await put(tool('crm_refund', { description: 'Pays money back.', searchHints: ['환불', '返金'] }));
  await eventually('crm_refund', 1);
  const found = async (query: string) =>
    (await caller.request(Registry.search, acme, { query }, { timeoutMs: 5_000 })).hits.map(({ tool }) => tool?.name);
  expect(await found('run a shell command')).toContain('shell_run');
  expect((await found('환불'))[0]).toBe('crm_refund');
  expect((await found('返金する'))[0]).toBe('crm_refund');
  expect(await found('select:file_read,crm_refund')).toEqual(['file_read', 'crm_refund']);
  expect(await found('quantum chromodynamics')).toEqual([]);
});

it('deprecated tools can be called and are not offered, retired ones are gone', async () => {
  await put(tool('crm_old', { description: 'Prints an obituary.' }));
  await put(tool('crm_old', { description: 'Prints an obituary.', state: 'deprecated' }));
  await eventually('crm_old', 2);
  const search = await caller.request(Registry.search, acme, { query: 'obituary' }, { timeoutMs: 5_000 });
  expect(search.hits).toEqual([]);
  const { tools } = await caller.request(Registry.list, acme, {}, { timeoutMs: 5_000 });
  expect(
    tools.map(({ name, state }) => `${name} ${state}`),
    'the list has all of them',
  ).toContain('crm_old deprecated');
  await put(tool('crm_old', { description: 'Prints an obituary.', state: 'retired' }));
  await expect.poll(async () => (await refusal(get('crm_old'))).class).toBe('NOT_FOUND');
});

it('checks arguments as a call would be checked', async () => {
  const check = (argumentsJson: string) =>
    caller.request(Registry.validate, acme, { name: 'crm_find', argumentsJson }, { timeoutMs: 5_000 });
  expect(await check('{"id":"17"}')).toMatchObject({ ok: true, argumentsJson: '{"id":17}' });
  const bad = await check('{"id":"ten"}');
  expect(bad).toMatchObject({ ok: false });
  expect(bad.message).toMatch(/Invalid arguments for crm_find.*\/id/);
});

it('a tenant deletes its own tools and no shared ones', async () => {
  await put(tool('crm_temporary'));
  await caller.request(Registry.delete, acme, { name: 'crm_temporary' }, { timeoutMs: 5_000 });
  await expect.poll(async () => (await refusal(get('crm_temporary'))).class).toBe('NOT_FOUND');
  const shared = caller.request(Registry.delete, acme, { name: 'file_read' }, { timeoutMs: 5_000 });
  expect((await refusal(shared)).class).toBe('NOT_FOUND');
  for (const name of ['*', '>', 'a.b', '{}', '\0', '']) {
    const none = caller.request(Registry.delete, acme, { name }, { timeoutMs: 5_000 });
    expect((await refusal(none)).class).toBe('NOT_FOUND');
  }
});

it('of two writers of one version one is told that it lost', async () => {
  await put(tool('crm_raced'));
  const outcomes = await Promise.allSettled(
    Array.from({ length: 8 }, (_, index) => put(tool('crm_raced', { description: `Variant ${index}.` }))),
  );
  const lost = outcomes.filter((outcome) => outcome.status === 'rejected');
  for (const { reason } of lost) expect(reason).toMatchObject({ class: 'CONFLICT' });
  const won = outcomes.length - lost.length;
  await expect.poll(async () => (await get('crm_raced')).version).toBe(1 + won);
});

it('a change is seen by whoever watches the bucket', async () => {
  const snapshot = await watcher.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes));
  const seen = new Promise<string>((resolve) =>
    snapshot.onChange(({ current }) => {
      const one = current.get('acme.crm_watched');
      if (one !== undefined) resolve(one.hash);
    }),
  );
  const { hash } = await put(tool('crm_watched'));
  expect(await seen).toBe(hash);
  snapshot.stop();
});
