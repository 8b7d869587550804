import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RunView } from '../api-views.ts';
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

// Tools come, go and change while runs are in the middle of their work: an MCP server announces another list, and an
// administrator puts, retires and deletes tools of the tenant.

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'yardmaster-tool-changes-')));
const PEER = fileURLToPath(new URL('../../services/registry/test-peer/mcp-peer.mjs', import.meta.url));
const STATE = join(folder, 'fickle.json');
const parameters = { type: 'object', properties: { text: { type: 'string' } } };
const listed = (name: string, description = `The tool ${name}.`) => ({ name, description, inputSchema: parameters });
/** Enough, and long enough, that they are not all shown in front. */
const MANY = Array.from({ length: 30 }, (_, index) => listed(`spare_${index}`, 'It is for nothing. '.repeat(30)));
const say = (...tools: object[]) => writeFileSync(STATE, JSON.stringify({ tools: [...tools, ...MANY] }));

const ADDED = ['crm_changed', 'crm_new', 'fickle__echo', 'fickle__fresh'];
const REMOVED = ['crm_changed', 'crm_deleted', 'crm_retired', 'fickle__echo', 'fickle__gone'];

let yard: Stack;
let claude: OtherProvider;
let openai: OtherProvider;
let changed: () => void;
const everythingChanged = new Promise<void>((resolve) => (changed = resolve));

/** Names that the notices of a request say: each of them once. */
function toldBy(text: string): { added: string[]; removed: string[] } {
  const of = (word: string) =>
    [...text.matchAll(new RegExp(`${word}: ([\\w, ]+)`, 'g'))].flatMap(([, names]) => names!.split(', ')).sort();
  return { added: of('added'), removed: of('removed') };
}
const ALL = { added: ADDED, removed: REMOVED };

/**
 * The model's part, in words common to all wires. Asked to wait, it holds its answer until the tools have changed, and
 * then calls something harmless until it has been told of all of it; any other task is the call.
 */
async function play(task: string, results: readonly string[], everything: string): Promise<Move> {
  if (task === 'wait') {
    await everythingChanged;
    if (results.length > 0 && isDeepStrictEqual(toldBy(everything), ALL)) return { text: 'told' };
    return { call: 'file_stat', args: { path: `n${results.length}` } };
  }
  if (task.startsWith('hold ')) {
    await everythingChanged;
    // One step more than the change: the first prompt after it is drawn too.
    if (results.length === 0) return { call: 'file_stat', args: { path: 'x' } };
    if (results.length === 1) return { call: task.slice('hold '.length), args: {} };
  }
  const [, call, args] = /^(\w+) (\{.*\})$/s.exec(task) ?? [];
  // Without the marks around results: an answer in text must not look as if it made results up.
  if (results.length > 0) return { text: `it says: ${results.at(-1)!.replace(/\[Tool results\]|<[^>]*>/g, '')}` };
  return { call: call!, args: JSON.parse(args!) as Record<string, unknown> };
}

