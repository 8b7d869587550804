import type { V1EndpointSlice } from '@kubernetes/client-node';
import { createLogger, type FoundProvider, type PlatformConfig } from '@yardmaster/service-kit';
import { afterEach, expect, it } from 'vitest';
import { ApiFailure } from '../kubernetes/connection.js';
import { WATCH_SETTINGS, type WatchSource } from '../kubernetes/supervised-watch.js';
import { systemTiming } from '../kubernetes/timing.js';
import { LlamaPods } from './llama-pods.js';
import { PodCheck } from './pod-check.js';

const stop = new AbortController();
const check = new PodCheck({ timeoutMs: 500 });
let running: Promise<void> | undefined;
afterEach(async () => {
  stop.abort();
  await running;
  await check.close();
});

/** A namespace with nothing in it, whose watches say nothing. */
const empty: WatchSource<V1EndpointSlice> = {
  list: () => Promise.resolve({ items: [], resourceVersion: '1', continue: undefined }),
  async *watch(_, signal) {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    yield* [];
  },
};
const forbidden: WatchSource<V1EndpointSlice> = {
  ...empty,
  list: () => Promise.reject(new ApiFailure(403, 'the API server answers 403: no Role')),
};
const entry = (namespace: string) =>
  ({ kind: 'llamacpp', base_url: 'http://10.0.0.1:8080/v1', found: { namespace, phase: 'ready' } }) as FoundProvider;

it('a namespace that may not be read keeps its own entries, and nobody else’s; that nothing comes from it is measured', async () => {
  const stored = new Map<string, FoundProvider>([
    ['p/read/gone', entry('read')],
    ['p/forbidden/kept', entry('forbidden')],
    ['p/dropped/gone', entry('dropped')],
    ['by-hand', { kind: 'llamacpp', base_url: 'http://10.0.0.2:8080/v1' } as FoundProvider],
  ]);
  const pods = new LlamaPods({
    sources: new Map([
      ['read', empty],
      ['forbidden', forbidden],
    ]),
    ownNamespace: 'read',
    watch: WATCH_SETTINGS,
    check,
    checkMs: 20,
    config: () => ({ providers: {} }) as unknown as PlatformConfig,
    store: {
      put: () => Promise.resolve(1),
      delete: (key: string) => {
        stored.delete(key);
        return Promise.resolve();
      },
    },
    stored: { current: stored },
    mayWrite: () => true,
    timing: systemTiming,
    log: createLogger('fleet', 'silent'),
  });
  running = pods.run(stop.signal);
  await expect.poll(() => [...stored.keys()]).toEqual(['p/forbidden/kept', 'by-hand']);
  const age = () => pods.reports.find(({ namespace }) => namespace === 'forbidden')!;
  const before = age();
  expect(before.ageMs).toBeUndefined();
  await expect.poll(() => age().unheardMs).toBeGreaterThan(before.unheardMs + 50);
  expect([...stored.keys()]).toEqual(['p/forbidden/kept', 'by-hand']);
});
