// How much of a context 200 tools take, how fast and how well they are found, and how still the prefix stands. Tokens
// are those of o200k. Last, what the registry does over the bus.
import { readFileSync } from 'node:fs';
import {
  RenderSession,
  ToolSearch,
  type RenderSpec,
  type ToolView,
  catalogueOf,
  createRenderer,
} from '@yardmaster/tool-render';
import { registryRows } from './registry-rows.ts';
import type { Bench, Row } from './report.ts';

interface SearchFile {
  catalogue: ToolView[];
  cases: { lang: string; query: string; expected: { tool?: string } }[];
}

const CORE = [
  'file_read',
  'file_write',
  'file_edit',
  'file_list',
  'file_grep',
  'file_move',
  'shell_run',
  'browser_navigate',
];
const STABLE: [string, RenderSpec][] = [
  ['claude_deferred text', { strategy: 'claude_deferred', mode: 'text', core: CORE, listNames: true }],
  ['claude_deferred api', { strategy: 'claude_deferred', mode: 'api', core: CORE, search: 'client' }],
  ['openai_native_deferred', { strategy: 'openai_native_deferred', core: CORE }],
  ['harmony_dispatcher', { strategy: 'harmony_dispatcher', metaTools: true }],
];

export const bench: Bench = async function* ({ quick }) {
  const row = (metric: string, value: number, unit: string, more: Partial<Row> = {}): Row => ({
    bench: 'render',
    metric,
    value,
    unit,
    ...more,
  });
  const atMost = (bound: number, unit: string, value: number) => ({
    target: `<= ${bound} ${unit}`,
    ok: value <= bound,
  });
  const { catalogue: tools, cases } = JSON.parse(
    readFileSync(new URL('../cases/render/search.json', import.meta.url), 'utf8'),
  ) as SearchFile;
  const catalogue = catalogueOf(tools);

  const tokens = await tokenCounter();
  if (tokens) {
    const of = (spec: RenderSpec) => {
      const { segments, tools: field } = createRenderer(spec).initialRender(catalogue);
      return tokens(segments.join('\n') + (field ? JSON.stringify(field) : ''));
    };
    const upfront = of({ strategy: 'claude_deferred', mode: 'text', core: 'all' });
    yield row('200 tools upfront', upfront, 'tokens');
    yield row('200 tools upfront, Harmony', of({ strategy: 'harmony_upfront' }), 'tokens');
    const deferred = of({ strategy: 'claude_deferred', mode: 'text', core: CORE, listNames: true });
    yield row('200 tools deferred, 8 core, names listed', deferred, 'tokens', atMost(2000, 'tokens', deferred));
    const saved = 100 * (1 - deferred / upfront);
    yield row('saved by deferring with names', saved, '%', {
      against: 'upfront',
      ratio: deferred / upfront,
      target: '>= 85 % under upfront',
      ok: saved >= 85,
    });
    const nameless = of({ strategy: 'claude_deferred', mode: 'text', core: CORE });
    yield row('200 tools deferred, 8 core, no names', nameless, 'tokens', atMost(800, 'tokens', nameless));
    const dispatcher = of({ strategy: 'harmony_dispatcher', metaTools: true });
    yield row(
      '200 tools behind the dispatcher and meta tools',
      dispatcher,
      'tokens',
      atMost(200, 'tokens', dispatcher),
    );
  } else {
    yield row('tokens', 0, '', { against: 'skipped: gpt-tokenizer is not installed (npm ci --prefix test/bench)' });
  }

  const index = new ToolSearch(catalogue);
  const same = cases.filter(({ lang }) => lang !== 'none' && !lang.startsWith('x_'));
  for (const group of ['en', 'ko', 'ja', 'all']) {
    const members = same.filter(({ lang }) => group === 'all' || lang === group);
    const found = members.filter(({ query, expected }) =>
      index.search(query, 5).some(({ name }) => name === expected.tool),
    );
    const recall = found.length / members.length;
    const floor = group === 'en' ? 0.9 : 0.95;
    yield row(`recall@5, ${group === 'all' ? 'same language' : group}`, recall, '', {
      target: `>= ${floor}`,
      ok: recall >= floor,
    });
  }
  const building = best(5, () => void new ToolSearch(catalogue));
  yield row('index of 200 tools', building, 'ms', atMost(50, 'ms', building));
  const many = Array.from({ length: 25 }, (_, copy) =>
    tools.map((tool) => ({ ...tool, name: `${tool.name}_${copy}` })),
  );
  for (const [count, searched, bound] of [
    [200, index, 5],
    [5000, new ToolSearch(catalogueOf(many.flat())), 20],
  ] as const) {
    const times: number[] = [];
    for (let round = 0; round < (quick ? 5 : 30); round++) {
      for (const { query } of cases) times.push(timed(() => void searched.search(query, 5)));
    }
    const p99 = percentile(times, 0.99);
    yield row(`search p99, ${count} tools`, p99, 'ms', atMost(bound, 'ms', p99));
  }

  const names = catalogue.list().map(({ name }) => name);
  const lookups = quick ? 1e6 : 5e6;
  const seconds =
    timed(() => {
      let found = 0;
      for (let i = 0; i < lookups; i++) if (catalogue.get(names[i % names.length] ?? '')) found++;
      if (found !== lookups) throw new Error('a tool is missing');
    }) / 1000;
  yield row('lookup in process', lookups / seconds, '/s', { target: '>= 1,000,000/s', ok: lookups / seconds >= 1e6 });

  yield* registryRows(tools, quick);

  for (const [name, spec] of STABLE) {
    const moved = bytesMoved(spec, tools, 1000);
    yield row(`bytes moved by 1,000 changes, ${name}`, moved, 'bytes', atMost(0, 'bytes', moved));
  }
};

