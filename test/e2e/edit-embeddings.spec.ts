import { readFileSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { Bus } from '@yardmaster/bus';
import { Dispatcher, inboxPrefix, Router, tenantId, type ToolCall, ToolCallSchema } from '@yardmaster/contracts';
import { type FaultServer, startFaultServer } from '@yardmaster/testkit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';

const FILE = ['charge', 'refund', 'hold']
  .map(
    (word) =>
      `export function ${word}Card(card, amount) {\n  const receipt = gateway.${word}(card, amount);\n  journal.write('${word}', receipt.id);\n  return receipt;\n}\n`,
  )
  .join('\n');
const OLD = `export function blockCard(card, amount) {\n  const receipt = gateway.block(card, amount);\n  journal.write('block', receipt.id);\n  return receipt;\n}`;
const EDIT = { path: 'cards.js', old_string: OLD, new_string: OLD.replace('amount)', 'amount, note)') };
const DEMO = tenantId('demo');

let vectors: FaultServer;
let yard: Stack;
/** What was asked for vectors, and what the first question waits for. */
const asked: string[][] = [];
let during: (() => Promise<void>) | undefined;
const buses: Bus[] = [];

const script = ({ messages }: { messages: readonly { role: string; content?: unknown }[] }) => {
  const last = messages.at(-1)!;
  if (last.role === 'tool') return { text: String(last.content) };
  return { calls: [{ name: 'file_edit', arguments: JSON.stringify(EDIT) }] };
};
const as = async (user: string): Promise<Bus> => {
  const bus = await Bus.connect({ url: yard.stack.nats.url, ...yard.stack.nats.login(user) });
  buses.push(bus);
  return bus;
};

beforeAll(async () => {
  vectors = await startFaultServer(async (request, connection) => {
    if (!request.path.endsWith('/embeddings')) return connection.json(404, {});
    const { input } = JSON.parse(request.body) as { input: string[] };
    asked.push(input);
    const wait = during;
    during = undefined;
    await wait?.();
    // To hold a card is to block it.
    const data = input.map((text, index) => ({ index, embedding: /hold|block/.test(text) ? [1, 0] : [0, 1] }));
    connection.json(200, { data, usage: { prompt_tokens: 7, total_tokens: 7 } });
  });
  yard = await startStack({
    native: { native: true, script, models: ['demo'] },
    meaning: {
      native: true,
      kind: 'openai',
      base_url: `${vectors.url}/v1`,
      models: ['code-vectors'],
      embeddings: true,
    },
  });
  yard.put({ 'cards.js': FILE });
}, 60_000);
afterAll(async () => {
  await Promise.all(buses.map((bus) => bus.close()));
  await yard?.stop();
  await vectors?.close();
});

/** The call that lies in the executor's queue or is being worked on. */
async function underWay(setup: NatsConnection): Promise<ToolCall> {
  const found = await setup.request(
    '$JS.API.STREAM.MSG.GET.YM_TOOL_FILES',
    JSON.stringify({ last_by_subj: 'ym.tool.files.demo' }),
  );
  const { message } = found.json<{ message: { data: string } }>();
  return fromBinary(ToolCallSchema, Buffer.from(message.data, 'base64'));
}

it('an edit whose places resemble its text alike is ranked by meaning, and not made', async () => {
  const run = await yard.start({ input: 'block cards with a note' });
  expect((await yard.settled(run.id)).state).toBe('completed');
  const { output } = await yard.get(run.id);
  expect(output).toContain('3 places resemble it about equally');
  expect(output).toMatch(/By meaning, lines 13 to 17 are nearest:\n13→export function holdCard/);
  const done = (await yard.events(run.id)).find(({ type }) => type === 'tool.completed')!;
  expect(done.data['verdict']).toMatchObject({
    status: 'ambiguous',
    candidates: [{ startLine: 13, pass: 7, passName: 'embedding' }, {}, {}],
  });
  expect(readFileSync(yard.file('cards.js'), 'utf8')).toBe(FILE);
  const [question, ...more] = asked.splice(0);
  expect([question?.[0], question?.length, more]).toEqual([OLD, 4, []]);
});

it('an executor gets vectors only for the tenant whose call it was given, while it has it, and not without end', async () => {
  const hostile = await as('executor-files');
  const ask = (tenant: string, question: Partial<ToolCall>, texts = ['words']) =>
    hostile
      .request(
        Dispatcher.embed,
        tenantId(tenant),
        { runId: question.runId!, callId: question.callId!, nonce: question.nonce!, texts },
        { timeoutMs: 5_000 },
      )
      .then(
        ({ vectors: all }) => all.length,
        (error: { code: string }) => error.code,
      );
  const setup = await connect({
    servers: yard.stack.nats.url,
    ...yard.stack.nats.login('setup'),
    inboxPrefix: inboxPrefix('setup'),
  });
  let call!: ToolCall;
  const said: Record<string, unknown> = {};
  const held = new Promise<void>((resolve) => {
    during = async () => {
      try {
        call = await underWay(setup);
        said['another tenant'] = await ask('other', call);
        said['another nonce'] = await ask('demo', {
          ...call,
          nonce: call.nonce.replace(/.$/, (c) => (c === '0' ? '1' : '0')),
        });
        said['no nonce'] = await ask('demo', { ...call, nonce: '' });
        said['another call'] = await ask('demo', { ...call, callId: '9-9' });
        said['another run'] = await ask('demo', { ...call, runId: '0190b1de-0000-7000-8000-000000000001' });
        said['no text'] = await ask('demo', call, []);
        said['many texts'] = await ask('demo', call, Array<string>(17).fill('a'));
        said['long texts'] = await ask('demo', call, ['a'.repeat(64_001)]);
        // The control: with all of it right it is answered, as often as one call may ask.
        said['its own call'] = [
          await ask('demo', call),
          await ask('demo', call),
          await ask('demo', call),
          await ask('demo', call),
        ];
      } finally {
        resolve();
      }
    };
  });
  const run = await yard.start({ input: 'block cards again' });
  await held;
  expect(said).toEqual({
    'another tenant': 'YM-EMBED-CALL',
    'another nonce': 'YM-EMBED-CALL',
    'no nonce': 'YM-EMBED-CALL',
    'another call': 'YM-EMBED-CALL',
    'another run': 'YM-EMBED-CALL',
    'no text': 'YM-EMBED-TEXTS',
    'many texts': 'YM-EMBED-TEXTS',
    'long texts': 'YM-EMBED-TEXTS',
    'its own call': [1, 1, 1, 'YM-EMBED-LIMIT'],
  });
  expect((await yard.settled(run.id)).state).toBe('completed');
  // What is over has nothing to ask for any more.
  expect(await ask('demo', call)).toBe('YM-EMBED-CALL');
  // Nothing but the call's own questions reached a provider.
  expect(asked.splice(0)).toHaveLength(4);
  // The router itself is out of reach, and so is the dispatcher for executors of other kinds.
  const shell = await as('executor-shell');
  const { runId, callId, nonce } = call;
  const brief = { timeoutMs: 5_000 };
  const toRouter = { requestId: 'r', model: 'code-vectors', inputs: ['a'], providers: [] };
  await expect(hostile.request(Router.embed, DEMO, toRouter, brief)).rejects.toMatchObject({ class: 'DENIED' });
  await expect(
    shell.request(Dispatcher.embed, DEMO, { runId, callId, nonce, texts: ['a'] }, brief),
  ).rejects.toMatchObject({ class: 'DENIED' });
  expect(asked).toEqual([]);
  await setup.close();
});
