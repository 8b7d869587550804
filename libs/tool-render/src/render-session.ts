import { SEARCH_LIMIT } from './meta-tools.js';
import {
  type CallResult,
  type ContextDelta,
  type ContextRenderer,
  type InitialContext,
  type ToolSetChange,
} from './renderer.js';
import { type ToolCatalogue, type ToolView, compareNames } from './tool-view.js';

/** What has to be kept of a session between two requests: with it and the catalogue the same bytes come out again. */
export interface RenderSessionState {
  initial: InitialContext;
  /** Definitions by name as they were when `initial` was drawn. */
  drawn: Record<string, string>;
  /** Tools that came later and were put behind `initial.tools`, by name. */
  late: Record<string, unknown>;
  /** Names of loaded tools, in the order of the first load. */
  loaded: string[];
}

/**
 * The tool text of one conversation with one provider. The set in front is frozen at a revision; what changes is told
 * at the tail, and the front is drawn anew only where the strategy allows it. It decides what a model sees, never what
 * it may call.
 */
export class RenderSession {
  /** Everything so far, in order: what stands in front, then what was added. */
  readonly segments: string[];
  private initial: InitialContext;
  private drawn: ReadonlyMap<string, string>;
  private readonly late: Map<string, unknown>;
  private readonly loaded = new Set<string>();

  /** With `loaded` (a failover from another strategy, say) these tools are shown again in this form. */
  constructor(
    private readonly renderer: ContextRenderer,
    private catalogue: ToolCatalogue,
    resumed: { state?: RenderSessionState; loaded?: readonly string[] } = {},
  ) {
    this.initial = resumed.state?.initial ?? renderer.initialRender(catalogue);
    this.drawn = resumed.state ? new Map(Object.entries(resumed.state.drawn)) : definitions(catalogue);
    this.late = new Map(Object.entries(resumed.state?.late ?? {}));
    this.segments = [...this.initial.segments];
    for (const name of resumed.state?.loaded ?? resumed.loaded ?? []) this.loaded.add(name);
    if (resumed.loaded) this.showLoaded();
  }

  /** The `tools` of the request, for providers that take one; until the front is drawn anew it only grows at the end. */
  get tools(): unknown[] | undefined {
    return this.initial.tools && [...this.initial.tools, ...this.late.values()];
  }

  /** Names of the tools loaded so far that still exist, in load order. */
  get loadedTools(): string[] {
    return [...this.loaded].filter((name) => this.catalogue.get(name) !== undefined);
  }

  get state(): RenderSessionState {
    return {
      initial: this.initial,
      drawn: Object.fromEntries(this.drawn),
      late: Object.fromEntries(this.late),
      loaded: [...this.loaded],
    };
  }

  /** A message of the conversation. */
  message(role: string, text: string): void {
    this.segments.push(this.renderer.formatMessage(role, text));
  }

  /** The result of a call. */
  result(name: string, result: CallResult): void {
    this.segments.push(this.renderer.formatResult(name, result));
  }

  /**
   * The answer to `tool_search`: the best of the ranking, or after `select:` the tools of these names in the order
   * asked. All of them are loaded from here on.
   */
  search(query: string, ranked: readonly string[], limit: number = SEARCH_LIMIT.default): ContextDelta | undefined {
    const names = selectedNames(query) ?? ranked.slice(0, Math.min(Math.max(1, limit), SEARCH_LIMIT.max));
    return this.load('search', query, names);
  }

  /** The answer to `tool_describe`. */
  describe(name: string): ContextDelta | undefined {
    return this.load('describe', name, [name]);
  }

  /** The tenant's tools have changed: told at the tail, or drawn anew where that is the only way. */
  changeTools(catalogue: ToolCatalogue): ContextDelta | undefined {
    const change = changeBetween(definitions(this.catalogue), definitions(catalogue));
    this.catalogue = catalogue;
    if (isEmpty(change)) return undefined;
    if (this.renderer.cacheImpact === 'Rewind') {
      this.redraw(this.segments.slice(this.initial.segments.length));
      return undefined;
    }
    for (const name of change.added) {
      const tool = catalogue.get(name);
      if (!tool || !this.renderer.lateTool || this.drawn.has(name) || this.late.has(name)) continue;
      this.late.set(name, this.renderer.lateTool(tool));
    }
    return this.append(this.renderer.onToolsChanged(change));
  }

  /** The history has been summed up: everything behind the front is dropped, what the model still needs is repeated. */
  compact(summary: string): void {
    const { cacheImpact, redrawsAtBoundary = false } = this.renderer;
    if (cacheImpact === 'PrefixStable' && !redrawsAtBoundary)
      this.segments.splice(0, Infinity, ...this.initial.segments);
    else this.redraw([]);
    this.segments.push(this.renderer.formatMessage('user', summary));
    const change = changeBetween(this.drawn, definitions(this.catalogue));
    if (!isEmpty(change)) this.append(this.renderer.onToolsChanged(change));
    this.showLoaded();
  }

  private load(via: 'search' | 'describe', query: string, names: readonly string[]): ContextDelta | undefined {
    const tools = [...new Set(names)].map((name) => this.catalogue.get(name)).filter((tool) => tool !== undefined);
    for (const tool of tools) this.loaded.add(tool.name);
    return this.append(this.renderer.onToolLoad({ via, query, tools }));
  }

  private showLoaded(): void {
    const tools = this.loadedTools.map((name) => this.catalogue.get(name)).filter((tool) => tool !== undefined);
    if (tools.length === 0) return;
    const query = `select:${tools.map((tool) => tool.name).join(',')}`;
    this.append(this.renderer.onToolLoad({ via: 'search', query, tools }));
  }

  private redraw(behind: readonly string[]): void {
    this.initial = this.renderer.initialRender(this.catalogue);
    this.drawn = definitions(this.catalogue);
    this.late.clear();
    this.segments.splice(0, Infinity, ...this.initial.segments, ...behind);
  }

  private append(delta: ContextDelta | undefined): ContextDelta | undefined {
    if (delta?.text !== undefined) this.segments.push(delta.text);
    return delta;
  }
}

/** The names of a `select:` query, or undefined for key words. */
export function selectedNames(query: string): string[] | undefined {
  const list = /^\s*select:(.*)$/s.exec(query)?.[1];
  if (list === undefined) return undefined;
  return list
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

function definitions(catalogue: ToolCatalogue): Map<string, string> {
  return new Map(catalogue.list().map((tool) => [tool.name, definitionText(tool)]));
}

const texts = new WeakMap<ToolView, string>();

/** What counts as a change: all that a model is shown. */
function definitionText(tool: ToolView): string {
  let text = texts.get(tool);
  if (text === undefined) {
    text = JSON.stringify([tool.description, tool.parameters ?? null, tool.server ?? null, tool.serverTool ?? null]);
    texts.set(tool, text);
  }
  return text;
}

/** A changed definition counts as removed and added. */
function changeBetween(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): ToolSetChange {
  const differs = (one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>) =>
    [...one].filter(([name, text]) => other.get(name) !== text).map(([name]) => name);
  return { added: differs(after, before).sort(compareNames), removed: differs(before, after).sort(compareNames) };
}

function isEmpty({ added, removed }: ToolSetChange): boolean {
  return added.length === 0 && removed.length === 0;
}
