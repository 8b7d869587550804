import type { ErrorFacts } from './error-facts.js';

/** No provider's hint makes us wait longer than this. */
export const RETRY_AFTER_CAP_MS = 30_000;

/**
 * How long the provider asks us to wait, in whole ms (at most 30 s), or undefined when it gives no usable hint.
 * Sources in order: millisecond headers, `retry-after`, google.rpc.RetryInfo, the text, reset headers of empty buckets.
 */
export function readRetryAfter(headers: Map<string, string>, facts: ErrorFacts, now: number): number | undefined {
  const hint =
    millisecondsOf(headers.get('retry-after-ms')) ??
    millisecondsOf(headers.get('x-ms-retry-after-ms')) ??
    retryAfterHeader(headers.get('retry-after'), now) ??
    durationMs(facts.retryDelay) ??
    fromText(facts.text) ??
    fromResetHeaders(headers, now);
  return hint === undefined ? undefined : Math.min(RETRY_AFTER_CAP_MS, Math.round(hint));
}

function usable(ms: number): number | undefined {
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined;
}

function millisecondsOf(value: string | undefined): number | undefined {
  if (value === undefined || !/^\s*\d+(\.\d+)?\s*$/.test(value)) return undefined;
  return usable(Number(value));
}

function retryAfterHeader(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d+(\.\d+)?$/.test(text)) return usable(Number(text) * 1000);
  if (!/[a-z]{3}/i.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : usable(at - now);
}

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const UNIT = String.raw`(ms|milliseconds?|msecs?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)`;
const DURATION = new RegExp(String.raw`^\s*(?:\d+(?:\.\d+)?\s*${UNIT}\s*)+$`, 'i');
const PIECE = new RegExp(String.raw`(\d+(?:\.\d+)?)\s*${UNIT}(?![a-z])`, 'gi');
const IN_TEXT = new RegExp(
  String.raw`(?:try again|retry|wait|available again|resets?|come back)[^.\d\n-]{0,24}?((?:\d+(?:\.\d+)?\s*${UNIT}(?![a-z])[\s,]*(?:and\s+)?)+)`,
  'i',
);

/** `6.5s`, `2m59.56s`, `120ms`, `1 minute 5 seconds` in milliseconds; undefined for anything else. */
export function durationMs(value: string | undefined): number | undefined {
  if (value === undefined || value.length > 64 || !DURATION.test(value)) return undefined;
  return sumPieces(value);
}

function sumPieces(value: string): number | undefined {
  let total = 0;
  for (const [, number, unit] of value.matchAll(PIECE)) total += Number(number) * unitMs(unit ?? '');
  return usable(total);
}

function unitMs(unit: string): number {
  const lower = unit.toLowerCase();
  if (lower === 'ms' || lower.startsWith('milli') || lower.startsWith('msec')) return 1;
  return UNIT_MS[lower.charAt(0)] ?? NaN;
}

function fromText(text: string): number | undefined {
  if (text === '') return undefined;
  const found = IN_TEXT.exec(text.slice(0, 4096));
  return found?.[1] === undefined ? undefined : sumPieces(found[1]);
}

function fromResetHeaders(headers: Map<string, string>, now: number): number | undefined {
  let largest: number | undefined;
  for (const [name, value] of headers) {
    const match = /^x-ratelimit-reset(-.*)?$/.exec(name);
    if (match === null) continue;
    const remaining = headers.get(`x-ratelimit-remaining${match[1] ?? ''}`);
    if (remaining === undefined || remaining.trim() === '' || Number(remaining) !== 0) continue;
    const wait = /^\s*\d+(\.\d+)?\s*$/.test(value) ? usable(Number(value) - now) : durationMs(value);
    if (wait !== undefined && (largest === undefined || wait > largest)) largest = wait;
  }
  return largest;
}
