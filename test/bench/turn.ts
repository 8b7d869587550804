// The durable one-tool turn through every service against floor F4, in both dialects, same mock model over HTTP.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { create, toBinary } from '@bufbuild/protobuf';
import { Bus } from '@yardmaster/bus';
import { BUCKETS, ToolSchema } from '@yardmaster/contracts';
import type { Bench, Row } from './report.ts';

const { LocalStack } = await import('../../services/yard/dist/stack/local-stack.js');
const { Workers } = await import(new URL('../floors/lib/processes.mjs', import.meta.url).href);

const LEVELS = [1, 16, 64];
const SLOTS = 64;
const WARM_UP_S = 4;

interface Measured {
  p50: number;
  rate: number;
  /** CPU ms per run, by process. */
  cpu: Record<string, number>;
}
interface FloorRow {
  bench: string;
  metric: string;
  value: number;
}

export const bench: Bench = async function* ({ quick }) {
  const rounds = quick ? 1 : 5;
  const seconds = quick ? 2 : 3;
  const floors: Map<number, Measured>[] = [];
  const ours: Record<string, Map<number, Measured>[]> = { native: [], xml: [] };
  const dialects = Object.keys(ours);
  for (let round = 0; round < rounds; round++) {
    floors.push(await runFloor(seconds));
    for (const dialect of dialects) ours[dialect]!.push(await runOurs(dialect, seconds));
  }
  const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
  const of = (from: Map<number, Measured>[], level: number, pick: (measured: Measured) => number) =>
    median(from.map((each) => pick(each.get(level)!)));
  for (const dialect of dialects) {
    const mine = ours[dialect]!;
    for (const level of LEVELS) {
      const p50 = of(mine, level, (each) => each.p50);
      const floor = of(floors, level, (each) => each.p50);
      yield row(
        `${dialect} p50@${level}`,
        p50,
        'ms',
        `f4 ${floor.toFixed(2)} ms`,
        p50 / floor,
        level === 1 ? 1.5 : undefined,
      );
    }
    const rate = of(mine, 64, (each) => each.rate);
    const floorRate = of(floors, 64, (each) => each.rate);
    yield row(`${dialect} runs/s@64`, rate, '1/s', `f4 ${floorRate.toFixed(0)}/s`, rate / floorRate);
    const cpu = of(mine, 16, ({ cpu }) => cpu['dispatcher']! + cpu['router']!);
    const floorCpu = of(floors, 16, ({ cpu }) => cpu['dispatcher']!);
    yield row(
      `${dialect} cpu dispatcher+router@16`,
      cpu,
      'ms/run',
      `f4 dispatcher ${floorCpu.toFixed(2)}`,
      cpu / floorCpu,
      1.5,
    );
    for (const name of ['dispatcher', 'router', 'nats', 'redis'])
      yield {
        bench: 'turn',
        metric: `${dialect} cpu ${name}@16`,
        value: of(mine, 16, ({ cpu }) => cpu[name]!),
        unit: 'ms/run',
      };
  }
};

function row(metric: string, value: number, unit: string, against: string, ratio: number, target?: number): Row {
  return {
    bench: 'turn',
    metric,
    value,
    unit,
    against,
    ratio,
    ...(target === undefined ? {} : { target: `<= ${target}x`, ok: ratio <= target }),
  };
}

