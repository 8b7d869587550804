import { downlevelSchema, neutralise } from '@yardmaster/tool-schema';
import { META_TOOLS } from './meta-tools.js';
import { parseAnswer } from './parse-answer.js';
import { type ContextRenderer, type ToolSetChange, noMatchText } from './renderer.js';
import { type ToolCatalogue, type ToolView } from './tool-view.js';
import { jsonLine, showTool } from './view-schema.js';

export interface ClaudeDeferredOptions {
  /** `text` for local models that follow the Anthropic form, `api` for the Messages API. */
  mode?: 'text' | 'api';
  /** Names of the tools that are shown in full from the start; `all` for small sets. */
  core?: readonly string[] | 'all';
  /** Text: list the names of the other tools. */
  listNames?: boolean;
  /** API: the provider's own search, or ours with references as its result. */
  search?: 'bm25' | 'regex' | 'client';
}

/** Core tools and a search in front, all other definitions where the conversation asks for them. */
export function claudeDeferred(options: ClaudeDeferredOptions = {}): ContextRenderer {
  return options.mode === 'api' ? claudeApi(options) : claudeText(options);
}

/** `<functions>` with one line a tool. */
export function functionsBlock(tools: readonly ToolView[]): string {
  const lines = tools.map((tool) => {
    const { name, description, parameters } = showTool(tool);
    return `<function>${jsonLine({ description, name, parameters })}</function>\n`;
  });
  return `<functions>\n${lines.join('')}</functions>`;
}

/** The notice of a change, at the tail: the list of names in front is not written anew. */
export function toolsChangedText({ added, removed }: ToolSetChange): string {
  const line = (word: string, names: readonly string[]) =>
    names.length > 0 ? `${word}: ${neutralise(names.join(', '))}\n` : '';
  return `<tools-changed>\n${line('added', added)}${line('removed', removed)}</tools-changed>`;
}

/** The tools shown from the start and the others, both sorted. */
export function splitCore(catalogue: ToolCatalogue, core: readonly string[] | 'all' = []): [ToolView[], ToolView[]] {
  const isCore = (tool: ToolView) => core === 'all' || core.includes(tool.name);
  return [catalogue.list().filter(isCore), catalogue.list().filter((tool) => !isCore(tool))];
}

function claudeText({ core, listNames = false }: ClaudeDeferredOptions): ContextRenderer {
  return {
    strategy: 'claude_deferred',
    placement: 'ToolResultStream',
    discovery: 'MetaTool',
    cacheImpact: 'PrefixStable',
    initialRender: (catalogue) => {
      const [first, others] = splitCore(catalogue, core);
      const names = others.map((tool) => `${showTool(tool).name}\n`).join('');
      const list = listNames && others.length > 0 ? `\n\n<deferred-tools>\n${names}</deferred-tools>` : '';
      return { segments: [functionsBlock([...first, ...META_TOOLS]) + list] };
    },
    onToolLoad: ({ query, tools }) => ({ text: tools.length > 0 ? functionsBlock(tools) : noMatchText(query) }),
    onToolsChanged: (change) => ({ text: toolsChangedText(change) }),
    formatMessage: (_role, text) => text,
    formatResult: (_name, result) => result.text,
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue, ['invoke', 'hermes', 'fenced']),
  };
}

function claudeApi({ core, search }: ClaudeDeferredOptions): ContextRenderer {
  return {
    strategy: 'claude_deferred',
    placement: 'ToolResultStream',
    discovery: search === 'client' ? 'MetaTool' : 'NativeSearch',
    cacheImpact: 'PrefixStable',
    initialRender: (catalogue) => {
      const [first, others] = splitCore(catalogue, core);
      const shown: Record<string, unknown>[] = [...first, ...(search === 'client' ? META_TOOLS : [])].map(apiTool);
      const last = shown.at(-1);
      // Never on a deferred tool: both marks on one are refused.
      if (last) last['cache_control'] = { type: 'ephemeral' };
      const deferred = others.map(deferredApiTool);
      return { segments: [], tools: [...serverSearch(search), ...shown, ...deferred] };
    },
    onToolLoad: ({ query, tools }) => {
      if (tools.length === 0) return { content: [{ type: 'text', text: noMatchText(query) }] };
      return { content: tools.map((tool) => ({ type: 'tool_reference', tool_name: showTool(tool).name })) };
    },
    onToolsChanged: (change) => ({ text: toolsChangedText(change) }),
    lateTool: deferredApiTool,
    formatMessage: (_role, text) => text,
    formatResult: (_name, result) => result.text,
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue, ['invoke', 'hermes', 'fenced']),
  };
}

function serverSearch(search: ClaudeDeferredOptions['search']): Record<string, unknown>[] {
  if (search !== 'bm25' && search !== 'regex') return [];
  return [{ type: `tool_search_tool_${search}_20251119`, name: `tool_search_tool_${search}` }];
}

function apiTool(tool: ToolView): Record<string, unknown> {
  const { name, description, parameters } = showTool(tool);
  return { name, description, input_schema: downlevelSchema(parameters, 'anthropic').schema };
}

function deferredApiTool(tool: ToolView): Record<string, unknown> {
  return { ...apiTool(tool), defer_loading: true };
}
