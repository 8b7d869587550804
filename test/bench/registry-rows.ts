// What the registry does over the bus, with its logins and a process of its own: lookups at a steady rate, and how long
// a change takes until every service has seen it. The floor is an echo over the same server at the same rate.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { fromBinary } from '@bufbuild/protobuf';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { BUCKETS, Registry, tenantId, ToolSchema } from '@yardmaster/contracts';
import { natsTable, startNats } from '@yardmaster/local-stack';
import type { ToolView } from '@yardmaster/tool-render';
import type { Row } from './report.ts';

const tenant = tenantId('bench');
const WATCHERS = ['api', 'dispatcher', 'router'];
const RATE = 2_000;
/** Register and retire cycles at once. */
const LANES = 16;
const WARM_CYCLES = 3_000;

export async function* registryRows(tools: readonly ToolView[], quick: boolean): AsyncGenerator<Row> {
  const dir = mkdtempSync(join(tmpdir(), 'ym-bench-'));
  const nats = await startNats({ accounts: natsTable([]), dir });
  const connect = (user: string) => Bus.connect({ url: nats.url, ...nats.login(user) });
  const secret = join(dir, 'registry.password');
  writeFileSync(secret, nats.login('registry').pass, { mode: 0o600 });
  const setup = await connect('setup');
  await ensureTopology(setup, { kinds: [] });
  const registry = spawn(
    process.execPath,
    [fileURLToPath(new URL('../../services/registry/dist/main.js', import.meta.url))],
    {
      env: { PATH: process.env['PATH'], YM_NATS_URL: nats.url, YM_NATS_PASSWORD_FILE: secret, YM_HOST: '127.0.0.1' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const buses = await Promise.all(WATCHERS.map(connect));
  try {
    await new Promise<void>((resolve) => {
      createInterface({ input: registry.stdout }).on('line', (line) => line.includes('"msg":"ready"') && resolve());
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
    await steady(get, 500);
    const count = quick ? 2_000 : 20_000;
    const before = cpuMs(registry.pid!);
    const times = await steady(get, count);
    // On a busy machine the times are those of the queue; what a lookup costs is not.
    const cost = (1000 * (cpuMs(registry.pid!) - before)) / count;
    yield row(
      'CPU of the registry per lookup over NATS',
      cost,
      'us',
      '<= 250 us (half a core at 2,000/s)',
      cost <= 250,
    );
    const p99 = percentile(times, 0.99);
    yield row('lookup over NATS at 2,000/s, p50', percentile(times, 0.5), 'ms');
    yield row('lookup over NATS at 2,000/s, p99', p99, 'ms', '<= 5 ms', p99 <= 5);

    const floor = await echoTimes(count);
    const floorP99 = percentile(floor, 0.99);
    yield { ...row('the same of a plain echo, p99', floorP99, 'ms'), against: 'lookup p99', ratio: floorP99 / p99 };

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
            const stop = snapshot.onChange((current) => {
              if (current.get(`${tenant}.${tool.name}`)?.description !== description) return;
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
    const wanted = quick ? 2_000 : 100_000;
    // As much as the caches hold, and what the heap grows to at first.
    await cycles(WARM_CYCLES, 1_000_000);
    const rssBefore = rssMb(registry.pid!);
    await cycles(wanted, 0);
    const grown = rssMb(registry.pid!) - rssBefore;
    yield row(
      `memory of the registry after ${wanted.toLocaleString('en')} tools were registered and retired`,
      grown,
      'MB',
      '<= 50 MB',
      grown <= 50,
    );
  } finally {
    registry.kill('SIGTERM');
    await once(registry, 'exit');
    await Promise.all([...buses, setup].map((bus) => bus.close()));
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

/** Request and reply between two plain clients of a server without limits. */
async function echoTimes(count: number): Promise<number[]> {
  const nats = await startNats();
  const [asking, answering] = await Promise.all([
    Bus.connect({ url: nats.url, user: 'asking' }),
    Bus.connect({ url: nats.url, user: 'answering' }),
  ]);
  answering.nc.subscribe('echo', { callback: (_, message) => void message.respond(message.data) });
  await answering.flush();
  const times = await steady(() => asking.nc.request('echo', 'x', { timeout: 5_000 }), count);
  await Promise.all([asking.close(), answering.close()]);
  await nats.stop();
  return times;
}

/** Starts `count` requests at the rate, whether those before are answered or not; their times in milliseconds. */
async function steady(request: (index: number) => Promise<unknown>, count: number): Promise<number[]> {
  const times: number[] = [];
  const pending: Promise<void>[] = [];
  const began = performance.now();
  for (let started = 0; started < count;) {
    const due = Math.min(count, Math.floor(((performance.now() - began) / 1000) * RATE));
    for (; started < due; started++) {
      const from = performance.now();
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
