// Follows a fake API server whose connections are cut again and again, and says what that costs: sockets, heap, and how
// long a deleted pod stays known.
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { V1EndpointSlice } from '@kubernetes/client-node';
import { FakeApiServer } from '../fake-api-server.js';
import { KubernetesConnection } from './connection.js';
import { EndpointSliceSource } from './endpoint-slice-source.js';
import { SupervisedWatch, WATCH_SETTINGS } from './supervised-watch.js';
import { systemTiming } from './timing.js';

export interface SoakResult {
  cuts: number;
  /** Pods that were deleted while the connection was away. */
  deleted: number;
  /** From the reconnection to the moment that the deletion was known, in milliseconds: the worst. */
  worstMs: number;
  /** The most connections at the server at one time. */
  mostConnections: number;
  /** Used heap after collecting garbage, a quarter into the run and at its end, in bytes. */
  heapBefore: number;
  heapAfter: number;
  /** Deletions that never came to be known. */
  lost: number;
}

/** A wait of 5 ms that took longer than this was no wait for the connection. */
const MOST_GAP_MS = 50;

/** Cuts in turn: reset, half-closed, ended, 410, 500, restart. */
export async function soak(seconds: number, everySeconds: number): Promise<SoakResult> {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const server = await new FakeApiServer().start();
  const kubernetes = new KubernetesConnection(server.kubeConfig());
  const stop = new AbortController();
  const source = new EndpointSliceSource(kubernetes, 'yard', 'app.kubernetes.io/name=llama');
  const watch = new SupervisedWatch<V1EndpointSlice>(source, systemTiming, WATCH_SETTINGS, () => undefined);
  const running = watch.run(stop.signal);
  const result: SoakResult = {
    cuts: 0,
    deleted: 0,
    worstMs: 0,
    mostConnections: 0,
    heapBefore: 0,
    heapAfter: 0,
    lost: 0,
  };
  const heap = async () => {
    // What hangs on weak references and finalizers goes a turn of the event loop after its collection.
    for (let round = 0; round < 4; round++) {
      gc();
      await sleep(20);
    }
    return process.memoryUsage().heapUsed;
  };
  const kinds: (() => void | Promise<void>)[] = [
    () => server.cut(),
    () => server.halfClose(),
    () => server.endWatches(),
    () => (server.compact(), server.expireWatches()),
    async () => {
      server.faults = { watchStatus: 500 };
      server.cut();
      await sleep(200);
      server.faults = {};
    },
    async () => {
      await server.stop();
      await server.start();
    },
  ];
  const cuts = Math.floor(seconds / everySeconds);
  const began = performance.now();
  for (let i = 0; i < cuts; i++) {
    await sleep(Math.max(0, began + i * everySeconds * 1000 - performance.now()));
    const name = `pod-${i}`;
    server.put(name, { [`10.0.${i >> 8}.${i & 255}`]: {} });
    await waitFor(() => watch.current.has(`yard/${name}`), 40_000);
    const breaking = kinds[i % kinds.length]!();
    server.remove(name);
    result.cuts++;
    await breaking;
    // Back: the first watch that the server has after the cut.
    await waitFor(() => server.watching > 0, 40_000);
    const tookMs = await waitFor(() => !watch.current.has(`yard/${name}`), 40_000);
    result.deleted++;
    if (tookMs === undefined) result.lost++;
    else result.worstMs = Math.max(result.worstMs, tookMs);
    result.mostConnections = Math.max(result.mostConnections, server.connections);
    // The fake server's own memory must not count as the fleet's.
    server.requests.length = 0;
    server.forget();
    if (i === Math.floor(cuts / 4)) result.heapBefore = await heap();
  }
  result.heapAfter = await heap();
  stop.abort();
  await running;
  await kubernetes.close();
  await server.stop();
  return result;
}

/** Undefined when it did not come to hold in time, else how long it took, without the times that this process got no CPU. */
async function waitFor(holds: () => boolean, ms: number): Promise<number | undefined> {
  const until = performance.now() + ms;
  let waited = 0;
  for (let at = performance.now(); !holds();) {
    if (at > until) return undefined;
    await sleep(5);
    const now = performance.now();
    // A gap that is longer is the machine's: on one with other work a process may stand still for a second.
    waited += Math.min(now - at, MOST_GAP_MS);
    at = now;
  }
  return waited;
}
