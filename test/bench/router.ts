// The router against another gateway in the same run, with the same mock provider: CPU and throughput over HTTP (api,
// router and nats-server together) and alone (asked over NATS), memory, and what an outage of the provider costs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench, Row } from './report.ts';

const { LocalStack } = await import('../../services/yard/dist/stack/local-stack.js');
const { Workers } = await import(new URL('../floors/lib/processes.mjs', import.meta.url).href);

const PEER = new URL('./node_modules/@portkey-ai/gateway/build/start-server.js', import.meta.url).pathname;
const IN_FLIGHT = 32;
const MIB = 1024 * 1024;

interface Load {
  count: number;
  perSecond: number;
  p50: number;
}
interface Measured {
  rate: number;
  p50: number;
  /** CPU ms per request, by process. */
  cpu: Record<string, number>;
}
type Way = 'peer' | 'http' | 'nats';
const WAYS: readonly Way[] = ['peer', 'http', 'nats'];
const MODELS = ['whole', 'chunks'] as const;

export const bench: Bench = async function* ({ quick }) {
  const seconds = quick ? 2 : 4;
  const rounds = quick ? 1 : 3;
  const state = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  const workers = new Workers();
  const mock = await workers.start(new URL('./router/mock.ts', import.meta.url));
  const spare = await workers.start(new URL('./router/mock.ts', import.meta.url));
  const at = (url: string, models: string[]) => ({
    kind: 'openai',
    base_url: `${url}/v1`,
    auth: 'none',
    demo: true,
    models,
  });
  const yaml = JSON.stringify({
    providers: {
      mock: at(mock.ready, ['whole', 'chunks', 'slow', 'either']),
      spare: at(spare.ready, ['either']),
    },
    routing: { default_model: 'whole', retries: 1, backoff_ms: 10 },
  });
  const stack = await LocalStack.start({
    state,
    model: { yaml, words: '', model: 'whole', demo: true },
    replicas: { 'executor-shell': 0, 'executor-files': 0, dispatcher: 0 },
    apiPort: 0,
    logLevel: 'error',
    onProgress: () => {},
  });
  let peer: Awaited<ReturnType<typeof startPeer>> | undefined;
  try {
    if (existsSync(PEER)) peer = await startPeer();
    const client = await workers.start(new URL('./router/client.ts', import.meta.url), {
      natsUrl: stack.nats.url,
      natsPass: stack.nats.login('api').pass,
    });
    const router = stack.pids.get('router')!;
    const pids: Record<string, number> = {
      api: stack.pids.get('api')!,
      router,
      nats: stack.nats.pid,
      ...(peer && { peer: peer.pid }),
    };
    const measure = async (way: Way, model: string, inFlight: number, forSeconds: number): Promise<Measured> => {
      const target =
        way === 'peer'
          ? {
              url: peer!.url,
              headers: {
                'x-portkey-provider': 'openai',
                'x-portkey-custom-host': `${mock.ready}/v1`,
                authorization: 'Bearer x',
              },
            }
          : { url: stack.file.api_url, headers: { authorization: `Bearer ${stack.file.api_key}` } };
      const before = cpuOf(pids);
      const load: Load =
        way === 'nats'
          ? await client.call('nats', { model, inFlight, seconds: forSeconds }, 120_000)
          : await client.call(
              'http',
              { ...target, model, stream: model === 'chunks', inFlight, seconds: forSeconds },
              120_000,
            );
      const after = cpuOf(pids);
      return {
        rate: load.perSecond,
        p50: load.p50 / 1000,
        cpu: Object.fromEntries(Object.keys(pids).map((name) => [name, (after[name]! - before[name]!) / load.count])),
      };
    };
    const ways = WAYS.filter((way) => way !== 'peer' || peer !== undefined);
    const found = new Map<string, Measured[]>();
    // Until the code that is hot has been compiled: in the first seconds every request costs several times as much.
    for (const way of ways) for (const model of MODELS) await measure(way, model, IN_FLIGHT, quick ? 3 : 6);
    for (let round = 0; round < rounds; round++)
      for (const model of MODELS)
        for (const way of ways) {
          const key = `${way} ${model}`;
          found.set(key, [...(found.get(key) ?? []), await measure(way, model, IN_FLIGHT, seconds)]);
        }
    for (const way of ways) found.set(`${way} one`, [await measure(way, 'whole', 1, seconds)]);
    yield* compare(found, peer !== undefined);
    yield* outage(client, mock, spare);
    yield* memory(client, router, quick);
  } finally {
    await workers.end(workers.running);
    await stack.stop();
    await peer?.stop();
    rmSync(state, { recursive: true, force: true });
  }
};

