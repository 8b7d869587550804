// What a checked call costs, and what hostile schemas, patterns and arguments can do. The floor of the checks is
// JSON.parse of the same text in the same run.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setTimeout as sleep } from 'node:timers/promises';
import { type JsonSchema, checkArguments, gateSchema, validateArguments } from '@yardmaster/tool-schema';
import type { Bench, Row } from './report.ts';

const WRITE: JsonSchema = {
  type: 'object',
  properties: {
    path: { type: 'string', minLength: 1 },
    content: { type: 'string' },
    mode: { type: 'string', enum: ['overwrite', 'append'] },
    line: { type: 'integer', minimum: 0 },
    force: { type: 'boolean' },
    tags: { type: 'array', items: { type: 'string' } },
    owner: { type: 'object', properties: { name: { type: 'string' }, id: { type: 'integer' } }, required: ['name'] },
  },
  required: ['path', 'content'],
  additionalProperties: false,
};
const TYPED = {
  path: 'src/services/router/complete.service.ts',
  content: 'const answer = await this.chain.complete(request, signal);\n'.repeat(13),
  mode: 'append',
  line: 120,
  force: true,
  tags: ['router', 'complete', 'review'],
  owner: { name: 'team-runtime', id: 4711 },
};
/** The same with what models send as text: numbers, booleans, and an object. */
const AS_TEXT = { ...TYPED, line: '120', force: 'true', owner: JSON.stringify({ name: 'team-runtime', id: '4711' }) };

export const bench: Bench = async function* ({ quick }) {
  const row = (metric: string, value: number, unit: string, more: Partial<Row> = {}): Row => ({
    bench: 'validate',
    metric,
    value,
    unit,
    ...more,
  });
  const atMost = (bound: number, unit: string, value: number) => ({
    target: `<= ${bound} ${unit}`,
    ok: value <= bound,
  });
  const atLeast = (bound: number, value: number) => ({
    target: `>= ${bound.toLocaleString('en')}/s`,
    ok: value >= bound,
  });
  const duration = quick ? 300 : 1000;
  const tool = { name: 'file_write', inputSchema: WRITE };
  const text = JSON.stringify(TYPED);
  const asText = JSON.stringify(AS_TEXT);

  const parsing = rate(duration, () => JSON.parse(text));
  yield row('JSON.parse of 1 KB', parsing, '/s');
  const validating = rate(duration, () => validateArguments(WRITE, TYPED));
  yield row('validate 1 KB', validating, '/s', atLeast(300_000, validating));
  const checking = rate(duration, () => checkArguments(tool, text));
  const against = { against: 'JSON.parse', ratio: checking / parsing };
  yield row('parse, coerce and validate 1 KB', checking, '/s', { ...against, ...atLeast(50_000, checking) });
  const coercing = rate(duration, () => checkArguments(tool, asText));
  yield row('the same with three values to coerce', coercing, '/s', {
    against: 'JSON.parse',
    ratio: coercing / parsing,
  });
  const failing = rate(duration, () => checkArguments(tool, '{"path":"a","line":"ten","extra":1}'));
  yield row('an invalid call with its error text', failing, '/s');

  const watch = watchEventLoop();
  // The first decision pays for starting the worker.
  await gateSchema({ type: 'object' });
  watch.restart();
  await sleep(500);
  const idle = watch.longest();
  let slowest = 0;
  let blocked = 0;
  let busiest = 0;
  for (const [name, schema] of hostileSchemas()) {
    watch.restart();
    const before = process.threadCpuUsage();
    const started = performance.now();
    const verdict = await gateSchema(schema);
    const took = performance.now() - started;
    busiest = Math.max(busiest, cpuMs(before));
    await sleep(15);
    blocked = Math.max(blocked, watch.longest());
    slowest = Math.max(slowest, took);
    yield row(`gate: ${name}`, took, 'ms', { against: verdict.accepted ? 'accepted' : verdict.code });
  }
  watch.stop();
  yield row('hostile schema, slowest decision', slowest, 'ms', atMost(2500, 'ms', slowest));
  // The loop cannot be blocked for longer than its thread works; the gaps also show what other processes take.
  yield row('hostile schema, event loop blocked at most', busiest, 'ms', atMost(50, 'ms', busiest));
  yield row('longest gap of the event loop meanwhile', blocked, 'ms', {
    against: 'longest gap when idle',
    ratio: blocked / idle,
  });
  const gating = await asyncRate(duration, (index) => gateSchema({ ...(WRITE as object), title: `t${index}` }));
  yield row('gate: an ordinary schema', gating, '/s');

  for (const pattern of ['^(a+)+$', '^(a|aa)+$', '^(a|a)*$', '(x+x+)+y']) {
    const schema = { type: 'object', properties: { s: { type: 'string', pattern } } };
    const unit = pattern.includes('x') ? 'x' : 'a';
    const value = { s: `${unit.repeat(5000)}!` };
    validateArguments(schema, { s: 'a' });
    const took = timed(() => validateArguments(schema, value));
    yield row(`pattern ${pattern} on 5,000 characters`, took, 'ms', atMost(200, 'ms', took));
  }
  for (const [name, schema, value] of hostileArguments()) {
    checkArguments({ name: 't', inputSchema: schema }, '{}');
    const hostile = JSON.stringify(value);
    const before = process.threadCpuUsage();
    checkArguments({ name: 't', inputSchema: schema }, hostile);
    const took = cpuMs(before);
    yield row(`arguments: ${name}`, took, 'ms', atMost(2500, 'ms', took));
  }

  const cycles = quick ? 5_000 : 100_000;
  const grown = growth(cycles);
  yield row(`memory after ${cycles.toLocaleString('en')} schemas came and went`, grown, 'MB', atMost(50, 'MB', grown));
};

