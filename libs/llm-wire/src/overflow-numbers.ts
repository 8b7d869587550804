import type { ErrorFacts } from './error-facts.js';

/** The numbers of an overflow, as far as the provider named them; all in tokens. */
export interface OverflowNumbers {
  /** What fits: prompt and output together. */
  contextLimit?: number;
  promptTokens?: number;
  /** What was reserved for the answer. */
  outputTokens?: number;
}

/** Each pattern names its groups: limit, prompt, output, total. */
const SHAPES = [
  /`?inputs`? tokens.{0,60}must be <= ?(?<limit>\d+).{0,20}Given:? ?(?<prompt>\d+).{0,30}?(?<output>\d+) `?max_new_tokens/is,
  /context limit:? ?(?<prompt>\d+) ?\+ ?(?<output>\d+) ?> ?(?<limit>\d+)/i,
  /context (?:length|window|size)[^\d]{0,30}(?<limit>\d+).{0,120}?\((?<prompt>\d+)[^\d]{0,40}(?<output>\d+)/is,
  /(?<prompt>\d+) tokens > (?<limit>\d+)/i,
  /(?<prompt>\d+) tokens\) is too large to process.{0,80}batch size: (?<limit>\d+)/is,
  /token count \(?(?<prompt>\d+)\)?[^\d]{0,80}\(?(?<limit>\d+)/i,
  /contains (?<prompt>\d+) tokens.{0,80}?(?<limit>\d+) maximum/is,
  /maximum (?:context|prompt) length is (?<limit>\d+).{0,120}?(?:contains|resulted in|has|requested)(?: about)? (?<prompt>\d+)/is,
  /cannot exceed (?<limit>\d+)[^\d]{0,30}(?<total>\d+)/i,
  /should be \[\d+, ?(?<limit>\d+)\]/i,
  /first (?<prompt>\d+) tokens.{0,120}?only (?<limit>\d+)/is,
  /(?:context|prompt) (?:length|window|size|limit)[^\d(]{0,30}(?<limit>\d{3,})/i,
];

/** Reads the window and the sizes out of an overflow error. */
export function readOverflow(facts: ErrorFacts): OverflowNumbers {
  const numbers: OverflowNumbers = {};
  const text = facts.text.slice(0, 4096).replace(/(\d),(?=\d{3})/g, '$1');
  for (const shape of SHAPES) {
    const groups = shape.exec(text)?.groups;
    if (groups === undefined) continue;
    if (groups['limit'] !== undefined) numbers.contextLimit = Number(groups['limit']);
    if (groups['prompt'] !== undefined) numbers.promptTokens = Number(groups['prompt']);
    if (groups['output'] !== undefined) numbers.outputTokens = Number(groups['output']);
    if (groups['total'] !== undefined) numbers.promptTokens = Number(groups['total']);
    break;
  }
  if (facts.contextLimit !== undefined) numbers.contextLimit = facts.contextLimit;
  if (facts.promptTokens !== undefined) numbers.promptTokens = facts.promptTokens;
  return numbers;
}
