import { Bus } from '@yardmaster/bus';
import { BUCKETS } from '@yardmaster/contracts';
import type { PodPhase } from '@yardmaster/service-kit';
import { type FaultConnection, type FaultScript, type FaultServer, startFaultServer } from '@yardmaster/testkit';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type Stack, startStack } from './harness.js';

// The router and the pods that the fleet has found: what stands in `ym_providers` decides who is asked.
const PODS = ['llama-a', 'llama-b', 'llama-c'];
const SLOTS = 2;
const USAGE = {
  prompt_tokens: 40,
  completion_tokens: 2,
  total_tokens: 42,
  prompt_tokens_details: { cached_tokens: 30 },
};

const servers = new Map<string, FaultServer>();
let yard: Stack;
let fleet: Bus;

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
function answer(connection: FaultConnection): void {
  connection.head(200);
  connection.chunk(event({ choices: [{ index: 0, delta: { content: 'yes' }, finish_reason: null }] }));
  connection.chunk(event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }));
  connection.chunk(event({ choices: [], usage: USAGE }));
  connection.chunk('data: [DONE]\n\n');
  connection.end();
}
const healthy: FaultScript = (_request, connection) => answer(connection);
const loading: FaultScript = (_request, connection) =>
  connection.json(503, { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } });

/** How often each pod was asked. */
const asked = () => Object.fromEntries(PODS.map((pod) => [pod, servers.get(pod)!.requests.length]));
/** What was asked since. */
const since = (before: Record<string, number>) =>
  Object.fromEntries(Object.entries(asked()).map(([pod, count]) => [pod, count - before[pod]!]));

/** Says of a pod what the fleet would say, and waits until the router knows. */
async function say(pod: string, phase: PodPhase): Promise<void> {
  const entry = {
    kind: 'llamacpp',
    base_url: `${servers.get(pod)!.url}/v1`,
    slots: SLOTS,
    context: 8192,
    native_tools: true,
    models: ['qwen'],
    found: {
      provider: 'local',
      pod,
      namespace: 'yard',
      node: 'n1',
      phase,
      reason: phase === 'ready' ? '' : 'a test says so',
      since_ms: 0,
      seen_ms: 0,
    },
  };
  await fleet.kv(BUCKETS.providers).put(`local/yard/${pod}`, JSON.stringify(entry));
  await expect
    .poll(async () => (await healthOf(pod)) ?? '', { timeout: 20_000 })
    .toMatch(phase === 'ready' ? /^(?!loading|draining)./ : phase);
}
const healthOf = async (pod: string): Promise<string | undefined> => {
  const { items } = (await (await yard.api('/v1/providers')).json()) as {
    items: { pod?: string; health: string }[];
  };
  return items.find((one) => one.pod === pod)?.health;
};

const chat = (signal?: AbortSignal) =>
  yard.api('/v1/chat/completions', {
    json: { model: 'qwen', messages: [{ role: 'user', content: 'hello' }] },
    ...(signal === undefined ? {} : { signal }),
  });
async function answered(times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    const response = await chat();
    expect(response.status, await response.text()).toBe(200);
  }
}

beforeAll(async () => {
  for (const pod of PODS) servers.set(pod, await startFaultServer(healthy));
  yard = await startStack(
    {},
    {
      routing: { providers: ['local'], default_model: 'qwen', retries: 3 },
      agents: { plain: { model: 'qwen', tools: [] } },
    },
  );
  fleet = await Bus.connect({ url: yard.stack.nats.url, ...yard.stack.nats.login('fleet') });
});
beforeEach(async () => {
  for (const pod of PODS) {
    servers.get(pod)!.script = healthy;
    await say(pod, 'ready');
  }
  // A circuit that a test has opened closes with the first probe that is answered.
  await expect
    .poll(
      async () => {
        await answered(3);
        return Promise.all(PODS.map(healthOf));
      },
      { timeout: 60_000, interval: 200 },
    )
    .toEqual(PODS.map(() => 'up'));
});
afterAll(async () => {
  await fleet?.close();
  await yard?.stop();
  for (const server of servers.values()) await server.close();
});

it('a conversation stays with its pod, and conversations are spread', async () => {
  const homes = new Set<string>();
  for (let one = 0; one < 20 && homes.size < 2; one++) {
    let conversation: string | undefined;
    const pods = new Set<string>();
    for (let turn = 0; turn < 3; turn++) {
      const before = asked();
      const { id } = await yard.start({
        agent: 'plain',
        input: `turn ${turn}`,
        ...(conversation === undefined ? {} : { conversation_id: conversation }),
      });
      const view = await yard.settled(id);
      expect(view).toMatchObject({ state: 'completed', output: 'yes' });
      conversation = view.conversation_id;
      for (const [pod, count] of Object.entries(since(before))) if (count > 0) pods.add(pod);
    }
    expect([...pods]).toHaveLength(1);
    homes.add([...pods][0]!);
  }
  expect(homes.size).toBeGreaterThan(1);
});