function hostileSchemas(): [string, unknown][] {
  const properties = (count: number, schema: unknown) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, schema]));
  const union = (depth: number): unknown =>
    depth === 0
      ? { type: 'string' }
      : { type: 'object', properties: { a: { anyOf: Array(3).fill(union(depth - 1)) } } };
  let nest: unknown = { type: 'string' };
  for (let level = 0; level < 10_000; level++) nest = { type: 'object', properties: { a: nest } };
  const allOf = Array.from({ length: 900 }, (_, index) => ({ properties: { [`q${index}`]: { type: 'string' } } }));
  return [
    ['10,000 levels', nest],
    ['unions of unions', union(8)],
    ['unions within the limits', union(6)],
    ['900 parts with unevaluatedProperties', { type: 'object', allOf, unevaluatedProperties: false }],
    ['1,900 properties', { type: 'object', properties: properties(1900, { type: 'string' }) }],
    [
      '900 references to 900 properties',
      {
        type: 'object',
        $defs: { d: { type: 'object', properties: properties(900, { type: 'string' }) } },
        properties: properties(900, { $ref: '#/$defs/d' }),
      },
    ],
    ['long patterns', { type: 'object', properties: properties(20, { pattern: '\\p{L}{1000}'.repeat(200) }) }],
    ['1 MB of text', { type: 'object', description: 'x'.repeat(1 << 20) }],
  ];
}

function hostileArguments(): [string, JsonSchema, unknown][] {
  const self = { $ref: '#' };
  let deep: unknown = { a: 1 };
  for (let level = 0; level < 60; level++) deep = { a: deep };
  const constants = Array.from({ length: 1900 }, (_, index) => ({ const: `c${index}` }));
  const objects = Array.from({ length: 20_000 }, (_, index) => ({ i: index % 19_999 }));
  const list = (items: Record<string, unknown>) => ({ type: 'object', properties: { l: items } });
  return [
    [
      'a union of three references to itself, 60 levels',
      { type: 'object', properties: { a: { anyOf: [self, self, self] } } },
      deep,
    ],
    [
      '100,000 numbers against 1,900 constants',
      list({ type: 'array', items: { anyOf: constants } }),
      { l: Array(100_000).fill(1) },
    ],
    ['20,000 objects that must differ', list({ type: 'array', uniqueItems: true }), { l: objects.slice(0, 15_000) }],
  ];
}

/** MB of heap after many different schemas were used once each, beyond what was there after the first hundred. */
function growth(cycles: number): number {
  const use = (index: number) => validateArguments({ ...(WRITE as object), title: `schema ${index}` }, TYPED);
  for (let index = 0; index < 100; index++) use(-index - 1);
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let index = 0; index < cycles; index++) use(index);
  collect();
  return (process.memoryUsage().heapUsed - before) / (1 << 20);
}

function collect(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

function watchEventLoop() {
  let last = performance.now();
  let longest = 0;
  const tick = setInterval(() => {
    const now = performance.now();
    longest = Math.max(longest, now - last - 10);
    last = now;
  }, 10);
  return {
    restart: () => {
      last = performance.now();
      longest = 0;
    },
    longest: () => longest,
    stop: () => clearInterval(tick),
  };
}

function timed(run: () => unknown): number {
  const started = performance.now();
  run();
  return performance.now() - started;
}

/** Runs per second of one core's time, in the best of three stretches: what else the machine does must not count. */
function rate(durationMs: number, run: () => unknown): number {
  let most = 0;
  for (let stretch = 0; stretch < 3; stretch++) {
    let runs = 0;
    const before = process.threadCpuUsage();
    let spent = 0;
    while (spent < durationMs / 3) {
      for (let index = 0; index < 1000; index++) run();
      runs += 1000;
      spent = cpuMs(before);
    }
    most = Math.max(most, (1000 * runs) / spent);
  }
  return most;
}

function cpuMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(since);
  return (user + system) / 1000;
}

async function asyncRate(durationMs: number, run: (index: number) => Promise<unknown>): Promise<number> {
  let runs = 0;
  const started = performance.now();
  while (performance.now() - started < durationMs) await run(runs++);
  return (1000 * runs) / (performance.now() - started);
}
