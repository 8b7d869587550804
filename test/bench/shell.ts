// Commands through the sandbox against plain bash in the same run, and against another sandbox where it is installed.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { intercept } from '@yardmaster/executor-shell/intercept';
import { commandLines, residentMb, startFixture } from '../cases/suites/sandbox-fixture.ts';
import type { Bench, Row } from './report.ts';

const name = 'shell';
const TENANT = { tenant: 'bench', workspace: 'bench' };

const quantile = (values: number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))]!;
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
};

/** What a service without a sandbox would do. */
function plainBash(command: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/bash', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.resume();
    child.stderr.resume();
    child.once('error', reject);
    child.once('close', () => resolve());
  });
}

/** Runs `count` tasks, `width` at a time; answers tasks per second. */
async function rate(count: number, width: number, work: () => Promise<unknown>): Promise<number> {
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await work();
  };
  return count / ((await timed(() => Promise.all(Array.from({ length: width }, worker)))) / 1000);
}

/** The peer, or why it does not take part. */
async function findPeer(): Promise<((command: string) => Promise<void>) | string> {
  try {
    const { SandboxManager } = (await import('@anthropic-ai/sandbox-runtime' as string)) as {
      SandboxManager: { initialize(config: object): Promise<void>; wrapWithSandbox(command: string): Promise<string> };
    };
    await SandboxManager.initialize({
      network: { allowedDomains: [], deniedDomains: [] },
      filesystem: { denyRead: [], allowWrite: ['/tmp'], denyWrite: [] },
    });
    const run = async (command: string): Promise<void> => plainBash(await SandboxManager.wrapWithSandbox(command));
    await run('true');
    return run;
  } catch (error) {
    return (error as Error).message.split('\n')[0]!;
  }
}

