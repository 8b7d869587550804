// What the registry does over the bus, with its logins and a process of its own: lookups at a steady rate, how long a
// change takes until every service has seen it, and its memory. The floor of lookups is a plain client's echo in a
// process of its own, over the same server at the same rate, with answers of the same size, in turns with the lookups.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { BUCKETS, Registry, tenantId, ToolSchema } from '@yardmaster/contracts';
import { natsTable, startNats } from '@yardmaster/local-stack';
import type { ToolView } from '@yardmaster/tool-render';
import type { Row } from './report.ts';

const tenant = tenantId('bench');
const WATCHERS = ['api', 'dispatcher', 'router'];
const RATE = 2_000;
/** Turns of lookups and echoes: what else the machine does hits both. */
const ROUNDS = 5;
/** Register and retire cycles at once. */
const LANES = 16;
/** The first part of the cycles, whose growth is named apart: compiled code, pools, the heap's first growth. */
const FIRST_CYCLES = 2_000;

/** Loaded into the registry: collects garbage at SIGUSR2 and says how much is alive. Nothing else of it is changed. */
const COLLECTS = `
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
process.on('SIGUSR2', () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  gc();
  gc();
  console.log(JSON.stringify({ alive: process.memoryUsage().heapUsed }));
});`;

export async function* registryRows(tools: readonly ToolView[], quick: boolean): AsyncGenerator<Row> {
  const dir = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  const table = natsTable([]);
  const floorUser = { user: 'floors', publish: ['>'], subscribe: ['>'] };
  const nats = await startNats({ accounts: { ...table, users: [...table.users, floorUser] }, dir });
  const connect = (user: string) => Bus.connect({ url: nats.url, ...nats.login(user) });
  const secret = join(dir, 'registry.password');
  writeFileSync(secret, nats.login('registry').pass, { mode: 0o600 });
  const setup = await connect('setup');
  await ensureTopology(setup, { kinds: [] });
  const registry = spawn(
    process.execPath,
    [
      `--import=data:text/javascript,${encodeURIComponent(COLLECTS)}`,
      fileURLToPath(new URL('../../services/registry/dist/main.js', import.meta.url)),
    ],
    {
      env: { PATH: process.env['PATH'], YM_NATS_URL: nats.url, YM_NATS_PASSWORD_FILE: secret, YM_HOST: '127.0.0.1' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const buses = await Promise.all(WATCHERS.map(connect));
  const plain = await connect(floorUser.user);
  const lines = createInterface({ input: registry.stdout });
  let echo: ChildProcess | undefined;
  try {
    await new Promise<void>((resolve) => {
      lines.on('line', (line) => line.includes('"msg":"ready"') && resolve());
    });
    const caller = buses[0]!;
    const put = (tool: ToolView, description = tool.description) =>
      caller.request(
        Registry.put,
        tenant,
        {
          tool: {
            name: tool.name.slice(0, 64),
            description,
            parametersJson: JSON.stringify(tool.parameters),
            kind: 'bench',
            effect: 'read',
            category: 'read',
            timeoutMs: 1000,
          },
        },
        { timeoutMs: 20_000 },
      );
    for (const tool of tools) await put(tool);
    const names = tools.map(({ name }) => name);
    const get = (index: number) =>
      caller.request(Registry.get, tenant, { name: names[index % names.length]! }, { timeoutMs: 5_000 });
    const one = await get(0);
    echo = spawn(
      process.execPath,
      [
        fileURLToPath(new URL('./registry-echo.ts', import.meta.url)),
        nats.url,
        floorUser.user,
        nats.login(floorUser.user).pass,
        String(toBinary(ToolSchema, one).length),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    await once(echo.stdout!, 'data');
    const ask = () => plain.nc.request('echo', 'x', { timeout: 5_000 });
    await steady(get, 2 * RATE);
    await steady(ask, 2 * RATE);
    const count = (quick ? 1 : 3) * RATE;
    const times: number[] = [];
    const floor: number[] = [];
    let cpu = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const before = cpuMs(registry.pid!);
      times.push(...(await steady(get, count)));
      cpu += cpuMs(registry.pid!) - before;
      floor.push(...(await steady(ask, count)));
    }
    // On a busy machine the times are those of the queue; what a lookup costs is not.
    const cost = (1000 * cpu) / (ROUNDS * count);
    yield row(
      'CPU of the registry per lookup over NATS',
      cost,
      'us',
      '<= 250 us (half a core at 2,000/s)',
      cost <= 250,
    );
    for (const part of [0.5, 0.99]) {
      const [ours, plainly] = [percentile(times, part), percentile(floor, part)];
      yield {
        ...row(`lookup over NATS at 2,000/s, p${100 * part}`, ours, 'ms'),
        against: `plain echo ${plainly.toPrecision(3)} ms`,
        ratio: ours / plainly,
        ...(part === 0.99 && { target: '<= 5 ms', ok: ours <= 5 }),
      };
    }

    const seen: number[] = [];
    const snapshots = await Promise.all(
      buses.map((bus) => bus.watch(BUCKETS.tools, (bytes) => fromBinary(ToolSchema, bytes))),
    );
    for (let round = 0; round < (quick ? 50 : 400); round++) {
      const tool = tools[round % tools.length]!;
      const description = `${tool.description} (${round})`;
      const came = snapshots.map(
        (snapshot) =>
          new Promise<void>((resolve) => {
            const stop = snapshot.onChange(() => {
              if (snapshot.get(`${tenant}.${tool.name}`)?.description !== description) return;
              stop();
              resolve();
            });
          }),
      );
      await put(tool, description);
      const stored = performance.now();
      await Promise.all(came);
      seen.push(performance.now() - stored);
    }
    const late = percentile(seen, 0.99);
    yield row('a change is seen by three services, p99', late, 'ms', '<= 250 ms', late <= 250);
    for (const snapshot of snapshots) snapshot.stop();

    // Every cycle has a schema that nobody has seen before: what is kept of it by mistake is kept for good.
    const cycle = async (lane: number, index: number) => {
      const name = `cycle_${lane}`;
      const tool = { ...tools[index % tools.length]!, name };
      await put({ ...tool, parameters: { ...(tool.parameters as object), title: `${lane} ${index}` } });
      await caller.request(Registry.delete, tenant, { name }, { timeoutMs: 20_000 });
    };
    const cycles = async (count: number, from: number) => {
      await Promise.all(
        Array.from({ length: LANES }, async (_, lane) => {
          for (let index = 0; index < count / LANES; index++) await cycle(lane, from + index);
        }),
      );
    };
    const alive = async () => {
      const said = new Promise<number>((resolve) => {
        const hear = (line: string) => {
          if (!line.startsWith('{"alive":')) return;
          lines.off('line', hear);
          resolve((JSON.parse(line) as { alive: number }).alive / 1024 / 1024);
        };
        lines.on('line', hear);
      });
      registry.kill('SIGUSR2');
      return said;
    };
    const wanted = quick ? 2 * FIRST_CYCLES : 100_000;
    const what = `${wanted.toLocaleString('en')} tools were registered and retired`;
    const aliveBefore = await alive();
    const rssBefore = rssMb(registry.pid!);
    await cycles(FIRST_CYCLES, 0);
    const rssFirst = rssMb(registry.pid!);
    await cycles(wanted - FIRST_CYCLES, FIRST_CYCLES);
    const grown = rssMb(registry.pid!) - rssBefore;
    const first = `${(rssFirst - rssBefore).toFixed(1)} MB in the first ${FIRST_CYCLES.toLocaleString('en')}`;
    yield {
      ...row(`memory of the registry after ${what}`, grown, 'MB', '<= 50 MB', grown <= 50),
      against: `of it ${first}`,
    };
    yield row('of that, alive after a collection', (await alive()) - aliveBefore, 'MB');
  } finally {
    echo?.kill('SIGTERM');
    registry.kill('SIGTERM');
    await once(registry, 'exit');
    await Promise.all([...buses, setup, plain].map((bus) => bus.close()));
    await nats.stop();
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Resident memory of a process, in MB. */
function rssMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
}

/** CPU time of a process so far, user and system, in milliseconds. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/**
 * Starts `count` requests at the rate, whether those before are answered or not. Their times in milliseconds are from
 * when each was due, not from when it was sent: a caller that is late would hide what waits. Timers tick each
 * millisecond, so two are sent at once and that alone makes half a millisecond of the mean.
 */
async function steady(request: (index: number) => Promise<unknown>, count: number): Promise<number[]> {
  const times: number[] = [];
  const pending: Promise<void>[] = [];
  const began = performance.now();
  for (let started = 0; started < count;) {
    const due = Math.min(count, Math.floor(((performance.now() - began) / 1000) * RATE));
    for (; started < due; started++) {
      const from = began + (1000 * started) / RATE;
      pending.push(request(started).then(() => void times.push(performance.now() - from)));
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(pending);
  return times;
}

const row = (metric: string, value: number, unit: string, target?: string, ok?: boolean): Row => ({
  bench: 'render',
  metric,
  value,
  unit,
  ...(target === undefined ? {} : { target, ok: ok ?? false }),
});

function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}
