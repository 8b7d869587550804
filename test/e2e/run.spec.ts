import { Bus } from '@yardmaster/bus';
import { apiKeyEntryName, BUCKETS, mintApiKey, ROLES, tenantId } from '@yardmaster/contracts';
import { SAMPLE_FILES, SAMPLE_TASK } from '@yardmaster/local-stack';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { OVER, readSse, type Stack, startStack } from './harness.js';

const lastUser = (messages: readonly { role: string; content?: unknown }[]) =>
  String(messages.findLast((message) => message.role === 'user')?.content ?? '');
const toolResults = (messages: readonly { role: string }[]) =>
  messages.filter((message) => message.role === 'tool').length;

let yard: Stack;
beforeAll(async () => {
  yard = await startStack(
    {
      native: {
        native: true,
        models: ['demo'],
        script: ({ messages }) => {
          const asked = lastUser(messages);
          const results = toolResults(messages);
          if (asked.startsWith('two at once'))
            return results === 0
              ? {
                  calls: [
                    { name: 'shell_run', arguments: { command: 'sleep 0.4; echo one' } },
                    { name: 'shell_run', arguments: { command: 'sleep 0.4; echo two' } },
                  ],
                }
              : { text: 'both done' };
          if (asked.startsWith('wrong call'))
            return results === 0
              ? {
                  calls: [
                    { name: 'file_read', arguments: '{"path": 5' },
                    { name: 'file_reed', arguments: { path: 'a' } },
                  ],
                }
              : { text: 'understood' };
          if (asked.startsWith('failing tool'))
            return results === 0
              ? { calls: [{ name: 'file_read', arguments: { path: 'nowhere.txt' } }] }
              : { text: 'it is not there' };
          if (asked.startsWith('for ever'))
            return { calls: [{ name: 'shell_run', arguments: { command: `echo ${messages.length}` } }] };
          if (asked.startsWith('in circles')) return { calls: [{ name: 'file_list', arguments: {} }] };
          if (asked.startsWith('fail over'))
            return results === 1
              ? { status: 503, body: 'overloaded' }
              : results === 0
                ? { calls: [{ name: 'file_list', arguments: {} }] }
                : undefined;
          return undefined;
        },
      },
      xml: {
        native: false,
        models: ['demo'],
        script: ({ messages }) => {
          const text = JSON.stringify(messages);
          if (text.includes('broken call')) {
            if (text.includes('<tool_result name=')) return { text: 'repaired' };
            const told = text.includes('Nothing was run');
            const call = '{"name": "file_list", "arguments": {"path": "."}}';
            return { text: `<tool_call>${told ? call : call.replace('": {', '" {')}</tool_call>` };
          }
          if (!text.includes('fail over')) return undefined;
          // The XML model must see its predecessor's call and result in its own dialect.
          const seen = text.includes('<tool_call>') && text.includes('<tool_result name=');
          return { text: seen ? 'taken over with the history' : 'the history is missing' };
        },
      },
    },
    { agents: { native: { providers: ['native'] }, xml: { providers: ['xml'] } } },
  );
});
afterAll(() => yard?.stop());

describe.each(['native', 'xml'])('with a model that speaks %s', (agent) => {
  it('the sample task is done: look, test, edit, test, report', async () => {
    yard.put(SAMPLE_FILES);
    const run = await yard.start({ input: SAMPLE_TASK, agent });
    const done = await yard.settled(run.id);
    expect(done).toMatchObject({ state: 'completed' });
    expect(done.output).toContain('The test passes now');
    const events = await yard.events(run.id);
    expect(events.map((event) => event.id)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)?.type).toBe('run.completed');
    const tools = events.filter((event) => event.type === 'tool.completed').map((event) => event.data['name']);
    expect(tools).toEqual(['file_list', 'shell_run', 'file_read', 'file_edit', 'shell_run']);
  });
});

it('a run goes on with an XML provider when the native one fails in the middle', async () => {
  yard.put({ 'a.txt': 'a' });
  const done = await yard.settled((await yard.start({ input: 'fail over please' })).id);
  expect(done).toMatchObject({ state: 'completed', output: 'taken over with the history' });
  const used = (await yard.events(done.id))
    .filter((event) => event.type === 'usage')
    .map((event) => event.data['dialect']);
  expect(used).toEqual(['native', 'hermes']);
});