export const bench: Bench = async function* ({ quick }) {
  const samples = quick ? 40 : 200;
  const fixture = await startFixture({
    settings: {
      YM_EXECUTOR_SHELL_TENANT_CPU_S: '0',
      YM_EXECUTOR_SHELL_CONCURRENCY: '16',
      YM_EXECUTOR_SHELL_TENANT_CONCURRENCY: '16',
    },
  });
  const { runner } = fixture;
  const { client } = runner;
  const sandboxed = (command: string): Promise<unknown> => client.run({ ...TENANT, command });
  try {
    const peer = await findPeer();
    for (let i = 0; i < 5; i++) await sandboxed('true');
    const plain: number[] = [];
    const ours: number[] = [];
    const theirs: number[] = [];
    // Interleaved: the noise of the machine falls on all of them.
    for (let i = 0; i < samples; i++) {
      plain.push(await timed(() => plainBash('true')));
      ours.push(await timed(() => sandboxed('true')));
      if (typeof peer !== 'string' && i % 4 === 0) theirs.push(await timed(() => peer('true')));
    }
    const floor = quantile(plain, 0.5);
    const added = quantile(ours, 0.5) - floor;
    const p99 = quantile(ours, 0.99);
    yield { bench: name, metric: 'plain bash p50', value: floor, unit: 'ms' };
    yield {
      bench: name,
      metric: 'command p50',
      value: quantile(ours, 0.5),
      unit: 'ms',
      against: 'plain bash',
      ratio: quantile(ours, 0.5) / floor,
    };
    yield {
      bench: name,
      metric: 'added cost p50',
      value: added,
      unit: 'ms',
      against: 'plain bash',
      ratio: added / floor,
      target: '<= 25 ms',
      ok: added <= 25,
    };
    yield {
      bench: name,
      metric: 'command p99',
      value: p99,
      unit: 'ms',
      against: 'plain bash',
      ratio: p99 / quantile(plain, 0.99),
      target: '<= 100 ms',
      ok: p99 <= 100,
    };
    if (typeof peer === 'string') console.error(`shell: no row against @anthropic-ai/sandbox-runtime: ${peer}`);
    else {
      const theirAdded = quantile(theirs, 0.5) - floor;
      yield {
        bench: name,
        metric: 'added cost p50 against a peer',
        value: added,
        unit: 'ms',
        against: 'sandbox-runtime',
        ratio: added / theirAdded,
        target: '<= 0.5x',
        ok: added / theirAdded <= 0.5,
      };
    }

    // In turns, and the median of each: the noise of the machine falls on both.
    const rates = { plain: [] as number[], ours: [] as number[] };
    for (let turn = 0; turn < (quick ? 3 : 9); turn++) {
      rates.plain.push(await rate(64, 8, () => plainBash('true')));
      rates.ours.push(await rate(64, 8, () => sandboxed('true')));
    }
    const plainRate = quantile(rates.plain, 0.5);
    const ourRate = quantile(rates.ours, 0.5);
    yield {
      bench: name,
      metric: 'rate at 8',
      value: ourRate,
      unit: '/s',
      against: 'plain bash',
      ratio: ourRate / plainRate,
      target: '>= 0.3x',
      ok: ourRate / plainRate >= 0.3,
    };

    yield* interceptor(quick);

    const late: number[] = [];
    let survivors = 0;
    for (let i = 0; i < (quick ? 5 : 20); i++) {
      const marker = `ym-bench-${process.pid}-${i}`;
      const took = await timed(() =>
        client.run({
          ...TENANT,
          command: `for i in {1..20}; do (trap '' TERM; exec -a ${marker} sleep 60) & (setsid bash -c 'exec -a ${marker} sleep 60' &) ; done; wait`,
          limits: { timeout_ms: 700 },
        }),
      );
      late.push(took - 700);
      await sleep(1000);
      if (commandLines().some((line) => line.includes(marker))) survivors++;
    }
    yield { bench: name, metric: 'deadline to result p50', value: quantile(late, 0.5), unit: 'ms' };
    yield {
      bench: name,
      metric: 'deadline to result max',
      value: Math.max(...late),
      unit: 'ms',
      target: '<= 500 ms',
      ok: Math.max(...late) <= 500,
    };
    yield {
      bench: name,
      metric: 'trees of 40 alive 1 s after the result',
      value: survivors,
      unit: 'trees',
      target: '0',
      ok: survivors === 0,
    };

    const before = residentMb(runner.pid);
    let peak = before;
    const watch = setInterval(() => (peak = Math.max(peak, residentMb(runner.pid))), 20);
    for (let i = 0; i < (quick ? 2 : 5); i++)
      await client.run({ ...TENANT, command: 'yes', limits: { timeout_ms: 3000, output_bytes: 1_000_000 } });
    clearInterval(watch);
    yield {
      bench: name,
      metric: 'memory growth under endless output',
      value: peak - before,
      unit: 'MB',
      target: '<= 20 MB',
      ok: peak - before <= 20,
    };
  } finally {
    await fixture.close();
  }
};

/** Stage 2 alone, over every command of the committed cases. */
function* interceptor(quick: boolean): Iterable<Row> {
  const folder = new URL('../cases/sandbox/', import.meta.url).pathname;
  const commands = readdirSync(folder)
    .filter((file) => file === 'attacks.json')
    .flatMap((file) =>
      (JSON.parse(readFileSync(join(folder, file), 'utf8')) as { cases: { command: string }[] }).cases.map(
        ({ command }) => command,
      ),
    );
  // A long script and a long document belong to ordinary work.
  commands.push(
    `cat > big.md <<'EOF'\n${'a line of a document\n'.repeat(12_000)}EOF`,
    'mkdir -p a && cd a && make -j2 && ./run --flag "value" | tee log.txt\n'.repeat(60),
  );
  const context = { workspace: '/workspace', cwd: '/workspace', home: '/home/agent' };
  const rounds = quick ? 7 : 31;
  // The median of each command's rounds: what the command costs, not when the machine was busy.
  const times = commands.map((command) => {
    const own: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const startedAt = performance.now();
      intercept(command, context);
      own.push(performance.now() - startedAt);
    }
    return quantile(own, 0.5);
  });
  yield {
    bench: name,
    metric: 'interceptor p50',
    value: quantile(times, 0.5),
    unit: 'ms',
    target: '<= 1 ms',
    ok: quantile(times, 0.5) <= 1,
  };
  yield {
    bench: name,
    metric: 'interceptor p99',
    value: quantile(times, 0.99),
    unit: 'ms',
    target: '<= 10 ms',
    ok: quantile(times, 0.99) <= 10,
  };
}
