import { META_TOOL_NAMES, SEARCH_LIMIT } from './meta-tools.js';
import { selectedNames } from './render-session.js';
import { synonymsOf } from './search-synonyms.js';
import { searchTerms } from './search-tokens.js';
import { type ToolCatalogue, type ToolView, compareNames } from './tool-view.js';

/** A tool that a query found. */
export interface SearchHit {
  name: string;
  score: number;
}

const WEIGHT = { name: 3, aliases: 2, description: 1, parameters: 0.5 } as const;
/** The usual constants of BM25: how soon repeats stop counting, and how much long texts are held back. */
const K1 = 1.2;
const B = 0.75;
/**
 * The part of a query, by weight of its words, that a tool must contain. Five tools that share one common word with
 * the query are worse than none: the model would load and try them.
 */
const MIN_COVERAGE = 0.18;
/** What another word for the same thing counts, compared with the word itself. */
const SYNONYM = 0.4;

interface Posting {
  tool: number;
  weight: number;
}

/** A lexical index over the tools of one catalogue revision; built in milliseconds, so it is rebuilt on every change. */
export class ToolSearch {
  private readonly names: string[] = [];
  private readonly lengths: number[] = [];
  private readonly postings = new Map<string, Posting[]>();
  private readonly exact = new Map<string, string>();
  private readonly averageLength: number;

  constructor(catalogue: ToolCatalogue) {
    for (const tool of catalogue.list()) this.add(tool);
    const total = this.lengths.reduce((sum, length) => sum + length, 0);
    this.averageLength = total / Math.max(1, this.lengths.length);
  }

  /**
   * The best tools for a query, best first; of two equal ones the one whose name sorts first. `select:a,b` gives these
   * in the order asked. Empty when nothing fits.
   */
  search(query: string, limit: number = SEARCH_LIMIT.default): SearchHit[] {
    const selected = selectedNames(query);
    if (selected) {
      const known = [...new Set(selected)].filter((name) => this.exact.get(name) === name);
      return known.map((name) => ({ name, score: Infinity }));
    }
    const exact = this.exact.get(query.trim());
    const hits = this.ranking(query).filter((hit) => hit.name !== exact);
    if (exact !== undefined) hits.unshift({ name: exact, score: Infinity });
    return hits.slice(0, Math.max(0, limit));
  }

  private add(tool: ToolView): void {
    if (tool.name in META_TOOL_NAMES) return;
    const index = this.names.push(tool.name) - 1;
    this.exact.set(tool.name, tool.name);
    if (tool.serverTool !== undefined && !this.exact.has(tool.serverTool)) this.exact.set(tool.serverTool, tool.name);
    const weights = new Map<string, number>();
    const count = (text: string, weight: number) => {
      for (const term of searchTerms(text)) weights.set(term, (weights.get(term) ?? 0) + weight);
    };
    count(tool.serverTool === undefined ? tool.name : `${tool.server ?? ''} ${tool.serverTool}`, WEIGHT.name);
    count(tool.description, WEIGHT.description);
    for (const alias of tool.aliases ?? []) count(alias, WEIGHT.aliases);
    for (const text of parameterTexts(tool)) count(text, WEIGHT.parameters);
    let length = 0;
    for (const [term, weight] of weights) {
      length += weight;
      const postings = this.postings.get(term);
      if (postings) postings.push({ tool: index, weight });
      else this.postings.set(term, [{ tool: index, weight }]);
    }
    this.lengths.push(length);
  }

  /** The weight of a term: the fewer tools have it, the more it says. */
  private rarity(term: string): number {
    const having = this.postings.get(term)?.length ?? 0;
    return Math.log(1 + (this.names.length - having + 0.5) / (having + 0.5));
  }

  private ranking(query: string): SearchHit[] {
    const scores = new Map<number, { score: number; covered: number }>();
    let wanted = 0;
    for (const term of new Set(searchTerms(query))) {
      const rarity = this.rarity(term);
      wanted += rarity;
      // A tool gets a word of the query once, by its best form.
      const best = new Map<number, { score: number; covered: number }>();
      for (const form of [term, ...synonymsOf(term)]) {
        const factor = form === term ? 1 : SYNONYM;
        for (const { tool, weight } of this.postings.get(form) ?? []) {
          const long = 1 - B + (B * (this.lengths[tool] ?? 0)) / this.averageLength;
          const score = (factor * this.rarity(form) * weight * (K1 + 1)) / (weight + K1 * long);
          const covered = factor * rarity * Math.min(1, weight);
          const known = best.get(tool);
          if (!known || known.score < score) best.set(tool, { score, covered });
        }
      }
      for (const [tool, { score, covered }] of best) {
        const sum = scores.get(tool) ?? { score: 0, covered: 0 };
        scores.set(tool, { score: sum.score + score, covered: sum.covered + covered });
      }
    }
    return [...scores]
      .filter(([, { covered }]) => covered >= MIN_COVERAGE * wanted)
      .map(([tool, { score }]) => ({ name: this.names[tool] ?? '', score }))
      .sort((a, b) => b.score - a.score || compareNames(a.name, b.name));
  }
}

/** Names and descriptions of the parameters at the top of the schema. */
function parameterTexts(tool: ToolView): string[] {
  const schema = tool.parameters;
  const properties = typeof schema === 'object' && schema !== null ? schema['properties'] : undefined;
  if (typeof properties !== 'object' || properties === null) return [];
  return Object.entries(properties as Record<string, unknown>).flatMap(([name, property]) => {
    const description =
      typeof property === 'object' && property !== null
        ? (property as Record<string, unknown>)['description']
        : undefined;
    return typeof description === 'string' ? [name, description] : [name];
  });
}
