import { type JsonSchema } from '@yardmaster/tool-schema';

/** A tool as the rendering sees it: what a model may read of a definition, and where a call of it goes. */
export interface ToolView {
  /** The name a model calls, unique for a tenant; matches the limits of all providers. */
  name: string;
  description: string;
  /** As registered; absent or null for a tool without parameters. */
  parameters?: JsonSchema | null;
  /** The MCP server it belongs to; `local` for built-in tools. */
  server?: string;
  /** The name on that server, when it differs from `name`. */
  serverTool?: string;
  /** Key words in other languages, for the search only. */
  aliases?: readonly string[];
}

/** The tools a tenant may see at one revision; immutable. */
export interface ToolCatalogue {
  readonly revision: number;
  list(): readonly ToolView[];
  get(name: string): ToolView | undefined;
}

/** A catalogue of some tools; the order does not matter, of two tools with one name the later counts. */
export function catalogueOf(tools: Iterable<ToolView>, revision = 0): ToolCatalogue {
  const byName = new Map<string, ToolView>();
  for (const tool of tools) byName.set(tool.name, tool);
  const sorted = [...byName.values()].sort((a, b) => compareNames(a.name, b.name));
  return { revision, list: () => sorted, get: (name) => byName.get(name) };
}

/** By UTF-16 code units, the same on every machine: the order of tools is part of a cached prefix. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The server a tool belongs to. */
export function serverOf(tool: ToolView): string {
  return tool.server ?? 'local';
}
