import { downlevelSchema } from '@yardmaster/tool-schema';
import { splitCore, toolsChangedText } from './claude-deferred.js';
import { parseAnswer } from './parse-answer.js';
import { type ContextRenderer } from './renderer.js';
import { type ToolCatalogue, type ToolView, compareNames, serverOf } from './tool-view.js';
import { showTool } from './view-schema.js';

export interface NativeUpfrontOptions {
  /** Ask for strict mode wherever a schema can be expressed in it. */
  strict?: boolean;
}

/** All tools in the `tools` of a chat completion. */
export function nativeUpfront({ strict = false }: NativeUpfrontOptions = {}): ContextRenderer {
  return {
    strategy: 'native_upfront',
    placement: 'ToolsField',
    discovery: 'Static',
    cacheImpact: 'Rewind',
    initialRender: (catalogue) => ({
      segments: [],
      tools: catalogue.list().map((tool) => ({ type: 'function', function: functionOf(tool, strict) })),
    }),
    onToolLoad: () => undefined,
    onToolsChanged: () => undefined,
    formatMessage: (_role, text) => text,
    formatResult: (_name, result) => result.text,
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue),
  };
}

export interface OpenaiDeferredOptions extends NativeUpfrontOptions {
  core?: readonly string[] | 'all';
  /** What each server is for; shown to the model instead of the schemas of its functions. */
  serverDescriptions?: Readonly<Record<string, string>>;
}

/** The provider's own search: functions in a namespace per server, loaded at the end of the context when asked for. */
export function openaiNativeDeferred(options: OpenaiDeferredOptions = {}): ContextRenderer {
  return {
    strategy: 'openai_native_deferred',
    placement: 'EndOfContext',
    discovery: 'NativeSearch',
    cacheImpact: 'PrefixStable',
    redrawsAtBoundary: true,
    initialRender: (catalogue) => ({ segments: [], tools: deferredTools(catalogue, options) }),
    onToolLoad: () => undefined,
    onToolsChanged: (change) => ({ text: toolsChangedText(change) }),
    formatMessage: (_role, text) => text,
    formatResult: (_name, result) => result.text,
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue),
  };
}

function deferredTools(catalogue: ToolCatalogue, options: OpenaiDeferredOptions): unknown[] {
  const { core, strict = false, serverDescriptions = {} } = options;
  const [first, others] = splitCore(catalogue, core);
  const servers = new Map<string, ToolView[]>();
  for (const tool of others) servers.set(serverOf(tool), [...(servers.get(serverOf(tool)) ?? []), tool]);
  const namespaces = [...servers]
    .sort(([a], [b]) => compareNames(a, b))
    .map(([name, tools]) => ({
      type: 'namespace',
      name,
      description: serverDescriptions[name] ?? (name === 'local' ? 'Built-in tools.' : `Tools of the server ${name}.`),
      tools: tools.map((tool) => ({ type: 'function', ...functionOf(tool, strict), defer_loading: true })),
    }));
  const shown = first.map((tool) => ({ type: 'function', ...functionOf(tool, strict) }));
  // With everything in front there is nothing to search.
  return core === 'all' ? shown : [...shown, ...namespaces, { type: 'tool_search' }];
}

function functionOf(tool: ToolView, strict: boolean): Record<string, unknown> {
  const { name, description, parameters } = showTool(tool);
  if (!strict) return { name, description, parameters };
  const view = downlevelSchema(parameters, 'openai_strict');
  return { name, description, parameters: view.schema, strict: view.strict ?? false };
}
