import type { Usage } from './wire-types.js';

/** US dollars for a million tokens. */
export interface Price {
  input: number;
  output: number;
  /** Prompt tokens read from the provider's cache; as `input` when absent. */
  cachedInput?: number;
  /** Prompt tokens written to it; as `input` when absent. */
  cacheWrite?: number;
}

interface PriceRow extends Price {
  /** The beginning of the model's name, without a vendor prefix; the longest match wins. */
  model: string;
  /** Only at this kind of provider. */
  provider?: string;
}

/**
 * List prices as a starting point: providers change them, so an operator's own table comes first. A model that is in
 * neither costs nothing known, and its cost is reported as unknown rather than as zero.
 */
export const PRICES: readonly PriceRow[] = [
  { model: 'claude-opus-4-5', input: 5, output: 25, cachedInput: 0.5, cacheWrite: 6.25 },
  { model: 'claude-opus-4', input: 15, output: 75, cachedInput: 1.5, cacheWrite: 18.75 },
  { model: 'claude-sonnet-4', input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 },
  { model: 'claude-haiku-4', input: 1, output: 5, cachedInput: 0.1, cacheWrite: 1.25 },
  { model: 'claude-3-5-haiku', input: 0.8, output: 4, cachedInput: 0.08, cacheWrite: 1 },
  { model: 'gpt-5', input: 1.25, output: 10, cachedInput: 0.125 },
  { model: 'gpt-5-mini', input: 0.25, output: 2, cachedInput: 0.025 },
  { model: 'gpt-5-nano', input: 0.05, output: 0.4, cachedInput: 0.005 },
  { model: 'gpt-4.1', input: 2, output: 8, cachedInput: 0.5 },
  { model: 'gpt-4.1-mini', input: 0.4, output: 1.6, cachedInput: 0.1 },
  { model: 'gpt-4.1-nano', input: 0.1, output: 0.4, cachedInput: 0.025 },
  { model: 'gpt-4o', input: 2.5, output: 10, cachedInput: 1.25 },
  { model: 'gpt-4o-mini', input: 0.15, output: 0.6, cachedInput: 0.075 },
  { model: 'o3', input: 2, output: 8, cachedInput: 0.5 },
  { model: 'o4-mini', input: 1.1, output: 4.4, cachedInput: 0.275 },
  { model: 'text-embedding-3-small', input: 0.02, output: 0 },
  { model: 'text-embedding-3-large', input: 0.13, output: 0 },
  { model: 'gemini-2.5-pro', input: 1.25, output: 10, cachedInput: 0.31 },
  { model: 'gemini-2.5-flash', input: 0.3, output: 2.5, cachedInput: 0.075 },
  { model: 'gemini-2.5-flash-lite', input: 0.1, output: 0.4, cachedInput: 0.025 },
  { model: 'deepseek-chat', provider: 'deepseek', input: 0.28, output: 0.42, cachedInput: 0.028 },
  { model: 'deepseek-reasoner', provider: 'deepseek', input: 0.28, output: 0.42, cachedInput: 0.028 },
  { model: 'mistral-large', provider: 'mistral', input: 2, output: 6 },
  { model: 'mistral-medium', provider: 'mistral', input: 0.4, output: 2 },
  { model: 'mistral-small', provider: 'mistral', input: 0.1, output: 0.3 },
  { model: 'codestral', provider: 'mistral', input: 0.3, output: 0.9 },
  { model: 'grok-4', provider: 'xai', input: 3, output: 15, cachedInput: 0.75 },
  { model: 'grok-3-mini', provider: 'xai', input: 0.3, output: 0.5, cachedInput: 0.075 },
  { model: 'llama-3.3-70b', provider: 'groq', input: 0.59, output: 0.79 },
  { model: 'llama-3.1-8b', provider: 'groq', input: 0.05, output: 0.08 },
  { model: 'glm-4.6', provider: 'zai', input: 0.6, output: 2.2, cachedInput: 0.11 },
  { model: 'glm-4.5', provider: 'zai', input: 0.6, output: 2.2, cachedInput: 0.11 },
  { model: 'kimi-k2', provider: 'moonshot', input: 0.6, output: 2.5, cachedInput: 0.15 },
  { model: 'minimax-m2', provider: 'minimax', input: 0.3, output: 1.2 },
];

/** The price of a model at a kind of provider, or undefined when nobody wrote one down. `own` rows come first. */
export function priceOf(provider: string, model: string, own: readonly PriceRow[] = []): Price | undefined {
  const name = model.toLowerCase();
  const bare = name.slice(name.lastIndexOf('/') + 1);
  for (const table of [own, PRICES]) {
    let best: PriceRow | undefined;
    for (const row of table) {
      if (row.provider !== undefined && row.provider !== provider) continue;
      const prefix = row.model.toLowerCase();
      if (!bare.startsWith(prefix) && !name.startsWith(prefix)) continue;
      if (
        best === undefined ||
        row.model.length > best.model.length ||
        (row.provider !== undefined && row.model === best.model)
      )
        best = row;
    }
    if (best !== undefined) return best;
  }
  return undefined;
}

/** The cost of one answer in US dollars. */
export function costOf(usage: Usage, price: Price): number {
  const cached = Math.min(usage.cached_tokens ?? 0, usage.prompt_tokens);
  const written = Math.min(usage.cache_write_tokens ?? 0, usage.prompt_tokens - cached);
  const fresh = usage.prompt_tokens - cached - written;
  const dollars =
    fresh * price.input +
    cached * (price.cachedInput ?? price.input) +
    written * (price.cacheWrite ?? price.input) +
    usage.completion_tokens * price.output;
  return dollars / 1_000_000;
}

export type { PriceRow };
