// Answers of providers, as bodies and as reads from a socket, and what they must come to.
import { isDeepStrictEqual } from 'node:util';
import { normaliseBody, WireStream, type WireAnswer } from '@yardmaster/llm-wire';
import type { Suite, Verdict } from '../suite.ts';

interface ResponseCase {
  id: string;
  provider: string;
  request_kind: 'chat' | 'responses' | 'completion';
  /** The output limit that the request set. */
  max_tokens?: number;
  body?: string;
  sse?: (string | { b64: string })[];
  expected: {
    text: string;
    reasoning?: string;
    tool_calls: { id?: string; name: string; arguments_json: string }[];
    finish_reason: string;
    usage?: Record<string, number> | null;
    error?: { class: string };
  };
}

export const suite: Suite = function* (content) {
  for (const one of content as ResponseCase[]) {
    const got = read(one);
    const why = difference(one.expected, got);
    yield why === undefined ? { id: one.id, ok: true } : ({ id: one.id, ok: false, expected: one.expected, got, why } satisfies Verdict);
  }
};

const FAMILIES = { chat: 'openai-chat', responses: 'openai-responses', completion: 'llamacpp-completion' } as const;

function read(one: ResponseCase): WireAnswer {
  const family = FAMILIES[one.request_kind];
  const options = { provider: one.provider, ...(one.max_tokens === undefined ? {} : { maxTokens: one.max_tokens }) };
  if (one.body !== undefined) return normaliseBody(family, one.body, options);
  const stream = new WireStream(family, options);
  for (const piece of one.sse ?? []) {
    stream.push(typeof piece === 'string' ? new TextEncoder().encode(piece) : Buffer.from(piece.b64, 'base64'));
  }
  stream.end();
  return stream.answer();
}

function difference(expected: ResponseCase['expected'], got: WireAnswer): string | undefined {
  if (got.text.trim() !== expected.text.trim()) return 'text differs';
  if (squeeze(got.reasoning) !== squeeze(expected.reasoning ?? '')) return 'reasoning differs';
  if (got.finish_reason !== expected.finish_reason) return 'finish reason differs';
  if (got.error?.class !== expected.error?.class) return 'error class differs';
  if (expected.usage === null && got.usage !== null) return 'usage must be absent';
  for (const [key, value] of Object.entries(expected.usage ?? {})) {
    if ((got.usage as Record<string, number> | null)?.[key] !== value) return `usage.${key} differs`;
  }
  if (got.calls.length !== expected.tool_calls.length) return 'number of calls differs';
  const ids = new Set(got.calls.map((call) => call.id));
  if (ids.size !== got.calls.length || ids.has('')) return 'call ids must be unique and not empty';
  for (const [index, call] of got.calls.entries()) {
    const wanted = expected.tool_calls[index]!;
    if (call.name !== wanted.name) return `name of call ${index} differs`;
    if (wanted.id !== undefined && call.id !== wanted.id) return `id of call ${index} differs`;
    if (!isDeepStrictEqual(parse(call.arguments), parse(wanted.arguments_json))) return `arguments of call ${index} differ`;
  }
  return undefined;
}

function squeeze(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { unparsable: text };
  }
}
