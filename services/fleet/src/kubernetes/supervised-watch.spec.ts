import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { V1EndpointSlice } from '@kubernetes/client-node';
import { FakeApiServer } from '../fake-api-server.js';
import { KubernetesConnection } from './connection.js';
import { EndpointSliceSource, linesOf } from './endpoint-slice-source.js';
import { SupervisedWatch, WATCH_SETTINGS, type WatchSettings } from './supervised-watch.js';
import { systemTiming } from './timing.js';

let server: FakeApiServer;
let kubernetes: KubernetesConnection;
let stop: AbortController;
let running: Promise<void>[];

beforeEach(async () => {
  server = await new FakeApiServer().start();
  kubernetes = new KubernetesConnection(server.kubeConfig());
  stop = new AbortController();
  running = [];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await kubernetes.close();
  await server.stop();
});

/** The real limits, with shorter waits between tries where a test waits for a try. */
function follow(settings: Partial<WatchSettings> = {}) {
  const problems: string[] = [];
  const source = new EndpointSliceSource(kubernetes, 'yard', 'app.kubernetes.io/name=llama');
  const watch = new SupervisedWatch<V1EndpointSlice>(
    source,
    systemTiming,
    { ...WATCH_SETTINGS, ...settings },
    () => undefined,
    (problem) => problems.push(problem),
  );
  running.push(watch.run(stop.signal));
  return { watch, problems, names: () => [...watch.current.values()].map(({ metadata }) => metadata!.name).sort() };
}
const watching = async (count = 1) => expect.poll(() => server.watching).toBe(count);

it('lists in pages, then follows: added, changed and deleted', async () => {
  for (const name of ['a', 'b', 'c']) server.put(name, { '10.0.0.1': {} });
  server.pageSize = 2;
  const { names, watch } = follow();
  await watching();
  expect(names()).toEqual(['a', 'b', 'c']);
  expect(server.requests.filter(({ query }) => query.has('continue'))).toHaveLength(1);
  server.put('d', { '10.0.0.2': {} });
  server.remove('a');
  await expect.poll(names).toEqual(['b', 'c', 'd']);
  server.put('d', { '10.0.0.2': { ready: false } });
  await expect.poll(() => watch.current.get('yard/d')?.endpoints?.[0]?.conditions?.ready).toBe(false);
  expect(watch.report).toMatchObject({ phase: 'watching', lists: 1, watches: 1, failures: 0 });
});

it('asks for bookmarks, and goes on from them', async () => {
  follow();
  await watching();
  expect(Object.fromEntries(server.requests.at(-1)!.query)).toMatchObject({
    allowWatchBookmarks: 'true',
    labelSelector: 'app.kubernetes.io/name=llama',
  });
  server.bookmark();
  server.bookmark();
  await expect.poll(() => server.watching).toBe(1);
  server.compact();
  server.bookmark();
  await new Promise((resolve) => setTimeout(resolve, 50));
  server.endWatches();
  // From the bookmark: the version of the list would be too old by now.
  await watching();
  expect(server.requests.filter(({ query }) => !query.has('watch'))).toHaveLength(1);
});

