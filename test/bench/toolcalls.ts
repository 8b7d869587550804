// Reading tool calls out of text, against the plain search for the close tag ("search", and with jsonrepair) and
// @ai-sdk-tool/parser in the same run. Ratios are what counts; MB are millions of UTF-16 units.
import { readFileSync } from 'node:fs';
import { ALL_TEXT_DIALECTS, CORE_TEXT_DIALECTS, ToolCallStream, ToolSet, parseToolCalls } from '@yardmaster/tool-calls';
import { expand } from '../cases/suites/toolcalls-parse.ts';
import type { Bench, Row } from './report.ts';

interface Call {
  name: string;
  arguments: unknown;
}
type Parser = (text: string) => Call[];

const TOOLS = [
  tool('file_read', { path: { type: 'string' } }, ['path']),
  tool('file_write', { path: { type: 'string' }, content: { type: 'string' } }, ['path', 'content']),
  tool('shell', { command: { type: 'string' }, timeout_s: { type: 'integer' } }, ['command']),
  tool('search', { q: { type: 'string' }, limit: { type: 'integer' }, exact: { type: 'boolean' } }, ['q']),
];
const SET = new ToolSet(TOOLS);

export const bench: Bench = async function* ({ quick }) {
  const row = (metric: string, value: number, unit: string, more: Partial<Row> = {}): Row => ({
    bench: 'toolcalls',
    metric,
    value,
    unit,
    ...more,
  });
  const rounds = quick ? 3 : 5;
  const peer = await loadPeer();
  const jsonrepair = await loadJsonrepair();
  if (!peer || !jsonrepair) {
    yield row('peers', 0, '', { against: 'skipped: not installed (npm ci --prefix test/bench)' });
  }
  const ours: Parser = (text) => parseToolCalls(text, { tools: SET }).calls;
  const search: Parser = (text) => searchParser(text, JSON.parse);
  const searchRepair: Parser | undefined =
    jsonrepair && ((text) => searchParser(text, (body) => JSON.parse(jsonrepair(body)) as unknown));

  const typical = typicalAnswers(250);
  const broken = typical.map((text) => text.replaceAll('}}\n</tool_call>', '},}\n</tool_call>'));
  const oneBig = [
    `Writing.\n<tool_call>{"name":"file_write","arguments":{"path":"a","content":"${'x'.repeat(1 << 20)}"}}</tool_call>`,
  ];
  const prose = ['The quick brown fox, as they say, jumps over a lazy dog. '.repeat(18_400)];

  const speeds = [
    { name: 'typical answers', corpus: typical, least: 60, peerRatio: 4 },
    { name: 'answers with a trailing comma', corpus: broken, least: 15, peerRatio: 1 },
    { name: 'one 1 MB argument', corpus: oneBig, least: 150, searchRatio: 0.4 },
    { name: 'prose without tags', corpus: prose, least: 300 },
  ];
  for (const { name, corpus, least, peerRatio, searchRatio } of speeds) {
    const size = corpus.reduce((sum, text) => sum + text.length, 0);
    const parsers: [string, Parser][] = [
      ['ours', ours],
      ['search', search],
    ];
    if (searchRepair) parsers.push(['search and jsonrepair', searchRepair]);
    if (peer) parsers.push(['@ai-sdk-tool/parser', peer.parser(TOOLS)]);
    // In turns, so that a busy moment of the machine does not fall on one of them alone.
    const best = new Map<string, number>();
    for (let round = 0; round < 3 * rounds; round++) {
      for (const [who, parse] of parsers) {
        const speed = size / 1e6 / bestSeconds(() => corpus.forEach((text) => parse(text)), 1, 0.03);
        best.set(who, Math.max(best.get(who) ?? 0, speed));
      }
    }
    const value = best.get('ours')!;
    yield row(name, value, 'MB/s', { target: `>= ${least} MB/s`, ok: value >= least });
    for (const [who, theirs] of best) {
      if (who === 'ours') continue;
      const wanted = who === 'search' ? searchRatio : who === '@ai-sdk-tool/parser' ? peerRatio : undefined;
      yield row(`${name}, ${who}`, theirs, 'MB/s', {
        against: `ours / ${who}`,
        ratio: value / theirs,
        ...(wanted === undefined ? {} : { target: `ours >= ${wanted}x`, ok: value >= wanted * theirs }),
      });
    }
  }

  const four = typical.filter((text) => text.length > 3500);
  const times: number[] = [];
  for (let index = 0; index < (quick ? 2000 : 8000); index++) {
    const started = performance.now();
    ours(four[index % four.length]!);
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  const p99 = times[Math.floor(times.length * 0.99)]!;
  yield row('one 4 KB answer, p99', p99, 'ms', { target: '< 1 ms', ok: p99 < 1 });

  // With pieces this small, taking them in costs more than reading them: it is measured alone and added to the floor.
  for (const [name, corpus] of Object.entries({ 'typical answers': typical, 'one 1 MB argument': oneBig })) {
    const size = corpus.reduce((sum, text) => sum + text.length, 0);
    let looked = 0;
    for (const text of corpus) looked += inCharacters(text);
    yield row(`${name}, looks at each character when streamed singly`, looked / size, 'x', {
      target: '<= 3',
      ok: looked <= 3 * size,
    });
    const seconds = {
      whole: Number.POSITIVE_INFINITY,
      received: Number.POSITIVE_INFINITY,
      streamed: Number.POSITIVE_INFINITY,
    };
    for (let round = 0; round < rounds; round++) {
      seconds.whole = Math.min(
        seconds.whole,
        bestSeconds(() => corpus.forEach((text) => ours(text)), 1),
      );
      seconds.received = Math.min(
        seconds.received,
        bestSeconds(() => corpus.forEach((text) => receive(text)), 1),
      );
      seconds.streamed = Math.min(
        seconds.streamed,
        bestSeconds(() => corpus.forEach((text) => inCharacters(text)), 1),
      );
    }
    const ratio = seconds.streamed / (seconds.whole + seconds.received);
    yield row(`${name}, one character at a time`, (seconds.streamed * 1e9) / size, 'ns/char', {
      against: 'in one piece, plus taking the pieces in',
      ratio,
      target: '<= 3x',
      ok: ratio <= 3,
    });
  }

  const hostile: Parser = (text) => parseToolCalls(text, { tools: SET, dialects: ALL_TEXT_DIALECTS }).calls;
  for (const [name, make] of Object.entries(HOSTILE)) {
    const ratio = growth(make, hostile, quick ? 5 : 9);
    yield row(`t(2n)/t(n), ${name}`, ratio, 'x', { target: '<= 2.6', ok: ratio <= 2.6 });
  }

  const parsers: Record<string, ((test: TextCase) => Parser) | undefined> = {
    ours: (test) => (text) =>
      parseToolCalls(text, { dialects: dialectsOf(test.dialect), ...(test.tools ? { tools: test.tools } : {}) }).calls,
    search: () => search,
    'search and jsonrepair': searchRepair && (() => searchRepair),
    '@ai-sdk-tool/parser': peer && ((test) => peer.parser((test.tools as typeof TOOLS | undefined) ?? [])),
  };
  const cases = textCases();
  for (const [name, parser] of Object.entries(parsers)) {
    if (!parser) continue;
    let right = 0;
    let dangerous = 0;
    for (const test of cases) {
      // Others need minutes for the longest hostile inputs; these count as not right for them.
      if (name !== 'ours' && test.raw.length > 40_000) continue;
      const calls = safely(parser(test), test.raw);
      if (calls && same(calls, test.expected.calls)) right++;
      else if (calls && isDangerous(test, calls)) dangerous++;
    }
    const mustBeRight = name === 'ours' ? { target: `all ${cases.length}`, ok: right === cases.length } : {};
    yield row(`right calls of ${cases.length} cases, ${name}`, right, 'cases', mustBeRight);
    yield row(
      `dangerous answers, ${name}`,
      dangerous,
      'cases',
      name === 'ours' ? { target: '0', ok: dangerous === 0 } : {},
    );
  }
};

const HOSTILE: Record<string, (n: number) => string> = {
  'open tags': (n) => '<tool_call>'.repeat(n),
  'cut calls': (n) => '<tool_call>{"name":"a","arguments":{"k":"'.repeat(n),
  'bodies and one close tag': (n) => `${'<tool_call> x '.repeat(n)}</tool_call>`,
  'reasoning tags': (n) => '<think>'.repeat(n),
  backticks: (n) => '`'.repeat(n),
  fences: (n) => '```x\n'.repeat(n),
  'function blocks': (n) => '<function=shell>\n<parameter=b>\n'.repeat(n),
  'close tags': (n) => '</tool_call>'.repeat(n),
  'angle brackets': (n) => '<'.repeat(n),
  'half tags': (n) => '<invoke name="'.repeat(n),
  'python calls': (n) => '[search(a=1,'.repeat(n),
  spaces: (n) => ' '.repeat(n),
};

function tool(name: string, properties: Record<string, unknown>, required: string[]) {
  return { name, description: `Does ${name}.`, parameters: { type: 'object', properties, required } };
}

/** Answers of about 4.5 KB as agents give them: some reasoning or prose, then one to three calls that hold most of it. */
function typicalAnswers(count: number): string[] {
  let seed = 42;
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return (seed >> 8) % below;
  };
  const words =
    'the server reads a file and then writes what changed into `result.ts` before it answers; so we check twice'.split(
      ' ',
    );
  const sentence = () => `${Array.from({ length: 8 + random(14) }, () => words[random(words.length)]).join(' ')}. `;
  const paragraph = () => `${Array.from({ length: 3 + random(3) }, sentence).join('')}\n\n`;
  const code = (lines: number) =>
    Array.from(
      { length: lines },
      (_, line) => `  if (values[${line}] < limit && "${words[random(words.length)]}") { call(\`x\`); }`,
    ).join('\n');
  const small = (): Call => {
    const kind = random(3);
    if (kind === 0) return { name: 'file_read', arguments: { path: `src/${words[random(8)]}.ts` } };
    if (kind === 1)
      return {
        name: 'shell',
        arguments: { command: `grep -rn "${words[random(8)]}" src | head -${random(50)}`, timeout_s: random(60) },
      };
    return { name: 'search', arguments: { q: sentence(), limit: String(random(20)), exact: true } };
  };
  const render = (call: Call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>\n`;
  return Array.from({ length: count }, () => {
    const parts = random(3) === 0 ? [`<think>\n${paragraph()}</think>\n`] : [];
    parts.push(paragraph());
    if (random(4) === 0) parts.push(`\`\`\`ts\n${code(6)}\n\`\`\`\n\n`);
    for (let calls = random(3); calls > 0; calls--) parts.push(render(small()));
    parts.push(render({ name: 'file_write', arguments: { path: 'src/a.ts', content: code(40 + random(30)) } }));
    return parts.join('');
  });
}

