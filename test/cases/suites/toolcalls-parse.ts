// What a model wrote -> text, calls, errors: the schema and the rules of comparison are in ../toolcalls/CONTRACT.md.
import { isDeepStrictEqual } from 'node:util';
import {
  ALL_TEXT_DIALECTS,
  CORE_TEXT_DIALECTS,
  type Dialect,
  type NativeAnswer,
  type ParseOptions,
  type ParseResult,
  type ToolDefinition,
  ToolCallStream,
  parseToolCalls,
  readNativeCalls,
} from '@yardmaster/tool-calls';
import type { Suite, Verdict } from '../suite.ts';

interface ExpectedError {
  kind: string | string[];
  suggest?: string;
  mentions?: string;
}

interface ParseCase {
  id: string;
  dialect: string;
  raw?: string;
  native?: NativeAnswer;
  tools?: ToolDefinition[];
  expected: {
    text: string;
    calls: { name: string; arguments: Record<string, unknown> }[];
    errors: ExpectedError[];
    ids?: string[] | 'unique_nonempty';
  };
  ignore?: string[];
  limits?: { max_ms?: number; max_errors?: number };
  forbidden_reads?: string[];
}

/** Case files write long texts and lists as `$repeat` and `$times`. */
export function expand(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expand);
  if (typeof value !== 'object' || value === null) return value;
  const { $repeat, $times } = value as { $repeat?: [string, number][]; $times?: [unknown, number] };
  if ($repeat) return $repeat.map(([text, count]) => text.repeat(count)).join('');
  if ($times) return Array.from({ length: $times[1] }, () => expand($times[0]));
  const result: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    Object.defineProperty(result, key, { value: expand(inner), enumerable: true, writable: true, configurable: true });
  }
  return result;
}

export const suite: Suite = function* (content) {
  for (const one of content as unknown[]) {
    const test = expand(one) as ParseCase;
    let verdict: Verdict;
    try {
      verdict = run(test);
    } catch (error) {
      verdict = { id: test.id, ok: false, why: `threw ${(error as Error).stack}` };
    }
    yield verdict;
  }
};

function run(test: ParseCase): Verdict {
  const fail = (why: string, expected: unknown, got: unknown): Verdict => ({ id: test.id, ok: false, why, expected, got });
  const started = performance.now();
  const result = parse(test);
  const tookMs = performance.now() - started;
  const { expected, ignore = [], limits = {} } = test;
  if (limits.max_ms !== undefined && tookMs > limits.max_ms) return fail('too slow', limits.max_ms, tookMs);
  if (limits.max_errors !== undefined && result.errors.length > limits.max_errors) {
    return fail('too many errors', limits.max_errors, result.errors.length);
  }
  if (!ignore.includes('text') && squeeze(result.text) !== squeeze(expected.text)) {
    return fail('text', expected.text, result.text);
  }
  const ignoredArguments = ignore.filter((part) => part.startsWith('args:')).map((part) => part.slice(5));
  const calls = result.calls.map(({ name, arguments: args }) => ({ name, arguments: without(args, ignoredArguments) }));
  const wanted = expected.calls.map((call) => ({ ...call, arguments: without(call.arguments, ignoredArguments) }));
  if (!isDeepStrictEqual(calls, wanted)) return fail('calls', clip(wanted), clip(calls));
  if (!ignore.includes('errors')) {
    const why = errorsDiffer(expected.errors, result);
    if (why !== undefined) return fail(why, expected.errors, result.errors);
  }
  const ids = result.calls.map(({ id }) => id);
  if (expected.ids === 'unique_nonempty' ? new Set(ids).size !== ids.length || ids.includes('') : expected.ids && !isDeepStrictEqual(ids, expected.ids)) {
    return fail('ids', expected.ids, clip(ids));
  }
  for (const key of test.forbidden_reads ?? []) {
    const reads = [...result.calls.map((call) => call.arguments[key]), ({} as Record<string, unknown>)[key]];
    if (reads.some((read) => read !== undefined)) return fail(`reading "${key}" must give undefined`, undefined, reads);
  }
  if (test.raw !== undefined) {
    const why = streamingDiffers(test.raw, optionsOf(test), result);
    if (why !== undefined) return fail(why.why, clip(why.expected), clip(why.got));
  }
  return { id: test.id, ok: true };
}

function parse(test: ParseCase): ParseResult {
  if (test.native) return readNativeCalls(test.native, test.tools ? { tools: test.tools } : {});
  return parseToolCalls(test.raw!, optionsOf(test));
}

function optionsOf(test: ParseCase): ParseOptions {
  return { dialects: dialectsOf(test.dialect), ...(test.tools ? { tools: test.tools } : {}) };
}

function dialectsOf(dialect: string): readonly Dialect[] {
  if (dialect === 'other') return ALL_TEXT_DIALECTS.filter((one) => one !== 'pythonic' && one !== 'harmony');
  const known = ALL_TEXT_DIALECTS.find((one) => one === dialect);
  return known && !CORE_TEXT_DIALECTS.includes(known) ? [...CORE_TEXT_DIALECTS, known] : CORE_TEXT_DIALECTS;
}

function errorsDiffer(expected: ExpectedError[], { errors }: ParseResult): string | undefined {
  if (errors.length !== expected.length) return 'number of errors';
  for (const [index, want] of expected.entries()) {
    const got = errors[index]!;
    if (![want.kind].flat().includes(got.kind)) return `kind of error ${index}`;
    if (want.suggest !== undefined && got.suggest !== want.suggest) return `suggestion of error ${index}`;
    if (want.mentions !== undefined && !got.message.includes(want.mentions)) return `message of error ${index}`;
  }
  return undefined;
}

/** Feeds the answer in pieces of several sizes; every way must end in the same result, its events adding up to it. */
export function streamingDiffers(
  raw: string,
  options: ParseOptions,
  whole: ParseResult,
): { why: string; expected: unknown; got: unknown } | undefined {
  for (const size of [1, 2, 7, 64, 'random'] as const) {
    const stream = new ToolCallStream(options);
    let shown = '';
    let taken = false;
    const note = (events: ReturnType<ToolCallStream['push']>) => {
      for (const event of events) {
        if (event.type === 'text') shown += event.text;
        else if (event.type === 'reset') {
          shown = '';
          taken = true;
        }
      }
    };
    // A fixed generator, so that a failure can be repeated.
    let seed = raw.length + 1;
    for (let at = 0; at < raw.length;) {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      const length = size === 'random' ? 1 + (seed % 40) : size;
      note(stream.push(raw.slice(at, at + length)));
      at += length;
    }
    const { events, ...result } = stream.end();
    note(events);
    if (!isDeepStrictEqual(result, whole)) return { why: `streamed in pieces of ${size}`, expected: whole, got: result };
    if (!taken && shown !== whole.text) return { why: `text events in pieces of ${size}`, expected: whole.text, got: shown };
  }
  return undefined;
}

function squeeze(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

function without(args: Record<string, unknown>, keys: string[]): Record<string, unknown> {
  return keys.length === 0 ? args : Object.fromEntries(Object.entries(args).filter(([key]) => !keys.includes(key)));
}

function clip(value: unknown): unknown {
  const text = JSON.stringify(value);
  return text === undefined || text.length <= 2000 ? value : `${text.slice(0, 2000)}…`;
}
