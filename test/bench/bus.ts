// The bus against plain clients: floors F1 and F2 beside the same work through Bus and executor-kit, alternating.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { executorAccount } from '@yardmaster/contracts';
import { natsTable, startNats, startRedis } from '@yardmaster/local-stack';
import type { Bench, Row } from './report.ts';
import { services } from './services.ts';

const KIND = 'shell';
const TARGET = 1.5;
const LEVELS = [1, 32];

/** What is measured: a floor, and the roles that do the same through the product. */
const PAIRS = [
  {
    what: 'request',
    floor: 'f1',
    driver: 'requester',
    driverLogin: 'dispatcher',
    server: 'responder',
    serverLogin: 'registry',
  },
  {
    what: 'tool call',
    floor: 'f2',
    driver: 'tool-caller',
    driverLogin: 'dispatcher',
    server: 'executor',
    serverLogin: executorAccount(KIND).user,
  },
] as const;

interface Measured {
  p50: number;
  /** CPU of driver and server together, in microseconds an operation. */
  cpu: number;
}
interface FloorRow {
  bench: string;
  metric: string;
  value: number;
}

export const bench: Bench = async function* ({ quick }) {
  const rounds = quick ? 1 : 5;
  const seconds = quick ? 1 : 2;
  // The floors are plain clients without limits; ours run with the logins and accounts of an installation.
  const table = natsTable([KIND]);
  const everything = { user: 'floors', publish: ['>'], subscribe: ['>'] };
  const nats = await startNats({ accounts: { ...table, users: [...table.users, everything] } });
  const redis = await startRedis();
  const setup = await Bus.connect({ url: nats.url, ...nats.login('setup') });
  try {
    await ensureTopology(setup, { kinds: [KIND] });
    const floors = new Map<string, Measured[]>();
    const ours = new Map<string, Measured[]>();
    const note = (into: Map<string, Measured[]>, key: string, measured: Measured) =>
      into.set(key, [...(into.get(key) ?? []), measured]);
    for (let round = 0; round < rounds; round++) {
      for (const pair of PAIRS) {
        const rows = await runFloor(pair.floor, seconds, nats.urlFor('floors'), redis.url);
        for (const level of LEVELS) note(floors, `${pair.what}@${level}`, floorOf(rows, level));
        for (const stream of ['YM_RES', 'YM_CLAIM']) await setup.nc.request(`$JS.API.STREAM.PURGE.${stream}`, '');
        const measured = await runOurs(pair, seconds, nats.url, (user) => nats.login(user).pass);
        for (const [level, value] of measured) note(ours, `${pair.what}@${level}`, value);
      }
    }
    for (const { what, floor } of PAIRS) for (const level of LEVELS) yield* rowsOf(what, floor, level, floors, ours);
  } finally {
    await setup.close();
    await Promise.all([nats.stop(), redis.stop()]);
  }
  yield* services();
};

function* rowsOf(
  what: string,
  floor: string,
  level: number,
  floors: Map<string, Measured[]>,
  ours: Map<string, Measured[]>,
): Generator<Row> {
  const key = `${what}@${level}`;
  const of = (from: Map<string, Measured[]>, field: keyof Measured) =>
    from.get(key)!.map((measured) => measured[field]);
  for (const field of ['p50', 'cpu'] as const) {
    const value = median(of(ours, field));
    const against = median(of(floors, field));
    const ratio = value / against;
    // On a busy machine the medians say how busy it was; the best rounds of both are the nearest to a quiet one.
    const quietest = Math.min(...of(ours, field)) / Math.min(...of(floors, field));
    const spread = of(ours, field).map((each, i) => each / of(floors, field)[i]!);
    yield {
      bench: 'bus',
      metric: `${what} ${field}@${level}`,
      value,
      unit: field === 'cpu' ? 'us/op' : 'us',
      against: `${floor} ${against.toFixed(0)} us (${Math.min(...spread).toFixed(2)}-${Math.max(...spread).toFixed(2)}, quietest ${quietest.toFixed(2)})`,
      ratio,
      ...(field === 'p50' && { target: `<= ${TARGET}x`, ok: ratio <= TARGET }),
    };
  }
}

async function runFloor(name: string, seconds: number, natsUrl: string, redisUrl: string): Promise<FloorRow[]> {
  const dir = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  try {
    const file = join(dir, 'rows.json');
    const script = new URL('../floors/floors.mjs', import.meta.url).pathname;
    await promisify(execFile)(process.execPath, [script, name, '--seconds', String(seconds), '--json', file], {
      env: { ...process.env, NATS_URL: natsUrl, REDIS_URL: redisUrl },
    });
    return JSON.parse(readFileSync(file, 'utf8')) as FloorRow[];
  } finally {
    rmSync(dir, { recursive: true });
  }
}

function floorOf(rows: FloorRow[], level: number): Measured {
  const value = (metric: string) => rows.find((row) => row.metric === `${metric}@${level}`)?.value;
  const cpu = rows.filter((row) => row.metric.startsWith('cpu.') && row.metric.endsWith(`@${level}`));
  return { p50: value('p50')!, cpu: cpu.reduce((sum, row) => sum + row.value, 0) };
}

/** As the floors measure: fresh processes, a warm-up at the highest load, then each level. */
async function runOurs(
  pair: (typeof PAIRS)[number],
  seconds: number,
  natsUrl: string,
  passOf: (user: string) => string,
): Promise<[level: number, Measured][]> {
  const { Workers } = await import(new URL('../floors/lib/processes.mjs', import.meta.url).href);
  const workers = new Workers();
  const start = (role: string, user: string) =>
    workers.start(new URL(`./bus/${role}.ts`, import.meta.url), { natsUrl, user, pass: passOf(user) });
  const measure = async () => {
    const server = await start(pair.server, pair.serverLogin);
    const driver = await start(pair.driver, pair.driverLogin);
    const cpu = async () => {
      const all = await Promise.all(
        [server, driver].map((worker) => worker.call('cpu') as Promise<Record<string, number>>),
      );
      return all.flatMap((each) => Object.values(each)).reduce((sum, micros) => sum + micros, 0);
    };
    const load = async (inFlight: number, forSeconds: number) => {
      const before = await cpu();
      const { count, p50 } = await driver.call('load', { inFlight, seconds: forSeconds }, forSeconds * 1000 + 20_000);
      return { p50, cpu: ((await cpu()) - before) / count };
    };
    await load(LEVELS.at(-1)!, 2);
    const measured: [number, Measured][] = [];
    for (const level of LEVELS) measured.push([level, await load(level, seconds)]);
    return measured;
  };
  try {
    return (await Promise.race([measure(), workers.failure])) as [number, Measured][];
  } finally {
    workers.failure.catch(() => {});
    await workers.end(workers.running);
  }
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