async function runFloor(seconds: number): Promise<Map<number, Measured>> {
  const dir = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  try {
    const file = join(dir, 'rows.json');
    const script = new URL('../floors/floors.mjs', import.meta.url).pathname;
    await promisify(execFile)(process.execPath, [script, 'f4', '--seconds', String(seconds), '--json', file]);
    const rows = JSON.parse(readFileSync(file, 'utf8')) as FloorRow[];
    const value = (metric: string) => rows.find((each) => each.metric === metric)?.value ?? Number.NaN;
    return new Map(
      LEVELS.map((level) => [
        level,
        {
          p50: value(`p50@${level}`),
          rate: value(`rate@${level}`),
          cpu: Object.fromEntries(['dispatcher', 'nats', 'redis'].map((name) => [name, value(`cpu.${name}@${level}`)])),
        },
      ]),
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** As the floors measure: fresh processes, a warm-up at the highest load, then each level. */
async function runOurs(dialect: string, seconds: number): Promise<Map<number, Measured>> {
  const state = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  const workers = new Workers();
  const model = await workers.start(
    dialect === 'native'
      ? new URL('../floors/roles/model.mjs', import.meta.url)
      : new URL('./turn/xml-model.ts', import.meta.url),
  );
  const yaml = JSON.stringify({
    providers: {
      mock: { kind: 'openai', base_url: `${model.ready}/v1`, auth: 'none', native_tools: dialect === 'native' },
    },
    routing: { default_model: 'mock', providers: ['mock'] },
  });
  const stack = await LocalStack.start({
    state,
    model: { yaml, words: '', model: 'mock', demo: true },
    executors: ['shell', 'files', 'bench'],
    apiPort: 0,
    logLevel: 'warn',
    env: { YM_ROUTER_WINDOW_ITEMS: '40', YM_DISPATCHER_SLOTS: String(SLOTS) },
    onProgress: () => {},
  });
  try {
    await registerEcho(stack.nats.url, stack.nats.login('setup'));
    await workers.start(new URL('./turn/executor.ts', import.meta.url), {
      natsUrl: stack.nats.url,
      pass: stack.nats.login('executor-bench').pass,
    });
    const caller = await workers.start(new URL('./turn/caller.ts', import.meta.url), {
      natsUrl: stack.nats.url,
      natsPass: stack.nats.login('api').pass,
      redisUrl: stack.redis.url,
      redisPass: decodeURIComponent(new URL(stack.redis.urlFor('api')).password),
      slots: SLOTS,
    });
    const pids: Record<string, number> = {
      dispatcher: stack.pids.get('dispatcher')!,
      router: stack.pids.get('router')!,
      nats: stack.nats.pid,
      redis: stack.redis.pid,
    };
    const load = async (inFlight: number, forSeconds: number): Promise<Measured> => {
      const before = cpuOf(pids);
      const { count, perSecond, p50 } = await caller.call(
        'load',
        { inFlight, seconds: forSeconds },
        forSeconds * 1000 + 30_000,
      );
      const after = cpuOf(pids);
      const cpu = Object.fromEntries(Object.keys(pids).map((name) => [name, (after[name]! - before[name]!) / count]));
      return { p50: p50 / 1000, rate: perSecond, cpu };
    };
    await load(SLOTS, WARM_UP_S);
    const measured = new Map<number, Measured>();
    for (const level of LEVELS) measured.set(level, await load(level, seconds));
    return measured;
  } finally {
    await workers.end(workers.running);
    await stack.stop();
    rmSync(state, { recursive: true, force: true });
  }
}

/** A tool that every tenant sees, run by the benchmark's executor. */
async function registerEcho(url: string, login: { user: string; pass: string }): Promise<void> {
  const bus = await Bus.connect({ url, ...login });
  const tool = create(ToolSchema, {
    name: 'echo',
    description: 'Says it again.',
    parametersJson: JSON.stringify({
      type: 'object',
      properties: { command: { type: 'string' } },
      required: ['command'],
    }),
    kind: 'bench',
    effect: 'unsafe',
    category: 'execute',
    timeoutMs: 60_000,
    state: 'active',
    version: 1,
    hash: 'echo',
  });
  await bus.kv(BUCKETS.tools).put('_.echo', toBinary(ToolSchema, tool));
  await bus.close();
}

/** User and system time in ms, in steps of 10 ms (Linux). */
function cpuOf(pids: Record<string, number>): Record<string, number> {
  const micros = (pid: number) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  };
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, micros(pid)]));
}
