import type { ConversationMessage, StoredToolCall, StoredToolResult, ToolResults } from '@yardmaster/contracts';
import {
  CALL_MCP,
  type ContextRenderer,
  harmonyBody,
  META_TOOL_NAMES,
  readLoadRecord,
  serverOf,
  type ToolCatalogue,
} from '@yardmaster/tool-render';

/** An item of the history in the form of a strategy; results that load tools by reference name them by call id. */
export interface ShownItem {
  item: ConversationMessage;
  references: ReadonlyMap<string, readonly string[]>;
}

const NO_REFERENCES: ReadonlyMap<string, readonly string[]> = new Map();
const META_NAMES = new Set(Object.entries(META_TOOL_NAMES).flat());

/**
 * Draws an item as a strategy shows it: definitions that a search brought, and calls that went through `call_mcp`.
 * From what is stored alone, so every router draws the same bytes.
 */
export function shownItem(
  item: ConversationMessage,
  renderer: ContextRenderer | undefined,
  known: ToolCatalogue,
): ShownItem {
  if (renderer === undefined) return { item, references: NO_REFERENCES };
  if (item.type === 'assistant_tool_calls' && renderer.strategy === 'harmony_dispatcher')
    return {
      item: { ...item, tool_calls: item.tool_calls.map((call) => throughDispatcher(call, known)) },
      references: NO_REFERENCES,
    };
  if (item.type === 'tool_results') return shownResults(item, renderer, known);
  return { item, references: NO_REFERENCES };
}

/** The model called every tool through one function, and must see that it did. */
function throughDispatcher(call: StoredToolCall, known: ToolCatalogue): StoredToolCall {
  if (META_NAMES.has(call.name) || call.name === CALL_MCP.name) return call;
  const tool = known.get(call.name);
  const server = JSON.stringify(tool === undefined ? 'local' : serverOf(tool));
  const name = JSON.stringify(tool?.serverTool ?? call.name);
  return { ...call, name: CALL_MCP.name, arguments: `{"server":${server},"tool":${name},"args":${call.arguments}}` };
}

function shownResults(item: ToolResults, renderer: ContextRenderer, known: ToolCatalogue): ShownItem {
  const references = new Map<string, readonly string[]>();
  const results = item.results.map((result): StoredToolResult => {
    if (result.name === undefined) return result;
    if (!META_NAMES.has(result.name))
      return renderer.strategy === 'harmony_dispatcher' ? { ...result, name: CALL_MCP.name } : result;
    const tools = readLoadRecord(result.content);
    if (tools.length === 0) return result;
    const via = result.name.endsWith('describe') ? 'describe' : 'search';
    const delta = renderer.onToolLoad({ via, query: '', tools });
    if (delta === undefined) return result;
    if (delta.content !== undefined) {
      // A provider refuses a reference to what is not among its tools.
      const names = tools.map((tool) => tool.name).filter((name) => known.get(name) !== undefined);
      if (names.length === tools.length) references.set(result.tool_call_id, names);
      return result;
    }
    const text = delta.text ?? result.content;
    return { ...result, content: text.startsWith('<|start|>') ? harmonyBody(text) : text };
  });
  return { item: { ...item, results }, references };
}