function inCharacters(text: string): number {
  const stream = new ToolCallStream({ tools: SET });
  for (let at = 0; at < text.length; at++) stream.push(text[at]!);
  stream.end();
  return stream.charactersRead;
}

/** What any reader of a stream has to do: put the pieces together. */
function receive(text: string): string {
  let whole = '';
  for (let at = 0; at < text.length; at++) whole += text[at]!;
  // Reading one character makes the engine lay the pieces out in one string.
  whole.charCodeAt(whole.length >> 1);
  return whole;
}

const SIZES = [5000, 10_000, 20_000, 40_000, 80_000];

/**
 * What twice the text costs, over four doublings: two to the slope of the straight line through the times in a
 * logarithmic plot; 2 is linear, 4 quadratic. Each time is the median of several rounds of CPU time of this thread, so
 * others on the machine do not count; the sizes take turns, so that a slow spell meets all of them.
 */
function growth(make: (n: number) => string, parse: Parser, rounds: number): number {
  const texts = SIZES.map(make);
  const seconds: number[][] = SIZES.map(() => []);
  for (const text of texts) parse(text);
  for (let round = 0; round < rounds; round++)
    for (const [index, text] of texts.entries()) seconds[index]!.push(cpuSeconds(() => parse(text), 0.02));
  const ys = seconds.map((times) => Math.log2(times.sort((a, b) => a - b)[times.length >> 1]!));
  const xs = SIZES.map(Math.log2);
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x0, y0] = [mean(xs), mean(ys)];
  const slope = mean(xs.map((x, index) => (x - x0) * (ys[index]! - y0))) / mean(xs.map((x) => (x - x0) ** 2));
  return 2 ** slope;
}