it('calls of one answer run at the same time and are answered in order', async () => {
  const started = performance.now();
  const done = await yard.settled((await yard.start({ input: 'two at once', agent: 'native' })).id);
  expect(done).toMatchObject({ state: 'completed', output: 'both done' });
  const events = await yard.events(done.id);
  expect(events.filter((event) => event.type === 'tool.completed')).toHaveLength(2);
  const messages = yard.models['native']!.seen.at(-1)!.body.messages;
  expect(
    messages.filter((message) => message.role === 'tool').map((message) => String(message.content).split('\n')[0]),
  ).toEqual(['one', 'two']);
  // Both sleep 0.4 s: one after the other would be twice that before anything else.
  const requested = events.filter((event) => event.type === 'tool.requested');
  expect(requested).toHaveLength(2);
  expect(performance.now() - started).toBeGreaterThan(400);
});

it('calls that cannot be read or are unknown are answered, and nothing is run', async () => {
  const done = await yard.settled((await yard.start({ input: 'wrong call', agent: 'native' })).id);
  expect(done).toMatchObject({ state: 'completed', output: 'understood' });
  const answers = yard.models['native']!.seen.at(-1)!
    .body.messages.filter((message) => message.role === 'tool')
    .map((message) => String(message.content));
  expect(answers[0]).toMatch(/unterminated[\s\S]*Nothing was run/);
  expect(answers[1]).toMatch(/unknown_tool[\s\S]*file_read/);
});

it('a model that writes its calls as text and breaks one repairs it in the same turn', async () => {
  yard.put({ 'a.txt': 'a' });
  const done = await yard.settled((await yard.start({ input: 'broken call', agent: 'xml' })).id);
  expect(done).toMatchObject({ state: 'completed', output: 'repaired', steps: 3 });
  const tools = (await yard.events(done.id)).filter((event) => event.type === 'tool.completed');
  expect(tools.map((event) => event.data['ok'])).toEqual([true]);
});

it('a tool that fails is told to the model, and the run goes on', async () => {
  const done = await yard.settled((await yard.start({ input: 'failing tool', agent: 'native' })).id);
  expect(done).toMatchObject({ state: 'completed', output: 'it is not there' });
  const completed = (await yard.events(done.id)).find((event) => event.type === 'tool.completed')!;
  expect(completed.data).toMatchObject({ ok: false });
});

it('the limit of iterations ends a run with its reason', async () => {
  const done = await yard.settled(
    (await yard.start({ input: 'for ever', agent: 'native', limits: { max_iterations: 3 } })).id,
  );
  expect(done).toMatchObject({ state: 'incomplete', reason: 'max_iterations', steps: 3 });
  expect((await yard.events(done.id)).at(-1)?.type).toBe('run.incomplete');
});

it('a model that makes the same call again and again is stopped with a reason', async () => {
  const done = await yard.settled((await yard.start({ input: 'in circles', agent: 'native' })).id);
  expect(done).toMatchObject({ state: 'incomplete', reason: 'loop_detected' });
});

it('an event stream that is taken up again goes on after the last event', async () => {
  const run = await yard.start({ input: 'for ever', agent: 'native', limits: { max_iterations: 6 } });
  const ids: number[] = [];
  for (let connections = 0; connections < 50; connections++) {
    const abort = new AbortController();
    const response = await yard.api(`/v1/runs/${run.id}/events`, {
      headers: { accept: 'text/event-stream', ...(ids.length > 0 ? { 'last-event-id': String(ids.at(-1)) } : {}) },
      signal: abort.signal,
    });
    if (response.status === 204) break;
    for (const event of await readSse(response, 4)) ids.push(event.id);
    abort.abort();
  }
  expect(ids).toEqual(ids.map((_, index) => index + 1));
  expect(ids).toHaveLength((await yard.events(run.id)).length);
  expect(OVER).toContain((await yard.get(run.id)).state);
});

