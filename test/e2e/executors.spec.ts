import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Bus } from '@yardmaster/bus';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';

const EXAMPLES = fileURLToPath(new URL('../../examples/', import.meta.url));
const YARD = fileURLToPath(new URL('../../services/yard/bin/yard.mjs', import.meta.url));
let yard: Stack;
const running: ChildProcess[] = [];
/** What each has said on stderr. */
const said = new Map<ChildProcess, string>();
const quiet = { debug() {}, info() {}, warn() {}, error() {} };

/** Starts an example as its README says; resolves when it says that it is ready. */
async function startExample(command: string, args: string[], kind: string): Promise<ChildProcess> {
  const child = spawn(command, args, {
    env: {
      PATH: process.env['PATH'],
      YM_NATS_URL: yard.stack.nats.url,
      YM_NATS_PASSWORD_FILE: join(yard.stack.state, 'secrets', `nats-executor-${kind}`),
      YM_EXECUTOR_ACK_WAIT_MS: '2000',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.push(child);
  child.stderr!.on('data', (chunk: Buffer) => said.set(child, `${said.get(child) ?? ''}${String(chunk)}`));
  const [chunk] = (await Promise.race([once(child.stdout!, 'data'), once(child, 'exit')])) as [unknown];
  expect(String(chunk)).toBe('ready\n');
  return child;
}
const startTypeScript = () =>
  startExample(process.execPath, [join(EXAMPLES, 'executor-typescript/executor.ts')], 'crm');
const startPython = () => startExample('python3', [join(EXAMPLES, 'executor-python/executor.py')], 'weather');

/** `yard executor add KIND`, as a person would run it; answers what it printed. */
async function yardExecutorAdd(kind: string): Promise<Record<string, unknown>> {
  const child = spawn(process.execPath, [YARD, 'executor', 'add', kind, '-o', 'json'], {
    env: { PATH: process.env['PATH'], YM_STATE: yard.stack.state },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += String(chunk)));
  const [code] = (await once(child, 'close')) as [number];
  expect(code).toBe(0);
  return JSON.parse(text) as Record<string, unknown>;
}

beforeAll(async () => {
  yard = await startStack({
    native: {
      native: true,
      // The task is the call.
      script: ({ messages }) => {
        const last = messages.at(-1)!;
        if (last.role === 'tool') return { text: `it says: ${String(last.content)}` };
        const [, name, args] = /^(\w+) (\{.*\})$/s.exec(String(last.content)) ?? [];
        return { calls: [{ name: name!, arguments: args! }] };
      },
    },
  });
  // As the READMEs of the examples say: while the stack runs.
  for (const kind of ['crm', 'weather']) await yardExecutorAdd(kind);
  const put = async (name: string, json: Record<string, unknown>) => {
    const response = await yard.api(`/v1/tools/${name}`, { method: 'PUT', json });
    expect(response.status, await response.clone().text()).toBe(200);
  };
  await put('crm_find', {
    description: 'Finds a customer by number.',
    parameters: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] },
    kind: 'crm',
    effect: 'read',
    category: 'read',
  });
  await put('weather_forecast', {
    description: 'Tells the weather of a city.',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' }, think_s: { type: 'integer' } },
      required: ['city'],
    },
    kind: 'weather',
    effect: 'idempotent',
    category: 'read',
    dispatch: { encoding: 'json' },
  });
  await Promise.all([startTypeScript(), startPython()]);
}, 120_000);
afterAll(async () => {
  for (const child of running) if (child.exitCode === null) child.kill('SIGKILL');
  await yard?.stop();
});

const ask = async (name: string, args: unknown) => {
  const run = await yard.start({ input: `${name} ${JSON.stringify(args)}` });
  return yard.settled(run.id);
};

type Definition = Record<string, unknown> & { name: string; hash: string; version: number };
const definitionOf = async (name: string) => (await (await yard.api(`/v1/tools/${name}`)).json()) as Definition;
const putBack = async (name: string, json: Definition) => {
  const response = await yard.api(`/v1/tools/${name}`, { method: 'PUT', json });
  return { status: response.status, body: (await response.json()) as Definition & { detail?: string } };
};

it('a tool that was got is put back as it is, with its dispatch, and stays the same version', async () => {
  const got = await definitionOf('weather_forecast');
  expect(got).toMatchObject({ dispatch: { encoding: 'json' }, shared: false });
  expect(await putBack('weather_forecast', got)).toEqual({ status: 200, body: got });

  const full = await putBack('weather_forecast', {
    ...got,
    annotations: { readOnly: true },
    output_schema: { type: 'object', properties: { sky: { type: 'string' } } },
    search_hints: ['rain'],
    aliases: ['forecast'],
  });
  expect(full.body).toMatchObject({ version: got.version + 1, annotations: { readOnly: true } });
  expect(full.body.hash).not.toBe(got.hash);
  expect(await definitionOf('weather_forecast')).toEqual(full.body);
  expect(await putBack('weather_forecast', full.body)).toEqual({ status: 200, body: full.body });
  expect((await putBack('weather_forecast', got)).body.hash).toBe(got.hash);
});