/** CPU time of one call, from as many as take `least` seconds. */
function cpuSeconds(work: () => void, least: number): number {
  const used = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1e6;
  };
  const started = used();
  let count = 0;
  let seconds = 0;
  do {
    work();
    count++;
    seconds = used() - started;
  } while (seconds < least);
  return seconds / count;
}

/** The best of several rounds, each at least `least` seconds long, per call. */
function bestSeconds(work: () => void, rounds: number, least = 0.1): number {
  work();
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    let count = 0;
    let seconds = 0;
    do {
      work();
      count++;
      seconds = (performance.now() - started) / 1000;
    } while (seconds < least);
    best = Math.min(best, seconds / count);
  }
  return best;
}

/** What most agents do: take reasoning out by a text search, then cut at the first close tag. */
function searchParser(text: string, read: (body: string) => unknown): Call[] {
  let rest = text.replace(/<think>[\s\S]*?<\/think>/g, '');
  const calls: Call[] = [];
  for (let start = rest.indexOf('<tool_call>'); start >= 0; start = rest.indexOf('<tool_call>')) {
    const end = rest.indexOf('</tool_call>', start);
    if (end < 0) break;
    try {
      const parsed = read(rest.slice(start + 11, end).trim()) as { name?: unknown; arguments?: unknown } | null;
      if (typeof parsed?.name === 'string' && parsed.name !== '')
        calls.push({ name: parsed.name, arguments: parsed.arguments ?? {} });
    } catch {
      // Skipped with a warning where this comes from.
    }
    rest = rest.slice(end + 12);
  }
  return calls;
}