it('cancelling ends the command and the run', async () => {
  const run = await yard.start({ input: 'two at once' + ' ', agent: 'native' });
  await expect
    .poll(async () => (await yard.events(run.id)).some((event) => event.type === 'tool.requested'), { timeout: 10_000 })
    .toBe(true);
  const response = await yard.api(`/v1/runs/${run.id}/cancel`, { json: {} });
  expect([202, 409]).toContain(response.status);
  const done = await yard.settled(run.id);
  expect(done.state).toBe(response.status === 202 ? 'cancelled' : 'completed');
});

describe('an unknown name', () => {
  const stray = '01a2291f-cdbd-7498-92f6-3308fa66636d';
  let strangerKey: string;
  let strangers: string;
  let own: string;
  beforeAll(async () => {
    const setup = await Bus.connect({ url: yard.stack.nats.url, ...yard.stack.nats.login('setup') });
    const tenant = tenantId('stranger');
    const { key, entry } = await mintApiKey(tenant, { name: 'other', roles: [...ROLES] });
    strangerKey = key;
    await setup.kv(BUCKETS.tenants).put(apiKeyEntryName(tenant, entry.id), JSON.stringify(entry));
    await setup.close();
    await vi.waitFor(async () => expect((await stranger('/v1/me')).status).toBe(200), 10_000);
    const put = {
      method: 'PUT',
      json: { description: 'Theirs.', parameters: { type: 'object' }, kind: 'files', effect: 'read', category: 'read' },
    };
    expect((await stranger('/v1/tools/their_secret_tool', put)).ok).toBe(true);
    strangers = ((await (await stranger('/v1/conversations', { method: 'POST' })).json()) as { id: string }).id;
    own = ((await (await yard.api('/v1/conversations', { method: 'POST' })).json()) as { id: string }).id;
  });
  const stranger = (path: string, init: Parameters<Stack['api']>[1] = {}) =>
    yard.api(path, { ...init, headers: { authorization: `Bearer ${strangerKey}` } });

  it.each([
    ['agent', () => ({ agent: 'nobody' }), 'nobody', () => ['native', 'xml']],
    ['tool', () => ({ tools: ['file_reed'] }), 'file_reed', () => ['file_read', 'shell_run']],
    ['tool of another tenant', () => ({ tools: ['their_secret_tool'] }), 'their_secret_tool', () => ['file_read']],
    ['conversation', () => ({ conversation_id: stray }), stray, () => [own]],
    ['model', () => ({ model: 'gpt-99' }), 'gpt-99', () => ['demo']],
  ])('of kind %s is refused with itself and the known ones', async (_, body, name, known) => {
    const response = await yard.api('/v1/runs', { json: { input: 'x', ...body() } });
    expect(response.status).toBe(404);
    expect(response.headers.get('content-type')).toContain('application/problem+json');
    const problem = (await response.json()) as { detail: string; code: string; unknown: string[]; known: string[] };
    expect(problem.code).toMatch(/^YM-[A-Z]+-UNKNOWN$/);
    expect(problem.unknown).toEqual([name]);
    expect(problem.known).toEqual(expect.arrayContaining(known()));
    for (const one of [name, ...known()]) expect(problem.detail).toContain(one);
    // Nothing of others: neither among the known ones nor as what may have been meant.
    const told = JSON.stringify(problem).replaceAll(name, '');
    for (const theirs of ['their_secret_tool', strangers]) expect(told).not.toContain(theirs);
  });

  it('of a conversation of another tenant is as unknown as one that nobody has', async () => {
    const told = async (id: string) => {
      const response = await yard.api(`/v1/conversations/${id}`);
      const { detail } = (await response.json()) as { detail: string };
      return [response.status, detail.replace(id, 'ID')];
    };
    expect(await told(strangers)).toEqual(await told(stray));
    expect((await stranger(`/v1/conversations/${own}`)).status).toBe(404);
    expect(await (await stranger(`/v1/conversations/${stray}`)).text()).not.toContain(own);
  });
});

it('a body over 1 MiB is refused with 413', async () => {
  const response = await yard.api('/v1/runs', { json: { input: 'x'.repeat(1_100_000) } });
  expect(response.status).toBe(413);
});
