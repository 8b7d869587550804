import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { newId, subjects, tenantId, ToolCallSchema, type ToolResult, ToolResultSchema } from '@yardmaster/contracts';
import { argsHash, serveTools, type Tool, type ToolServer } from '@yardmaster/executor-kit';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { fileTools } from './file-tools.js';
import { type Fixture, makeFixture } from './fixture.js';

const TENANT = tenantId('acme');
const ACK_WAIT_MS = 1_000;
let servers: Servers;
let setup: Bus;
let dispatcher: Bus;
let files: Fixture;
const open: ToolServer[] = [];

beforeAll(async () => {
  servers = await startServers({ executors: ['files'] });
  const login = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user) });
  [setup, dispatcher] = (await Promise.all([login('setup'), login('dispatcher')])) as [Bus, Bus];
  await ensureTopology(setup, { kinds: ['files'], ackWaitMs: ACK_WAIT_MS });
  files = makeFixture();
});
afterAll(async () => {
  await Promise.all(open.map((server) => (server.bus.isClosed() ? undefined : server.stop())));
  await Promise.all([setup, dispatcher].map((bus) => bus.close()));
  await servers.stop();
  await files.close();
});

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
async function serve(change: (tool: Tool) => Tool = (tool) => tool): Promise<ToolServer> {
  const { pass } = servers.nats.login('executor-files');
  const server = await serveTools(
    { kind: 'files', url: servers.natsUrl, pass, slots: 4, ackWaitMs: ACK_WAIT_MS, log: quiet },
    fileTools(files.services).map(change),
  );
  open.push(server);
  return server;
}
const callOf = (name: string, args: object) => ({
  name,
  runId: newId(),
  callId: '1-0',
  nonce: newId(),
  argumentsJson: JSON.stringify(args),
  argsHash: argsHash(JSON.stringify(args)),
  historySeq: 7n,
  tenant: TENANT as string,
  workspace: 'main',
  effect: '',
});
const send = (call: ReturnType<typeof callOf>) =>
  dispatcher.enqueue(subjects.tool('files', TENANT), ToolCallSchema, call);
async function resultOf({ runId, callId, nonce }: ReturnType<typeof callOf>): Promise<ToolResult> {
  for (;;) {
    const found = await dispatcher.getStored('YM_RES', subjects.result(TENANT, runId, callId, nonce), ToolResultSchema);
    if (found) return found.message;
    await sleep(20);
  }
}

it('an edit whose executor died before it answered is not made twice', async () => {
  mkdirSync(files.home, { recursive: true });
  writeFileSync(join(files.home, 'a'), 'one\n');
  let applied = 0;
  // Makes the edit and then never answers, as a process that is killed at that moment.
  const first = await serve((tool) => ({
    ...tool,
    run: async (args, context) => {
      await tool.run(args, context);
      applied++;
      return new Promise<never>(() => {});
    },
  }));
  const call = callOf('file_edit', { path: 'a', old_string: 'one\n', new_string: 'one\none\n' });
  await send(call);
  await expect.poll(() => applied, { timeout: 20_000 }).toBe(1);
  await first.bus.nc.close();
  await serve();
  const result = await resultOf(call);
  expect(result).toMatchObject({ ok: true, attempt: 2 });
  expect(JSON.parse(result.verdictJson)).toMatchObject({ already_applied: true, status: 'already_applied', pass: 1 });
  expect(result.output).toContain('+one');
  expect(readFileSync(join(files.home, 'a'), 'utf8')).toBe('one\none\n');
});

it('refusals come back as results with words', async () => {
  if (open.every(({ bus }) => bus.isClosed())) await serve();
  const call = callOf('file_read', { path: '../other' });
  await send(call);
  expect(await resultOf(call)).toMatchObject({ ok: false, reason: 'outside', outcomeUnknown: false });
});