interface Peer {
  parser: (tools: readonly { name: string; parameters?: unknown }[]) => Parser;
}

async function loadPeer(): Promise<Peer | undefined> {
  const specifier: string = '@ai-sdk-tool/parser';
  try {
    const { hermesProtocol } = (await import(specifier)) as {
      hermesProtocol: () => {
        parseGeneratedText: (input: {
          text: string;
          tools: unknown[];
          options: unknown;
        }) => { type: string; toolName?: string; input?: string }[];
      };
    };
    const protocol = hermesProtocol();
    return {
      parser: (tools) => {
        const given = tools.map(({ name, parameters }) => ({
          type: 'function',
          name,
          inputSchema: parameters ?? { type: 'object' },
        }));
        return (text) =>
          protocol
            .parseGeneratedText({ text, tools: given, options: { onError: () => {} } })
            .filter((part) => part.type === 'tool-call')
            .map((part) => ({ name: part.toolName ?? '', arguments: JSON.parse(part.input ?? '{}') as unknown }));
      },
    };
  } catch {
    return undefined;
  }
}

async function loadJsonrepair(): Promise<((text: string) => string) | undefined> {
  const specifier: string = 'jsonrepair';
  try {
    return ((await import(specifier)) as { jsonrepair: (text: string) => string }).jsonrepair;
  } catch {
    return undefined;
  }
}

interface TextCase {
  raw: string;
  dialect: string;
  tools?: { name: string }[];
  expected: { calls: Call[]; errors: { kind: string | string[] }[] };
}

function textCases(): TextCase[] {
  const file = new URL('../cases/toolcalls/parse.json', import.meta.url);
  const content = (JSON.parse(readFileSync(file, 'utf8')) as unknown[]).map((one) => expand(one) as Partial<TextCase>);
  return content.filter((test): test is TextCase => test.raw !== undefined);
}

function dialectsOf(dialect: string) {
  if (dialect === 'other') return ALL_TEXT_DIALECTS.filter((one) => one !== 'pythonic' && one !== 'harmony');
  const named = ALL_TEXT_DIALECTS.find((one) => one === dialect);
  return named ? [...CORE_TEXT_DIALECTS, named] : CORE_TEXT_DIALECTS;
}

function safely(parser: Parser, text: string): Call[] | undefined {
  try {
    return parser(text);
  } catch {
    return undefined;
  }
}

function same(calls: readonly Call[], expected: readonly Call[]): boolean {
  return calls.length === expected.length && calls.every((call, index) => sameCall(call, expected[index]!));
}

function sameCall(call: Call, expected: Call): boolean {
  return call.name === expected.name && sorted(call.arguments) === sorted(expected.arguments);
}

function sorted(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort())
      : inner,
  );
}

/**
 * Whether an answer would run something that the model did not ask for: a call too many, or other arguments than it
 * wrote. Cases about names and schemas are left out, since a registry behind the parser would still refuse those.
 */
function isDangerous({ tools, expected }: TextCase, calls: readonly Call[]): boolean {
  const checked = expected.errors.some(({ kind }) =>
    [kind].flat().some((one) => one === 'unknown_tool' || one === 'schema'),
  );
  if (checked) return false;
  if (calls.length > expected.calls.length) return true;
  return !tools && calls.some((call) => !expected.calls.some((wanted) => sameCall(call, wanted)));
}