it('shared tools become ones of the tenant for executors of its own, and are back when those are deleted', async () => {
  const { items } = (await (await yard.api('/v1/tools')).json()) as { items: Definition[] };
  const ofExecutors = items.filter(({ kind }) => kind === 'shell' || kind === 'files');
  expect(ofExecutors.length).toBeGreaterThan(5);
  for (const shared of ofExecutors) {
    const put = await putBack(shared.name, { ...shared, kind: `${String(shared['kind'])}-acme` });
    expect(put, JSON.stringify(put.body)).toMatchObject({ status: 200, body: { shared: false, version: 1 } });
    expect(put.body.hash).not.toBe(shared.hash);
  }
  await expect.poll(() => definitionOf('shell_run')).toMatchObject({ kind: 'shell-acme', shared: false });
  for (const { name } of ofExecutors)
    expect((await yard.api(`/v1/tools/${name}`, { method: 'DELETE' })).status).toBe(204);
  await expect.poll(() => definitionOf('shell_run')).toMatchObject({ kind: 'shell', shared: true });
});

it('a body that names another tool than the path is refused', async () => {
  const got = await definitionOf('crm_find');
  const put = await putBack('crm_seek', got);
  expect(put).toMatchObject({ status: 400, body: { code: 'YM-REQ-INVALID' } });
  expect(put.body.detail).toContain('/name is "crm_find"');
});

it('an executor in TypeScript runs the calls of its kind', async () => {
  expect((await ask('crm_find', { id: 17 })).output).toBe('it says: Customer 17: Ada Lovelace');
  expect((await ask('crm_find', { id: 4 })).output).toContain('There is no customer 4.');
});

it('an executor in Python’s standard library does the same over JSON', async () => {
  expect((await ask('weather_forecast', { city: 'Zürich' })).output).toBe('it says: Zürich: sun for 1 day');
  expect((await ask('weather_forecast', { city: 'Oslo', days: '3' })).output).toBe('it says: Oslo: sun for 3 days');
});

it('a call that takes longer than the queue’s patience is kept alive', async () => {
  expect((await ask('weather_forecast', { city: 'Lima', think_s: 4 })).output).toBe('it says: Lima: sun for 1 day');
}, 30_000);

it('a cancel reaches it', async () => {
  const run = await yard.start({ input: `weather_forecast ${JSON.stringify({ city: 'Rome', think_s: 60 })}` });
  const requested = async () => (await yard.events(run.id)).some(({ type }) => type === 'tool.requested');
  await expect.poll(requested, { timeout: 10_000 }).toBe(true);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect((await yard.api(`/v1/runs/${run.id}/cancel`, { json: {} })).status).toBe(202);
  expect((await yard.settled(run.id)).state).toBe('cancelled');
  // It is free again at once, not after a minute.
  expect((await ask('weather_forecast', { city: 'Bern' })).output).toContain('Bern');
});

it('a call whose executor died is taken up by the next one', async () => {
  const run = await yard.start({ input: `weather_forecast ${JSON.stringify({ city: 'Kyiv', think_s: 3 })}` });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  running.at(-1)!.kill('SIGKILL');
  await startPython();
  expect((await yard.settled(run.id, 40_000)).output).toBe('it says: Kyiv: sun for 1 day');
}, 60_000);

it('an executor that loses NATS says so, and serves again when it is back', async () => {
  const python = running.at(-1)!;
  await yard.stack.nats.kill();
  await expect.poll(() => said.get(python), { timeout: 10_000 }).toMatch(/^connection lost: .+/m);
  await yard.stack.nats.startAgain();
  // The API refuses runs until it is connected again itself, as a caller who tries again would see.
  let run: string | undefined;
  const start = async () => (run = (await yard.start({ input: 'weather_forecast {"city": "Baku"}' })).id);
  await expect.poll(start, { timeout: 30_000 }).toBeTypeOf('string');
  expect((await yard.settled(run!)).output).toBe('it says: Baku: sun for 1 day');
  expect(said.get(python)).toContain('connected again');
  expect(python.exitCode).toBeNull();
}, 60_000);

it('the generator says what it made, does nothing twice, and refuses what is Yardmaster’s own', async () => {
  expect(await yardExecutorAdd('crm')).toEqual({
    kind: 'crm',
    state: 'ready',
    queue: 'YM_TOOL_CRM',
    account: 'EXEC_CRM',
    login: 'executor-crm',
    nats_url: yard.stack.nats.url,
    password_file: join(yard.stack.state, 'secrets', 'nats-executor-crm'),
  });
  expect(yard.stack.file.executors?.filter((kind) => kind === 'crm')).toHaveLength(1);
  await expect(yardExecutorAdd('shell')).rejects.toThrow('expected 2 to be');
});

it('its login reaches its own queue and no other', async () => {
  const login = (kind: string) =>
    Bus.connect({ url: yard.stack.nats.url, ...yard.stack.nats.login(`executor-${kind}`), log: quiet });
  const bus = await login('crm');
  const pull = (stream: string) =>
    bus.nc.request(`$JS.API.CONSUMER.MSG.NEXT.${stream}.work`, JSON.stringify({ batch: 1, no_wait: true }), {
      timeout: 1_000,
    });
  expect((await pull('YM_TOOL_CRM')).headers?.code).toBe(404);
  await expect(pull('YM_TOOL_WEATHER')).rejects.toThrow();
  await expect(pull('YM_TOOL_SHELL')).rejects.toThrow();
  await bus.close();
});