function* compare(found: ReadonlyMap<string, Measured[]>, hasPeer: boolean): Generator<Row> {
  const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
  const of = (key: string, pick: (measured: Measured) => number) => median(found.get(key)?.map(pick) ?? [Number.NaN]);
  const all = ({ cpu }: Measured) => cpu['api']! + cpu['router']! + cpu['nats']!;
  const own = ({ cpu }: Measured) => cpu['router']!;
  const peers = ({ cpu }: Measured) => cpu['peer']!;
  const rate = (measured: Measured) => measured.rate;
  if (!hasPeer)
    yield {
      bench: 'router',
      metric: 'peer',
      value: 0,
      unit: '',
      against: 'skipped: not installed (npm ci --prefix test/bench)',
    };
  const row = (
    metric: string,
    unit: string,
    value: number,
    peer: number,
    target: [op: '<=' | '>=', ratio: number],
  ): Row => {
    if (!hasPeer) return { bench: 'router', metric, value, unit };
    const ratio = value / peer;
    return {
      bench: 'router',
      metric,
      value,
      unit,
      against: `portkey ${peer.toPrecision(3)}`,
      ratio,
      target: `${target[0]} ${target[1]}x`,
      ok: target[0] === '<=' ? ratio <= target[1] : ratio >= target[1],
    };
  };
  const cpuOfPeer = (model: string) => of(`peer ${model}`, peers);
  yield row('http cpu api+router+nats@32', 'ms/req', of('http whole', all), cpuOfPeer('whole'), ['<=', 0.8]);
  yield row('http throughput@32', '1/s', of('http whole', rate), of('peer whole', rate), ['>=', 1.5]);
  yield row('router cpu@32', 'ms/req', of('nats whole', own), cpuOfPeer('whole'), ['<=', 0.4]);
  yield row('router throughput@32', '1/s', of('nats whole', rate), of('peer whole', rate), ['>=', 2.5]);
  yield row('router cpu of a 50-chunk stream', 'ms/req', of('nats chunks', own), cpuOfPeer('chunks'), ['<=', 0.4]);
  const peerP50 = of('peer one', ({ p50 }) => p50);
  yield {
    bench: 'router',
    metric: 'http p50@1',
    value: of('http one', ({ p50 }) => p50),
    unit: 'ms',
    ...(hasPeer && { against: `portkey ${peerP50.toPrecision(3)}` }),
  };
  for (const name of ['api', 'router', 'nats']) {
    yield {
      bench: 'router',
      metric: `http cpu ${name}@32`,
      value: of('http whole', ({ cpu }) => cpu[name]!),
      unit: 'ms/req',
    };
    yield {
      bench: 'router',
      metric: `http cpu ${name}, 50-chunk stream`,
      value: of('http chunks', ({ cpu }) => cpu[name]!),
      unit: 'ms/req',
    };
  }
}

interface Worker {
  ready: string;
  call(method: string, argument?: unknown, timeoutMs?: number): Promise<unknown>;
}

/** The first provider is down for a while and comes back: who is served, how often it is asked, how soon it is used again. */
async function* outage(client: Worker, mock: Worker, spare: Worker): AsyncGenerator<Row> {
  const ask = (requests: number, pauseMs: number) =>
    client.call('unserved', { model: 'either', requests, pauseMs }, 120_000) as Promise<number>;
  await mock.call('setDown', true);
  // Enough failures to open the circuit.
  let failed = await ask(10, 0);
  await mock.call('forget');
  const began = Date.now();
  failed += await ask(110, 100);
  const lastedS = (Date.now() - began) / 1000;
  const probes = ((await mock.call('seen')) as number[]).length;
  const count = (metric: string, value: number, unit: string, most: number): Row => ({
    bench: 'router',
    metric,
    value,
    unit,
    target: `<= ${most}`,
    ok: value <= most,
  });
  yield count('outage: requests not served', failed, 'of 120', 0);
  yield count('outage: probes in 5 s', (probes / lastedS) * 5, '', 1);
  await mock.call('setDown', false);
  await spare.call('forget');
  const back = Date.now();
  let served: number[] = [];
  while (served.length === 0 && Date.now() - back < 15_000) {
    await ask(1, 50);
    served = (await mock.call('seen')) as number[];
  }
  yield count('outage: back after', (Date.now() - back) / 1000, 's', 10);
}

/** Resident memory of the router under many slow streams, and whether it grows from request to request. */
async function* memory(client: Worker, router: number, quick: boolean): AsyncGenerator<Row> {
  const streams = client.call('nats', { model: 'slow', inFlight: 200, seconds: 0.1 }, 180_000);
  let most = 0;
  let over = false;
  void streams.finally(() => (over = true)).catch(() => undefined);
  while (!over) {
    most = Math.max(most, rssOf(router));
    await sleep(200);
  }
  await streams;
  const mib = (metric: string, value: number, bound: number): Row => ({
    bench: 'router',
    metric,
    value: value / MIB,
    unit: 'MiB',
    target: `<= ${bound}`,
    ok: value / MIB <= bound,
  });
  yield mib('rss under 200 slow streams', most, 250);
  const half = quick ? 2_000 : 20_000;
  const settled = async () => {
    await client.call('count', { model: 'whole', requests: half, inFlight: IN_FLIGHT }, 600_000);
    await sleep(1_000);
    return rssOf(router);
  };
  const first = await settled();
  const second = await settled();
  yield mib(`rss after ${half * 2} requests`, second, 250);
  yield mib(`growth of the second ${half} requests`, second - first, 10);
}

async function startPeer(): Promise<{ url: string; pid: number; stop(): Promise<void> }> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  const child = spawn(process.execPath, [PEER, '--headless', `--port=${port}`], {
    stdio: 'ignore',
    env: { PATH: process.env['PATH'], NODE_ENV: 'production' },
  });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    const isUp = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isUp) break;
    if (tries > 100 || child.exitCode !== null) throw new Error('the other gateway does not start');
    await sleep(100);
  }
  return {
    url,
    pid: child.pid!,
    async stop() {
      if (child.exitCode !== null) return;
      const exit = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 3_000);
      await exit;
      clearTimeout(timer);
    },
  };
}

/** User and system time in ms, in steps of 10 ms (Linux). */
function cpuOf(pids: Record<string, number>): Record<string, number> {
  const millis = (pid: number) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  };
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, millis(pid)]));
}

function rssOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) * 1024;
}
