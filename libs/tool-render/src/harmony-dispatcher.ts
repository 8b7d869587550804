import { checkArguments, unknownToolText } from '@yardmaster/tool-schema';
import { type ToolCallError, parseToolCalls } from '@yardmaster/tool-calls';
import { harmonyDeveloperMessage, harmonyMessage, harmonyToolLines, harmonyToolMessage } from './harmony-text.js';
import { CALL_MCP, META_TOOLS, TOOL_DESCRIBE, TOOL_SEARCH } from './meta-tools.js';
import { definitionOf } from './parse-answer.js';
import { type ContextRenderer, type ParsedAnswer, type RoutedCall, noMatchText } from './renderer.js';
import { type ToolCatalogue, type ToolView, serverOf } from './tool-view.js';

export interface HarmonyDispatcherOptions {
  instructions?: string | null;
  /** Show tool_search and tool_describe beside call_mcp. */
  metaTools?: boolean;
}

/** One function that calls all tools by server and name: the prefix never changes, whatever the registry holds. */
export function harmonyDispatcher({ instructions, metaTools = false }: HarmonyDispatcherOptions = {}): ContextRenderer {
  const shown = [CALL_MCP, ...(metaTools ? META_TOOLS : [])];
  return {
    strategy: 'harmony_dispatcher',
    placement: 'DeveloperMessage',
    discovery: metaTools ? 'MetaTool' : 'AlwaysVisible',
    cacheImpact: 'PrefixStable',
    initialRender: () => ({ segments: [harmonyDeveloperMessage(instructions, shown)] }),
    onToolLoad: ({ via, query, tools }) => {
      const lines = tools.map((tool) => `// server: ${serverOf(tool)}\n${harmonyToolLines(tool, nameOnServer(tool))}`);
      const text = lines.length > 0 ? lines.join('\n\n') : noMatchText(query);
      return { text: harmonyToolMessage((via === 'search' ? TOOL_SEARCH : TOOL_DESCRIBE).name, text) };
    },
    onToolsChanged: () => undefined,
    formatMessage: harmonyMessage,
    formatResult: (name, result) => harmonyToolMessage(name, result.text),
    parseCall: (raw, catalogue) => unpack(raw, catalogue),
  };
}

/** The name by which `call_mcp` asks for a tool. */
function nameOnServer(tool: ToolView): string {
  return tool.serverTool ?? tool.name;
}

function unpack(raw: string, catalogue: ToolCatalogue): ParsedAnswer {
  const tools = [CALL_MCP, ...META_TOOLS].map(definitionOf);
  const { calls, ...answer } = parseToolCalls(raw, { dialects: ['harmony'], tools });
  const routed: RoutedCall[] = [];
  const errors: ToolCallError[] = [...answer.errors];
  for (const call of calls) {
    if (call.name !== CALL_MCP.name) {
      routed.push({ id: call.id, name: call.name, args: call.arguments });
      continue;
    }
    const { server, tool: name, args } = call.arguments as { server: string; tool: string; args: unknown };
    const tool = toolOnServer(catalogue, server, name);
    if (!tool) {
      const elsewhere = catalogue.list().find((other) => nameOnServer(other) === name);
      const suggest = elsewhere && `${name} on server ${serverOf(elsewhere)}`;
      errors.push({ kind: 'unknown_tool', name, message: unknownToolText(`${name} on server ${server}`, suggest) });
      continue;
    }
    const verdict = checkArguments(
      { name, ...(tool.parameters ? { inputSchema: tool.parameters } : {}) },
      JSON.stringify(args),
    );
    if (verdict.ok) routed.push({ id: call.id, server, name, args: verdict.args });
    else errors.push({ kind: 'schema', name, message: verdict.text });
  }
  return { ...answer, errors, calls: routed };
}

function toolOnServer(catalogue: ToolCatalogue, server: string, name: string): ToolView | undefined {
  return catalogue.list().find((tool) => serverOf(tool) === server && [nameOnServer(tool), tool.name].includes(name));
}