/** The task, what the model was answered since, and all of the conversation. */
function situation(messages: readonly Message[]): [task: string, results: string[], everything: string] {
  const at = messages.findLastIndex(
    (message) => message.role === 'user' && /^(wait$|hold |\w+ \{)/.test(textOf(message)),
  );
  const results = messages
    .slice(at + 1)
    .filter((message) => message.role !== 'assistant' && !textOf(message).startsWith('<tools-changed>'));
  return [textOf(messages[at]!), results.map(textOf), messages.map(textOf).join('\n')];
}
type Asked = { messages: readonly Message[] };
const nativeScript = async ({ messages }: Asked) => native(await play(...situation(messages)));
const textScript =
  (write: typeof hermes) =>
  async ({ messages }: Asked) =>
    written(await play(...situation(messages)), write);

interface Block {
  type: string;
  text?: string;
  content?: unknown;
}
async function anthropic(body: Record<string, unknown>): Promise<unknown> {
  const blocks = (body['messages'] as { role: string; content: Block[] }[]).flatMap(({ role, content }) =>
    content.map((block): Message =>
      block.type === 'tool_result'
        ? { role: 'tool', content: JSON.stringify(block.content) }
        : { role, content: block.text ?? JSON.stringify(block) },
    ),
  );
  return anthropicAnswer(await play(...situation(blocks)), blocks.length);
}
async function responses(body: Record<string, unknown>): Promise<unknown> {
  const items = (body['input'] as { type?: string; role?: string; output?: string; content?: unknown }[]).map(
    (item): Message =>
      item.type === 'function_call_output'
        ? { role: 'tool', content: item.output }
        : {
            role: item.role ?? 'assistant',
            content: Array.isArray(item.content)
              ? (item.content as Block[]).map(({ text }) => text ?? '').join('')
              : item.content,
          },
  );
  return responsesAnswer(await play(...situation(items)), items.length);
}

const AGENTS = ['claude_text', 'claude_api', 'openai_native', 'harmony_text', 'harmony_native', 'rolling'];
const put = (name: string, more: Record<string, unknown> = {}) =>
  yard.api(`/v1/tools/${name}`, {
    method: 'PUT',
    json: { description: `Tool ${name}`, parameters, kind: 'crm', effect: 'read', category: 'read', ...more },
  });
const PATIENCE = { timeout: 60_000, interval: 100 };
/** Waits until the registry lists all of some tools and none of others. */
const sees = (wanted: string[], unwanted: string[]) =>
  vi.waitUntil(async () => {
    const { items } = (await (await yard.api('/v1/tools?limit=200')).json()) as { items: { name: string }[] };
    const names = items.map(({ name }) => name);
    return wanted.every((name) => names.includes(name)) && !unwanted.some((name) => names.includes(name));
  }, PATIENCE);
let ofNamed: RunView;
const inForce = new Map<string, RunView>();

beforeAll(async () => {
  say(listed('echo'), listed('gone'));
  claude = await startOther(anthropic);
  openai = await startOther(responses);
  const text = { native: false, models: ['demo'] };
  const calls = { native: true, models: ['demo'] };
  yard = await startStack(
    {
      claude_text: { ...text, render: 'claude_deferred', script: textScript(hermes) },
      claude_api: { ...calls, kind: 'anthropic', base_url: claude.url, render: 'claude_deferred' },
      openai_native: { ...calls, base_url: openai.url, render: 'openai_native_deferred' },
      harmony_text: { ...text, dialect: 'harmony', render: 'harmony_dispatcher', script: textScript(harmony) },
      harmony_native: { ...calls, render: 'harmony_dispatcher', script: nativeScript },
      rolling: { ...text, render: 'rolling_developer', script: textScript(hermes) },
    },
    {
      executors: ['shell', 'files', 'crm'],
      replicas: { router: 2 },
      agents: Object.fromEntries(AGENTS.map((name) => [name, { providers: [name] }])),
      env: { YM_REGISTRY_MCP_ACK_WAIT_MS: '2000' },
      config: {
        mcp_servers: { fickle: { command: 'node', args: [PEER, STATE, 'stdio'], sandbox: { read: [PEER, STATE] } } },
      },
    },
  );
  for (const name of ['crm_changed', 'crm_deleted', 'crm_retired']) expect((await put(name)).status).toBe(200);
  // The last one that the server lists too: what is registered after a run has begun would be told to it.
  await sees(['fickle__gone', 'crm_retired', `fickle__${MANY.at(-1)!.name}`], []);

  const runs = await Promise.all(AGENTS.map((agent) => yard.start({ input: 'wait', agent })));
  const named = await yard.start({
    input: 'hold crm_deleted',
    agent: 'harmony_native',
    tools: ['file_stat', 'crm_deleted', 'crm_retired'],
  });
  await vi.waitUntil(() => AGENTS.every((agent) => bodiesOf(agent).length > 0), PATIENCE);
  await vi.waitUntil(() => bodiesOf('harmony_native').length > 1, PATIENCE);

  say(listed('echo', 'Says it louder.'), listed('fresh'));
  await put('crm_new');
  await put('crm_changed', { description: 'Does something else.' });
  await put('crm_retired', { state: 'retired' });
  expect((await yard.api('/v1/tools/crm_deleted', { method: 'DELETE' })).status).toBe(204);
  await sees(['fickle__fresh', 'crm_new'], ['fickle__gone', 'crm_retired', 'crm_deleted']);
  changed();
  for (const [index, agent] of AGENTS.entries()) inForce.set(agent, await yard.settled(runs[index]!.id, 60_000));
  ofNamed = await yard.settled(named.id, 60_000);
}, 180_000);
afterAll(async () => {
  changed();
  await yard?.stop();
  claude?.stop();
  openai?.stop();
  rmSync(folder, { recursive: true, force: true });
});

type Body = Record<string, unknown>;
function bodiesOf(agent: string): Body[] {
  if (agent === 'claude_api') return claude.bodies;
  if (agent === 'openai_native') return openai.bodies;
  return yard.models[agent]!.seen.map(({ body }) => body as unknown as Body);
}
/** Marks for the provider's cache stand at the tail and move with it; they are no part of the prompt. */
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value ?? null, (key, item: unknown) => (key === 'cache_control' ? undefined : item)));
const messagesOf = (body: Body) => plain(body['messages'] ?? body['input']) as unknown[];

