import { readFileSync } from 'node:fs';
import { defineTool, serveTools, type ToolServer } from '@yardmaster/executor-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';
import {
  anthropicAnswer,
  harmony,
  hermes,
  type Message,
  type Move,
  native,
  responsesAnswer,
  textOf,
  written,
} from './model-moves.js';
import { type OtherProvider, startOther } from './other-provider.js';

interface Listed {
  name: string;
  description: string;
  parameters: Record<string, unknown>;
}
const CATALOGUE = (
  JSON.parse(readFileSync(new URL('../cases/render/search.json', import.meta.url), 'utf8')) as { catalogue: Listed[] }
).catalogue.filter(({ name }) => !/^(file|shell)_/.test(name));
/** With the built-in ones, 200. */
const TOOLS: Listed[] = [
  ...CATALOGUE,
  ...Array.from({ length: 189 - CATALOGUE.length }, (_, index) => ({
    name: `spare_${index}`,
    description: `Spare tool number ${index}`,
    parameters: { type: 'object', properties: {} },
  })),
];
const WANTED = 'stripe_refund_payment';
const ARGS = { payment_id: 'p-17' };
const SEARCH = { query: 'refund a payment' };

/** What a model does that was asked for a refund: find the tool, call it, say what came of it. */
function refund(results: readonly string[], direct: boolean): Move {
  if (results.length === 0 && !direct) return { call: 'tool_search', args: SEARCH };
  const last = results.at(-1);
  if (last?.includes('refunded p-17')) return { text: 'done' };
  if (last === undefined || last.includes(WANTED)) return { call: WANTED, args: ARGS };
  return { text: `not found in: ${last.slice(0, 300)}` };
}
const throughDispatcher = (move: Move): Move =>
  'call' in move && move.call === WANTED
    ? { call: 'call_mcp', args: { server: 'local', tool: move.call, args: move.args } }
    : move;

const toolResults = (messages: readonly Message[]) =>
  messages
    .filter((message) => message.role === 'tool' || textOf(message).startsWith('[Tool results]'))
    .map((message) => textOf(message));

type Asked = { messages: readonly Message[] };
type Form = (move: Move) => Move;
const asItIs: Form = (move) => move;
const nativeScript =
  (direct: boolean, form = asItIs) =>
  ({ messages }: Asked) =>
    native(form(refund(toolResults(messages), direct)));
const textScript =
  (direct: boolean, write: typeof hermes, form = asItIs) =>
  ({ messages }: Asked) =>
    written(form(refund(toolResults(messages), direct)), write);

interface Block {
  type: string;
  content?: unknown;
}
function anthropic(body: Record<string, unknown>): unknown {
  const results = (body['messages'] as { content: Block[] }[])
    .flatMap(({ content }) => content)
    .filter(({ type }) => type === 'tool_result')
    .map(({ content }) => JSON.stringify(content));
  return anthropicAnswer(refund(results, false), results.length);
}
function responses(body: Record<string, unknown>): unknown {
  const results = (body['input'] as { type: string; output?: string }[])
    .filter(({ type }) => type === 'function_call_output')
    .map(({ output }) => output ?? '');
  // The provider searches by itself and has the definition at the end of its own context.
  const searched = { type: 'tool_search_call', status: 'completed', arguments: SEARCH };
  return responsesAnswer(refund(results, true), results.length, searched);
}

let yard: Stack;
let executor: ToolServer;
let claude: OtherProvider;
let openai: OtherProvider;
const put = ({ name, description, parameters }: Listed) =>
  yard.api(`/v1/tools/${name}`, {
    method: 'PUT',
    json: { description, parameters, kind: 'crm', effect: 'idempotent', category: 'read' },
  });

