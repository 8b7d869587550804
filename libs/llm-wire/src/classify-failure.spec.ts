import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classifyFailure, costOf, priceOf, speaksOfModel, type FailureClass } from './index.js';

const openai = (message: string, code: string | null = null, type: string | null = null): string =>
  JSON.stringify({ error: { message, type, param: null, code } });

// Forms that real servers use, beyond the case files: [provider, status, body, class].
const FORMS: [string, number, string, FailureClass][] = [
  [
    'openai',
    429,
    openai(
      'Rate limit reached on requests per day (RPD): Limit 200. Please try again in 7m12s.',
      'rate_limit_exceeded',
    ),
    'next_provider',
  ],
  [
    'openai',
    429,
    openai(
      'Request too large on tokens per min (TPM): Limit 10000. The input tokens must be reduced.',
      'rate_limit_exceeded',
    ),
    'rotate_key_then_retry',
  ],
  [
    'openai',
    400,
    openai('max_tokens is too large: 100000. This model supports at most 16384 completion tokens', 'invalid_value'),
    'next_provider',
  ],
  [
    'anthropic',
    400,
    JSON.stringify({
      type: 'error',
      error: { type: 'invalid_request_error', message: 'You have reached your specified API usage limits.' },
    }),
    'next_provider',
  ],
  [
    'anthropic',
    400,
    openai('input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000'),
    'context_overflow',
  ],
  [
    'anthropic',
    429,
    openai(
      "This request would exceed your organization's rate limit of 50,000 input tokens per minute. Please reduce the prompt length",
    ),
    'rotate_key_then_retry',
  ],
  ['openrouter', 200, JSON.stringify({ error: { message: 'Insufficient credits', code: 402 } }), 'next_provider'],
  [
    'openrouter',
    429,
    JSON.stringify({ error: { message: 'Rate limit exceeded: free-models-per-min.', code: 429 } }),
    'rotate_key_then_retry',
  ],
  [
    'gemini',
    404,
    JSON.stringify([
      { error: { code: 404, message: 'models/gemini-1.0 is not found for API version v1', status: 'NOT_FOUND' } },
    ]),
    'next_model',
  ],
  ['deepseek', 400, openai('Model Not Exist', 'invalid_request_error'), 'next_model'],
  ['minimax', 200, JSON.stringify({ base_resp: { status_code: 1013, status_msg: 'internal' } }), 'retry'],
  ['ollama', 500, openai("error parsing tool call: raw='{', err=unexpected end of JSON input"), 'model_output'],
  ['ollama', 400, openai('registry.ollama.ai/library/x does not support tools'), 'next_model'],
  ['tgi', 422, JSON.stringify({ error: '`inputs` must have less than 1024 tokens. Given: 2000' }), 'context_overflow'],
  [
    'cohere',
    429,
    JSON.stringify({ message: 'You are using a Trial key, which is limited to 1000 API calls / month.' }),
    'next_provider',
  ],
  ['proxy', 404, '404 page not found', 'next_provider'],
  ['proxy', 500, 'null', 'retry'],
];

describe('classifyFailure', () => {
  it.each(FORMS)('%s %i %s', (provider, status, body, expected) => {
    expect(classifyFailure({ provider, status, body, headers: {} }).class).toBe(expected);
  });

  it('never takes a 429 or a 402 for an overflow, whatever the body says', () => {
    const words = fc.constantFrom(
      'maximum context length',
      'too many tokens',
      'context_length_exceeded',
      'prompt is too long',
      'reduce the length',
      'per minute',
    );
    const body = fc.record({
      error: fc.record({ message: fc.array(words).map((list) => list.join(' ')), code: words, type: fc.string() }),
    });
    fc.assert(
      fc.property(body, fc.constantFrom(429, 402), (value, status) => {
        expect(classifyFailure({ status, body: JSON.stringify(value) }).class).not.toBe('context_overflow');
      }),
    );
  });

  it('never retries what cannot succeed: a 4xx other than 408 and 429', () => {
    fc.assert(
      fc.property(fc.integer({ min: 400, max: 499 }), fc.json(), (status, body) => {
        fc.pre(status !== 408 && status !== 429);
        expect(['retry', 'rotate_key_then_retry']).not.toContain(classifyFailure({ status, body }).class);
      }),
    );
  });

  it('takes any bytes, headers and errors without throwing', () => {
    fc.assert(
      fc.property(
        fc.nat(999),
        fc.string(),
        fc.dictionary(fc.string(), fc.string()),
        fc.anything(),
        (status, body, headers, error) => {
          const verdict = classifyFailure({ status, body, headers, error, now: 0 });
          if (verdict.retryAfterMs !== undefined) expect(verdict.retryAfterMs).toBeGreaterThanOrEqual(0);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('reads the numbers of an overflow', () => {
    const read = (message: string): unknown =>
      classifyFailure({ status: 400, body: openai(message, 'context_length_exceeded') }).overflow;
    expect(
      read(
        'maximum context length is 8192 tokens, however you requested 9000 tokens (1000 in your prompt; 8000 for the completion)',
      ),
    ).toEqual({
      contextLimit: 8192,
      promptTokens: 1000,
      outputTokens: 8000,
    });
    expect(read('prompt is too long: 213,462 tokens > 200,000 maximum')).toEqual({
      contextLimit: 200000,
      promptTokens: 213462,
    });
  });

  it('ends quickly on long hostile texts', () => {
    for (const piece of [
      'model ',
      'exceed ',
      'try again in 1 ',
      '1s ',
      'context length ',
      'per ',
      '`inputs` tokens ',
    ]) {
      classifyFailure({ status: 400, body: openai(piece.repeat(20_000)) });
    }
  });
});

describe('speaksOfModel', () => {
  it('tells a missing route from a missing model', () => {
    expect(speaksOfModel(openai('The model `x` does not exist'))).toBe(true);
    expect(speaksOfModel(JSON.stringify({ error: { code: 'DeploymentNotFound', message: 'none' } }))).toBe(true);
    expect(speaksOfModel(JSON.stringify({ detail: 'Not Found' }))).toBe(false);
    expect(speaksOfModel('')).toBe(false);
  });
});

describe('prices', () => {
  it('the longest name wins, and cached tokens have their own price', () => {
    expect(priceOf('openai', 'gpt-4o-mini-2026')).toMatchObject({ input: 0.15 });
    expect(priceOf('openrouter', 'anthropic/claude-sonnet-4-5')).toMatchObject({ input: 3 });
    expect(priceOf('local', 'qwen3-7b')).toBeUndefined();
    expect(priceOf('local', 'qwen3-7b', [{ model: 'qwen3', input: 1, output: 1 }])).toMatchObject({ input: 1 });
    const usage = {
      prompt_tokens: 1000,
      completion_tokens: 100,
      total_tokens: 1100,
      cached_tokens: 600,
      cache_write_tokens: 200,
    };
    expect(costOf(usage, { input: 10, output: 20, cachedInput: 1, cacheWrite: 12 })).toBeCloseTo(
      (200 * 10 + 600 + 200 * 12 + 2000) / 1e6,
    );
  });
});
