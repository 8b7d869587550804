import { RENDER_STRATEGIES } from '@yardmaster/contracts';
import { type ParseResult } from '@yardmaster/tool-calls';
import { type ToolCatalogue, type ToolView } from './tool-view.js';

export { RENDER_STRATEGIES as STRATEGIES } from '@yardmaster/contracts';
export type Strategy = (typeof RENDER_STRATEGIES)[number];

export const isStrategy = (name: string): name is Strategy => (RENDER_STRATEGIES as readonly string[]).includes(name);

/** Where definitions stand. */
export type Placement = 'SystemPrompt' | 'DeveloperMessage' | 'ToolResultStream' | 'EndOfContext' | 'ToolsField';
/** How a model comes to know of a tool that it was not shown. */
export type Discovery = 'AlwaysVisible' | 'MetaTool' | 'NativeSearch' | 'Static';
/** What a change of the tool set does to the bytes that are cached. */
export type CacheImpact = 'PrefixStable' | 'RewindToBoundary' | 'Rewind';

/** What stands before the conversation. */
export interface InitialContext {
  /** Blocks of text, in order; none for strategies that only fill the `tools` field. */
  segments: string[];
  /** The `tools` of the request, for providers that take one. */
  tools?: unknown[];
}

/** What is added at the end. */
export interface ContextDelta {
  /** A block of text. */
  text?: string;
  /** Content blocks of a tool result, for providers that take definitions by reference. */
  content?: unknown[];
}

/** A load of tools, by search or by name. */
export interface ToolLoad {
  via: 'search' | 'describe';
  /** What the model asked for, shown when nothing was found. */
  query: string;
  /** In the order in which they are shown. */
  tools: readonly ToolView[];
}

/** How the set of tools differs from the one the model was told of. */
export interface ToolSetChange {
  added: readonly string[];
  removed: readonly string[];
}

/** The outcome of a call, as the model is told. */
export interface CallResult {
  text: string;
  ok: boolean;
}

/** A call as the model made it, with the place it is for. */
export interface RoutedCall {
  /** Given by the dispatcher form only; elsewhere the catalogue knows. */
  server?: string;
  name: string;
  args: Record<string, unknown>;
  id: string;
}

/** The calls in an answer, and what could not be read. */
export type ParsedAnswer = Omit<ParseResult, 'calls'> & { calls: RoutedCall[] };

/** Shows a registry of tools to one kind of model. Pure: the same arguments give the same bytes. */
export interface ContextRenderer {
  readonly strategy: Strategy;
  readonly placement: Placement;
  readonly discovery: Discovery;
  readonly cacheImpact: CacheImpact;
  /** Draws the front anew at compaction although it is stable in between, since new tools cannot be reached otherwise. */
  readonly redrawsAtBoundary?: boolean;
  /** What stands before the conversation. */
  initialRender(catalogue: ToolCatalogue): InitialContext;
  /** What a load adds at the end; undefined where loading is not a thing. */
  onToolLoad(load: ToolLoad): ContextDelta | undefined;
  /** What a change of the tool set adds at the end; undefined where it is not told. */
  onToolsChanged(change: ToolSetChange): ContextDelta | undefined;
  /**
   * How a tool that came later is put behind the `tools` of the request, for providers that take references to tools
   * and keep deferred ones out of what they cache.
   */
  lateTool?(tool: ToolView): unknown;
  /** A message of the conversation as this form writes it. */
  formatMessage(role: string, text: string): string;
  /** The result of a call as this form writes it. */
  formatResult(name: string, result: CallResult): string;
  /** The calls in what the model wrote; arguments are coerced and checked by the catalogue, never by what was shown. */
  parseCall(raw: string, catalogue: ToolCatalogue): ParsedAnswer;
}

/** What a search says that found nothing. */
export function noMatchText(query: string): string {
  return `No tool matches "${query}". Try other key words.`;
}