beforeAll(async () => {
  claude = await startOther(anthropic);
  openai = await startOther(responses);
  const text = { native: false, models: ['demo'] };
  const native = { native: true, models: ['demo'] };
  yard = await startStack(
    {
      native_upfront: { ...native, render: 'native_upfront', script: nativeScript(true) },
      xml_upfront: { ...text, render: 'xml_upfront', script: textScript(true, hermes) },
      claude_text: { ...text, render: 'claude_deferred', script: textScript(false, hermes) },
      claude_api: { ...native, kind: 'anthropic', base_url: claude.url, render: 'claude_deferred' },
      openai_native: { ...native, base_url: openai.url, render: 'openai_native_deferred' },
      harmony_upfront: { ...text, dialect: 'harmony', render: 'harmony_upfront', script: textScript(true, harmony) },
      harmony_text: {
        ...text,
        dialect: 'harmony',
        render: 'harmony_dispatcher',
        script: textScript(false, harmony, throughDispatcher),
      },
      harmony_native: {
        ...native,
        render: 'harmony_dispatcher',
        script: nativeScript(false, throughDispatcher),
      },
      rolling: { ...text, render: 'rolling_developer', script: textScript(true, hermes) },
      breaks_off: {
        ...text,
        render: 'claude_deferred',
        script: (request) =>
          toolResults(request.messages).length === 0
            ? textScript(false, hermes)(request)
            : { status: 503, body: 'overloaded' },
      },
    },
    {
      executors: ['shell', 'files', 'crm'],
      // Which of them draws a prompt must not matter.
      replicas: { router: 2 },
      agents: {
        ...Object.fromEntries(
          [
            'native_upfront',
            'xml_upfront',
            'claude_text',
            'claude_api',
            'openai_native',
            'harmony_upfront',
            'harmony_text',
            'harmony_native',
            'rolling',
          ].map((name) => [name, { providers: [name] }]),
        ),
        moving: { providers: ['breaks_off', 'harmony_native'] },
      },
    },
  );
  executor = await serveTools(
    { kind: 'crm', url: yard.stack.nats.url, pass: yard.stack.nats.login('executor-crm').pass, slots: 4 },
    TOOLS.map(({ name, description }) =>
      defineTool<Record<string, unknown>>({
        name,
        description,
        effect: 'idempotent',
        input: { type: 'object' },
        run: (args) => `refunded ${String(args['payment_id'])}`,
      }),
    ),
  );
  const waiting = [...TOOLS];
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let tool = waiting.pop(); tool !== undefined; tool = waiting.pop()) {
        const response = await put(tool);
        if (!response.ok) throw new Error(`${tool.name}: ${await response.text()}`);
      }
    }),
  );
}, 120_000);
afterAll(async () => {
  await executor?.stop();
  await yard?.stop();
  claude?.stop();
  openai?.stop();
});

const completed = async (agent: string, more: Record<string, unknown> = {}) => {
  const run = await yard.settled((await yard.start({ input: 'refund p-17', agent, ...more })).id);
  expect(run, JSON.stringify(await yard.events(run.id))).toMatchObject({ state: 'completed', output: 'done' });
  const called = (await yard.events(run.id))
    .filter(({ type }) => type === 'tool.completed')
    .map(({ data }) => data['name']);
  return { run, called };
};
/** What stands before the conversation, as the provider got it. */
const frontOf = (body: { messages?: readonly Message[]; tools?: unknown }) =>
  JSON.stringify([body.messages?.[0]?.role === 'system' ? body.messages[0] : null, body.tools ?? null]);
const seenBy = (agent: string) => yard.models[agent]!.seen.map(({ body }) => body);

describe.each([
  ['native_upfront', false],
  ['xml_upfront', false],
  ['harmony_upfront', false],
  ['rolling', false],
  ['claude_text', true],
  ['harmony_text', true],
  ['harmony_native', true],
])('%s', (agent, deferred) => {
  it('finds, loads and calls one tool out of 200, and its front does not move', async () => {
    const { called } = await completed(agent);
    expect(called).toEqual(deferred ? ['__tool_search', WANTED] : [WANTED]);
    const bodies = seenBy(agent);
    expect(new Set(bodies.map(frontOf)).size).toBe(1);
    const front = frontOf(bodies[0]!);
    if (deferred) expect(front.length).toBeLessThan(20_000);
    else expect(front).toContain(WANTED);
    expect(front.includes('payment_id')).toBe(!deferred);
  });
});