it('no pod gets more requests at once than it has slots while another has one free', async () => {
  // By chance alone three rounds of six would all fall two by two once in five hundred times.
  for (let round = 0; round < 3; round++) {
    const open: FaultConnection[] = [];
    for (const server of servers.values()) server.script = (_request, connection) => void open.push(connection);
    const before = asked();
    const running: Promise<Response>[] = [];
    while (running.length < SLOTS * PODS.length) {
      running.push(chat());
      await expect.poll(() => open.length, { timeout: 20_000, interval: 10 }).toBe(running.length);
    }
    expect(since(before)).toEqual(Object.fromEntries(PODS.map((pod) => [pod, SLOTS])));
    for (const connection of open) answer(connection);
    for (const response of await Promise.all(running)) expect(response.status).toBe(200);
  }
});

it.each<PodPhase>(['loading', 'draining', 'unhealthy', 'unchecked'])(
  'a pod that is %s gets nothing until it is ready again',
  async (phase) => {
    const [pod] = PODS as [string];
    const entry = await fleet.kv(BUCKETS.providers).get(`local/yard/${pod}`);
    expect(entry).toBeDefined();
    const said = JSON.parse(new TextDecoder().decode(entry!.value)) as { found: { phase: string } };
    said.found.phase = phase;
    await fleet.kv(BUCKETS.providers).put(`local/yard/${pod}`, JSON.stringify(said));
    await expect.poll(() => healthOf(pod), { timeout: 20_000 }).toBe(phase === 'unchecked' ? 'loading' : phase);
    const before = asked();
    await answered(15);
    expect(since(before)[pod]).toBe(0);
    await say(pod, 'ready');
    await expect
      .poll(
        async () => {
          await answered(1);
          return since(before)[pod];
        },
        { timeout: 20_000 },
      )
      .toBe(1);
  },
);

it('a request that is already being tried leaves a pod that begins to drain alone', async () => {
  const before = asked();
  let first: string | undefined;
  let told: Promise<void> | undefined;
  for (const pod of PODS)
    servers.get(pod)!.script = async (request, connection) => {
      first ??= pod;
      // Every pod fails once; before the second one says so, the first one is known to drain.
      if (pod !== first) await (told ??= say(first, 'draining'));
      if (since(before)[pod]! > 1) answer(connection);
      else await loading(request, connection);
    };
  const response = await chat();
  expect(response.status, await response.text()).toBe(200);
  expect(told).toBeDefined();
  expect(since(before)[first!]).toBe(1);
  expect(Object.values(since(before)).sort()).toEqual([1, 1, 2]);
});

it('with no pod ready the caller is told to come back, and nobody is asked', async () => {
  for (const pod of PODS) await say(pod, 'loading');
  const before = asked();
  const response = await chat();
  expect(response.status).toBe(503);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(await response.text()).toMatch(/No pod that could answer is ready: llama-. is loading/);
  expect(Object.values(since(before))).toEqual([0, 0, 0]);
});

it('a pod that nobody answers at is left out after one request, and is back after a probe', async () => {
  const [pod] = PODS as [string];
  servers.get(pod)!.script = (_request, connection) => connection.reset();
  const before = asked();
  const until = performance.now() + 30_000;
  while (since(before)[pod] === 0 && performance.now() < until) await answered(1);
  const openedAt = performance.now();
  expect(since(before)[pod]).toBe(1);
  expect(await healthOf(pod)).toBe('open');
  await answered(15);
  // One probe in five seconds, however long the requests took.
  expect(since(before)[pod]! - 1).toBeLessThanOrEqual(Math.floor((performance.now() - openedAt) / 5_000));
  servers.get(pod)!.script = healthy;
  await expect
    .poll(
      async () => {
        await answered(1);
        return healthOf(pod);
      },
      { timeout: 30_000, interval: 200 },
    )
    .toBe('up');
});

it('the tokens that came out of the caches of pods are counted', async () => {
  const tokens = async (kind: string) => {
    const { metricsPort } = yard.stack.readyLines.get('router')!;
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    const line = text
      .split('\n')
      .find((one) => one.startsWith('yardmaster_llm_tokens_total{provider="local",model="qwen",kind="' + kind));
    return Number(line?.split(' ').at(-1) ?? 0);
  };
  const before = { prompt: await tokens('prompt'), cached: await tokens('cached') };
  await answered(2);
  expect(await tokens('prompt')).toBe(before.prompt + 2 * USAGE.prompt_tokens);
  expect(await tokens('cached')).toBe(before.cached + 2 * USAGE.prompt_tokens_details.cached_tokens);
});
