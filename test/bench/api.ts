// The HTTP API: a start against what it must do at least (one publish, two Redis round trips); event streams against a
// plain fan-out of the same messages.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, get, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Bus, ensureTopology } from '@yardmaster/bus';
import {
  apiKeyEntryName,
  BUCKETS,
  messages,
  mintApiKey,
  redisUsers,
  ROLES,
  Runs,
  subjects,
  tenantId,
} from '@yardmaster/contracts';
import { connectRedis, loadFunctions } from '@yardmaster/conversation';
import { natsTable, startNats, startRedis } from '@yardmaster/local-stack';
import type { Bench, Row } from './report.ts';

const TENANT = tenantId('bench');
const agent = new Agent({ keepAlive: true, maxSockets: 1_000 });

export const bench: Bench = async function* ({ quick }) {
  const dir = mkdtempSync(join(tmpdir(), 'yardmaster-bench-api-'));
  const table = natsTable([]);
  const everything = { user: 'floors', publish: ['>'], subscribe: ['>'] };
  const [nats, redis] = await Promise.all([
    startNats({ accounts: { ...table, users: [...table.users, everything] } }),
    startRedis({ users: redisUsers() }),
  ]);
  const bus = await Bus.connect({ url: nats.url, ...nats.login('setup') });
  const children: ChildProcess[] = [];
  const closing: (() => Promise<void>)[] = [];
  try {
    // No share: what is measured is the start, not the waiting list.
    await ensureTopology(bus, { kinds: [], share: 1_000_000 });
    const bootstrap = connectRedis({ url: redis.urlFor('bootstrap') });
    await loadFunctions(bootstrap);
    bootstrap.disconnect();
    const { key, entry } = await mintApiKey(TENANT, { name: 'bench', roles: [...ROLES] });
    await bus.kv(BUCKETS.tenants).put(apiKeyEntryName(TENANT, entry.id), JSON.stringify(entry));

    const secret = (name: string, text: string) => {
      writeFileSync(join(dir, name), text, { mode: 0o600 });
      return join(dir, name);
    };
    const api = spawn(process.execPath, [join(import.meta.dirname, '../../services/api/dist/main.js')], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        PATH: process.env['PATH'],
        YM_NATS_URL: nats.url,
        YM_NATS_PASSWORD_FILE: secret('nats', nats.login('api').pass),
        YM_REDIS_URL: redis.url,
        YM_REDIS_USER: 'api',
        YM_REDIS_PASSWORD_FILE: secret('redis', new URL(redis.urlFor('api')).password),
        YM_API_PORT: '0',
        YM_PARENT_PID: String(process.pid),
      },
    });
    children.push(api);
    const ready = (await firstLine(api, (line) => line.includes('"ready"'))) as { api_url: string; ready_ms: number };
    yield { bench: 'api', metric: 'ready after', value: ready.ready_ms, unit: 'ms' };
    yield {
      bench: 'api',
      metric: 'idle RSS',
      value: rssMiB(api.pid!),
      unit: 'MiB',
      target: '<= 160',
      ok: rssMiB(api.pid!) <= 160,
    };

    // Someone takes the runs out of the queue, as in real life: the server's time per publish grows with what lies there.
    const taker = await Bus.connect({ url: nats.url, ...nats.login('dispatcher') });
    taker.work(Runs.work, () => undefined, { slots: 64 });
    closing.push(() => taker.close());
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const start = () => post(`${ready.api_url}/v1/runs`, headers, '{"input":"hello"}');
    const plain = connectRedis({ url: redis.urlFor('api') });
    const least = async () => {
      await plain.get('ym:ix:none');
      await plain.get('ym:ix:none');
      await bus.enqueue(subjects.runStart(tenantId('floor')), Runs.work.message, { runId: 'floor' });
    };
    const rounds = quick ? 200 : 1_000;
    // The first thousand requests of a process are compiled, not measured.
    await timed(start, 8, quick ? 500 : 2_000);
    await timed(least, 8, 500);
    for (const level of [1, 32]) {
      // Alternating, so that a noisy neighbour hits both.
      const [floors, ours]: [number[], number[]] = [[], []];
      for (let i = 0; i < 5; i++) {
        floors.push(...(await timed(least, level, rounds / 5)));
        ours.push(...(await timed(start, level, rounds / 5)));
      }
      const [floor, value] = [p50(floors), p50(ours)];
      yield { bench: 'api', metric: `publish and two Redis round trips p50 @${level}`, value: floor, unit: 'ms' };
      yield against(`POST /v1/runs p50 @${level}`, value, 'ms', 'publish + 2 Redis', value / floor, 3);
    }
    plain.disconnect();

    const clients = quick ? 50 : 200;
    const run = (JSON.parse((await start()).body) as { id: string }).id;
    const subject = subjects.event(TENANT, run);
    const fanOut = spawn(
      process.execPath,
      [join(import.meta.dirname, 'api/fan-out.ts'), nats.urlFor('floors'), 'ym.floor'],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    children.push(fanOut);
    const floorUrl = ((await firstLine(fanOut, () => true)) as { url: string }).url;
    const events = quick ? 20 : 50;
    const floorLags = await lags(floorUrl, {}, clients, events, (n, at) => {
      bus.nc.publish('ym.floor', JSON.stringify({ n, at }));
      return Promise.resolve();
    });
    let sequence = 0;
    const publish = async (n: number, at: number) => {
      const event = {
        n: BigInt(n),
        runId: run,
        type: 'step.started',
        atMs: BigInt(Date.now()),
        dataJson: JSON.stringify({ at }),
      };
      sequence = await bus.append(subject, messages.event, event, { expectedLastSubjectSequence: sequence });
    };
    const ourLags = await lags(`${ready.api_url}/v1/runs/${run}/events`, headers, clients, events, publish);
    const [floor, value] = [p50(floorLags), p50(ourLags)];
    yield { bench: 'api', metric: `plain fan-out to ${clients} streams p50`, value: floor, unit: 'ms' };
    yield against(`event to ${clients} streams p50`, value, 'ms', 'plain fan-out', value / floor, 3);
    const back = await timed(
      () => backfill(`${ready.api_url}/v1/runs/${run}/events`, headers, events),
      1,
      quick ? 20 : 100,
    );
    yield {
      bench: 'api',
      metric: `reconnect with ${events} events p50`,
      value: p50(back),
      unit: 'ms',
      target: '<= 10',
      ok: p50(back) <= 10,
    };
  } finally {
    for (const child of children) child.kill();
    for (const close of closing) await close();
    await bus.close();
    await Promise.all([nats.stop(), redis.stop()]);
    agent.destroy();
    rmSync(dir, { recursive: true, force: true });
  }
};