it('claude_deferred over the API loads by reference', async () => {
  expect((await completed('claude_api')).called).toEqual(['__tool_search', WANTED]);
  const tools = claude.bodies[0]!['tools'] as { name: string; defer_loading?: boolean }[];
  expect(tools.find(({ name }) => name === WANTED)).toMatchObject({ defer_loading: true });
  expect(tools.find(({ name }) => name === 'file_read')).not.toHaveProperty('defer_loading');
  expect(new Set(claude.bodies.map(({ tools: one }) => JSON.stringify(one))).size).toBe(1);
  expect(JSON.stringify(claude.bodies[1]!['messages'])).toContain(`{"type":"tool_reference","tool_name":"${WANTED}"}`);
});

it('openai_native_deferred leaves the search to the provider', async () => {
  expect((await completed('openai_native')).called).toEqual([WANTED]);
  const tools = openai.bodies[0]!['tools'] as { type: string; name?: string; tools?: { name: string }[] }[];
  expect(tools.at(-1)).toEqual({ type: 'tool_search' });
  expect(tools.find(({ type }) => type === 'namespace')?.tools?.map(({ name }) => name)).toContain(WANTED);
  expect(new Set(openai.bodies.map(({ tools: one }) => JSON.stringify(one))).size).toBe(1);
});

it('a provider of another strategy takes over after the load, and is shown the tool in its own form', async () => {
  yard.models['harmony_native']!.seen.length = 0;
  expect((await completed('moving')).called).toEqual(['__tool_search', WANTED]);
  const [first] = seenBy('harmony_native');
  expect(JSON.stringify(first!.messages)).toContain(`type ${WANTED} = (_: {`);
});

it('a request can insist on a strategy; an unknown one is refused with the known ones', async () => {
  const body = { input: 'refund p-17', agent: 'harmony_native', render: 'carrier_pigeon' };
  const refused = await yard.api('/v1/runs', { json: body });
  expect(refused.status).toBe(400);
  const { code, detail } = (await refused.json()) as { code: string; detail: string };
  expect(code).toBe('YM-REQ-INVALID');
  for (const name of ['carrier_pigeon', 'auto', 'xml_upfront', 'harmony_upfront']) expect(detail).toContain(name);
});

it('a tool that comes in mid-conversation can be called at once, is told at the tail, and moves nothing in front', async () => {
  const { run } = await completed('claude_text');
  await put({ name: 'invoice_void', description: 'Voids an invoice', parameters: { type: 'object', properties: {} } });
  await put({ ...TOOLS.find(({ name }) => name === WANTED)!, description: 'Refunds a payment, whole or in part.' });
  const listed = async () => (await (await yard.api('/v1/tools/invoice_void')).json()) as { version?: number };
  await expect.poll(async () => (await listed()).version).toBe(1);
  await expect
    .poll(
      async () => {
        const again = await yard.settled(
          (await yard.start({ input: 'once more', agent: 'claude_text', conversation_id: run.conversation_id })).id,
        );
        expect(again.state).toBe('completed');
        return JSON.stringify(seenBy('claude_text').at(-1)!.messages);
      },
      { timeout: 10_000 },
    )
    .toMatch(/<tools-changed>\\nadded: invoice_void, stripe_refund_payment\\nremoved: stripe_refund_payment\\n/);
  const bodies = seenBy('claude_text');
  const [before, after] = [bodies.at(-2)!, bodies.at(-1)!];
  expect(frontOf(after)).toBe(frontOf(before));
});

it('after a compaction the tools that were loaded stand in front', async () => {
  const { run } = await completed('claude_text');
  const url = `/v1/conversations/${run.conversation_id}`;
  const { items } = (await (await yard.api(`${url}/messages?limit=100`)).json()) as { items: { seq: number }[] };
  const compacted = await yard.api(`${url}/compact`, {
    json: { up_to_seq: items.at(-1)!.seq, summary: 'p-17 was refunded.' },
  });
  expect(compacted.status, await compacted.clone().text()).toBeLessThan(300);
  await yard.settled(
    (await yard.start({ input: 'once more', agent: 'claude_text', conversation_id: run.conversation_id })).id,
  );
  const front = frontOf(
    seenBy('claude_text').findLast(({ messages }) => JSON.stringify(messages).includes('once more'))!,
  );
  expect(front).toContain('payment_id');
  expect(front.length).toBeLessThan(20_000);
});