describe.each(AGENTS)('%s', (agent) => {
  it('is told at the tail of a running conversation, and no byte before that moves', () => {
    const run = inForce.get(agent)!;
    expect(run, JSON.stringify(run)).toMatchObject({ state: 'completed', output: 'told' });
    const bodies = bodiesOf(agent).filter((body) => !JSON.stringify(body).includes('hold crm_deleted'));
    expect(bodies.length).toBeGreaterThan(1);
    for (const [index, after] of bodies.entries()) {
      const before = bodies[index - 1];
      if (before === undefined) continue;
      expect(messagesOf(after).slice(0, messagesOf(before).length)).toEqual(messagesOf(before));
      expect(plain(after['system'] ?? after['instructions'])).toEqual(
        plain(before['system'] ?? before['instructions']),
      );
      const [now, then] = [after, before].map((body) => plain(body['tools'] ?? []) as unknown[]);
      // By reference: what came later is declared behind the others, where the provider does not cache.
      expect(now!.slice(0, then!.length)).toEqual(then);
      for (const late of now!.slice(then!.length)) expect(late).toMatchObject({ defer_loading: true });
    }
    expect(JSON.stringify(bodies[0])).not.toContain('tools-changed');
  });

  it('calls what came and hears that what went is gone, and is told nothing twice', async () => {
    const { conversation_id } = inForce.get(agent)!;
    const ask = async (input: string) => yard.settled((await yard.start({ input, agent, conversation_id })).id);
    expect((await ask('fickle__fresh {"text":"new"}')).output).toContain('Tool fresh not found');
    expect((await ask('fickle__echo {"text":"louder"}')).output).toContain('louder');
    for (const gone of ['fickle__gone', 'crm_retired', 'crm_deleted'])
      expect((await ask(`${gone} {}`)).output).toMatch(/no tool called/);
    expect(
      toldBy(
        messagesOf(bodiesOf(agent).at(-1)!)
          .map((message) => JSON.stringify(message).replaceAll('\\n', '\n'))
          .join('\n'),
      ),
    ).toEqual(ALL);
  });

  it('a new conversation has the tools of now in front and no notice', async () => {
    const from = bodiesOf(agent).length;
    const done = await yard.settled((await yard.start({ input: 'fickle__echo {"text":"x"}', agent })).id);
    expect(done.state).toBe('completed');
    const first = JSON.stringify(bodiesOf(agent)[from]);
    expect(first).not.toContain('tools-changed');
    if (!agent.startsWith('harmony')) {
      expect(first).toContain('fickle__fresh');
      expect(first).not.toContain('fickle__gone');
    }
  });
});

it('a run that names its tools goes on when one of them goes', () => {
  expect(ofNamed, JSON.stringify(ofNamed)).toMatchObject({ state: 'completed' });
  expect(ofNamed.output).toMatch(/no tool called crm_deleted/);
});