/** Loads, adds, removes and changes tools at random, and counts the bytes of the prefix that are not what they were. */
function bytesMoved(spec: RenderSpec, tools: readonly ToolView[], actions: number): number {
  const random = generator(7);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  let current = tools.slice(0, 150);
  const session = new RenderSession(createRenderer(spec), catalogueOf(current));
  let segments = [...session.segments];
  let field = JSON.stringify(session.tools ?? []).slice(0, -1);
  let moved = 0;
  for (let action = 0; action < actions; action++) {
    const what = Math.floor(random() * 4);
    if (what === 0) session.search(`select:${pick(tools).name}`, []);
    else {
      const tool = pick(tools);
      const others = current.filter(({ name }) => name !== tool.name);
      if (what === 1) current = [...others, tool];
      else if (what === 2) current = others;
      else current = [...others, { ...tool, description: `${tool.description} (${action})` }];
      session.changeTools(catalogueOf(current));
    }
    segments.forEach((segment, at) => (moved += difference(segment, session.segments[at] ?? '')));
    moved += difference(field, JSON.stringify(session.tools ?? []).slice(0, field.length));
    segments = [...session.segments];
    field = JSON.stringify(session.tools ?? []).slice(0, -1);
  }
  return moved;
}

function difference(before: string, after: string): number {
  if (before === after) return 0;
  let same = 0;
  while (same < before.length && before[same] === after[same]) same++;
  return Buffer.byteLength(before.slice(same)) || 1;
}

async function tokenCounter(): Promise<((text: string) => number) | undefined> {
  try {
    const { countTokens } = (await import('gpt-tokenizer/encoding/o200k_base' as string)) as {
      countTokens(text: string): number;
    };
    return countTokens;
  } catch {
    return undefined;
  }
}

function generator(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
}

function timed(run: () => void): number {
  const started = performance.now();
  run();
  return performance.now() - started;
}

/** Of one core's time: what else the machine does must not count. */
function cpuTimed(run: () => void): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

function best(rounds: number, run: () => void): number {
  return Math.min(...Array.from({ length: rounds }, () => timed(run)));
}

function percentile(values: number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}
