import type { Tool } from '@yardmaster/contracts';
import { type JsonSchema } from '@yardmaster/tool-schema';
import { type ToolCatalogue, type ToolView, catalogueOf } from './tool-view.js';

/** A registered tool as the rendering and the search see it; meta tools lose their underscores. */
export function viewOf(tool: Tool): ToolView {
  return {
    name: tool.name.replace(/^__/, ''),
    description: tool.description,
    parameters: JSON.parse(tool.parametersJson) as JsonSchema,
    ...(tool.server === '' ? {} : { server: tool.server, serverTool: tool.serverTool || tool.name }),
    aliases: [...tool.aliases, ...tool.searchHints],
  };
}

/** The tools of a conversation as they were when it began. */
export interface PinnedTools {
  catalogue: ToolCatalogue;
  /** Names of those that are shown in full from the start. */
  core: readonly string[];
}

/** The text under which a set of tools is kept; the same set gives the same text. */
export function pinnedText(tools: Iterable<ToolView>, core: readonly string[]): string {
  const list = catalogueOf(tools).list();
  return JSON.stringify({
    core: core.filter((name) => list.some((tool) => tool.name === name)).sort(),
    // Aliases are for the search only, which knows the tools of today.
    tools: list.map(({ name, description, parameters, server, serverTool }) => ({
      name,
      description,
      parameters: parameters ?? null,
      ...(server === undefined ? {} : { server }),
      ...(serverTool === undefined ? {} : { serverTool }),
    })),
  });
}

/** The set that `pinnedText` wrote. Throws when the text is none. */
export function readPinned(text: string): PinnedTools {
  const { core, tools } = JSON.parse(text) as { core: string[]; tools: ToolView[] };
  return { catalogue: catalogueOf(tools), core };
}