function against(metric: string, value: number, unit: string, floor: string, ratio: number, most: number): Row {
  return { bench: 'api', metric, value, unit, against: floor, ratio, target: `<= ${most}x`, ok: ratio <= most };
}

async function firstLine(child: ChildProcess, wanted: (line: string) => boolean): Promise<unknown> {
  for await (const line of createInterface({ input: child.stdout! })) if (wanted(line)) return JSON.parse(line);
  throw new Error('a process of the benchmark ended before it was ready');
}

const rssMiB = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

async function timed(work: () => Promise<unknown>, level: number, count: number): Promise<number[]> {
  const took: number[] = [];
  let left = count;
  await Promise.all(
    Array.from({ length: level }, async () => {
      while (left-- > 0) {
        const began = performance.now();
        await work();
        took.push(performance.now() - began);
      }
    }),
  );
  return took;
}

const p50 = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

async function post(url: string, headers: Record<string, string>, body: string): Promise<{ body: string }> {
  const sent = request(url, { method: 'POST', agent, headers: { ...headers, 'content-length': String(body.length) } });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
  if (response.statusCode !== 201) throw new Error(`POST answered ${response.statusCode}: ${text}`);
  return { body: text };
}

/** Milliseconds from the publish of each event to its arrival at each of the clients. */
async function lags(
  url: string,
  headers: Record<string, string>,
  clients: number,
  events: number,
  publish: (n: number, at: number) => Promise<void>,
): Promise<number[]> {
  const found: number[] = [];
  const open: IncomingMessage[] = [];
  await Promise.all(
    Array.from({ length: clients }, async () => {
      const [response] = (await once(get(url, { headers }), 'response')) as [IncomingMessage];
      open.push(response);
      response.setEncoding('utf8').on('data', (text: string) => {
        for (const [, at] of text.matchAll(/"at":(\d+\.?\d*)/g)) found.push(performance.now() - Number(at));
      });
    }),
  );
  await sleep(300);
  for (let n = 1; n <= events; n++) {
    await publish(n, performance.now());
    await sleep(30);
  }
  for (let waited = 0; found.length < clients * events && waited < 5_000; waited += 50) await sleep(50);
  for (const response of open) response.destroy();
  if (found.length !== clients * events) throw new Error(`${found.length} of ${clients * events} events arrived`);
  return found;
}

/** Connects as a reader who comes back, and reads until it has everything. */
async function backfill(url: string, headers: Record<string, string>, events: number): Promise<void> {
  const [response] = (await once(get(url, { headers }), 'response')) as [IncomingMessage];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) {
    text += String(chunk);
    if (text.includes(`id: ${events}\n`)) break;
  }
  response.destroy();
}