describe('a pod that is deleted while the connection is away is gone when it is back', () => {
  const cases: [string, () => void | Promise<void>, (() => void | Promise<void>)?][] = [
    ['reset', () => server.cut()],
    ['half-closed in the middle of a chunk', () => server.halfClose()],
    ['ended by the server', () => server.endWatches()],
    ['410 inside the stream', () => (server.compact(), server.expireWatches())],
    ['410 as the status of the next watch', () => (server.compact(), server.cut())],
    ['500 for watches', () => ((server.faults = { watchStatus: 500 }), server.cut()), () => void (server.faults = {})],
    [
      '500 for lists and watches',
      () => ((server.faults = { watchStatus: 500, listStatus: 500 }), server.compact(), server.cut()),
      () => void (server.faults = {}),
    ],
    ['restart', () => server.stop(), async () => void (await server.start())],
    [
      'restart that forgot the past',
      async () => (await server.stop(), server.compact()),
      async () => void (await server.start()),
    ],
  ];
  it.each(cases)('%s', async (_, breakIt, repair = () => undefined) => {
    server.put('stays', { '10.0.0.1': {} });
    server.put('goes', { '10.0.0.2': {} });
    // The least wait is that of the defaults; the longest is short, so that the test does not wait for minutes.
    const { names } = follow({ backoffCapMs: 500 });
    await watching();
    await breakIt();
    server.remove('goes');
    await new Promise((resolve) => setTimeout(resolve, 100));
    await repair();
    const repairedAt = performance.now();
    let reconnectedAt = 0;
    while (names().includes('goes')) {
      // The first request after the repair that is not refused.
      if (reconnectedAt === 0 && server.watching > 0) reconnectedAt = performance.now();
      expect(performance.now() - repairedAt).toBeLessThan(5_000);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const sinceReconnect = reconnectedAt === 0 ? 0 : performance.now() - reconnectedAt;
    expect(sinceReconnect).toBeLessThanOrEqual(1_000);
    expect(names()).toEqual(['stays']);
    await watching();
    server.put('new', { '10.0.0.3': {} });
    await expect.poll(names).toEqual(['new', 'stays']);
  });
});

it('a watch that hangs is ended at its limit, and what it hid is found', async () => {
  server.put('goes', { '10.0.0.2': {} });
  server.faults = { hangWatches: true };
  const { names, problems } = follow({ watchMs: 400, graceMs: 200, relistMs: 300, backoffCapMs: 100 });
  await watching();
  server.remove('goes');
  await expect.poll(names, { timeout: 5_000 }).toEqual([]);
  expect(problems.join()).toContain('the watch hung');
});

it('with the limits that ship, whatever a watch hides is found within five minutes', () => {
  const { watchMs, graceMs, relistMs, listMs } = WATCH_SETTINGS;
  expect(relistMs + 1.25 * watchMs + graceMs + listMs).toBeLessThanOrEqual(300_000);
});

it('a deletion that a watch never told of is found by the next list', async () => {
  server.put('lost', { '10.0.0.2': {} });
  const { names } = follow({ watchMs: 200, relistMs: 500 });
  await watching();
  // Without an event, as in a gap that nobody noticed.
  server.slices.delete('lost');
  await expect.poll(names, { timeout: 5_000 }).toEqual([]);
});

it('a connection that was away for long is not trusted with where it left off', async () => {
  server.put('a', { '10.0.0.2': {} });
  const { watch, names } = follow({ lostMs: 300, backoffMs: 100, backoffCapMs: 100 });
  await watching();
  server.faults = { watchStatus: 500, listStatus: 500 };
  server.cut();
  await new Promise((resolve) => setTimeout(resolve, 500));
  // Without an event: going on where it left off would not tell.
  server.slices.delete('a');
  server.faults = {};
  await expect.poll(names).toEqual([]);
  expect(watch.report.lists).toBeGreaterThan(1);
});

it('a server that fails for ever is asked less and less often', async () => {
  server.faults = { listStatus: 500 };
  const waits: number[] = [];
  const source = new EndpointSliceSource(kubernetes, 'yard', '');
  const timing = {
    ...systemTiming,
    random: () => 1,
    sleep: (ms: number) => (waits.push(ms), waits.length === 9 ? stop.abort() : undefined, Promise.resolve()),
  };
  await new SupervisedWatch(source, timing, WATCH_SETTINGS, () => undefined).run(stop.signal);
  expect(waits).toEqual([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
});

it('told to stop, it stops at once, wherever it is, and opens nothing after it', async () => {
  const { watch } = follow();
  await watching();
  stop.abort();
  await Promise.all(running);
  await expect.poll(() => server.watching).toBe(0);
  expect(watch.report.phase).toBe('stopped');
  // In the middle of the first list too, where the informer of the library opens a watch afterwards.
  let release = (): void => undefined;
  server.intercept = ({ path }) =>
    path.endsWith('endpointslices') ? new Promise((resolve) => (release = () => resolve(undefined))) : undefined;
  const again = new AbortController();
  const second = new SupervisedWatch(
    new EndpointSliceSource(kubernetes, 'yard', ''),
    systemTiming,
    WATCH_SETTINGS,
    () => expect.unreachable(),
  );
  const run = second.run(again.signal);
  await new Promise((resolve) => setTimeout(resolve, 50));
  again.abort();
  await run;
  release();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(second.report.watches).toBe(0);
});

it('all requests of a watch go over few connections', async () => {
  follow({ watchMs: 100, relistMs: 0, settledMs: 0 });
  await expect.poll(() => server.requests.length, { timeout: 20_000 }).toBeGreaterThan(10);
  expect(server.connections).toBeLessThanOrEqual(2);
});

it('lines are joined over chunks, in the middle of characters too; a cut line is an error', async () => {
  const bytes = new TextEncoder().encode('{"a":"grüße"}\n\n{"b":1}\n');
  const read = async (pieces: Uint8Array[]) => {
    const lines: string[] = [];
    for await (const line of linesOf(
      (async function* () {
        yield* pieces;
        await Promise.resolve();
      })(),
    ))
      lines.push(line);
    return lines;
  };
  for (let at = 0; at <= bytes.length; at++)
    expect(await read([bytes.slice(0, at), bytes.slice(at)])).toEqual(['{"a":"grüße"}', '{"b":1}']);
  await expect(read([bytes.slice(0, 5)])).rejects.toThrow('in the middle of a line');
});
