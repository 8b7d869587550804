import { type Dialect, type ToolDefinition, ToolSet, parseToolCalls } from '@yardmaster/tool-calls';
import { META_TOOLS } from './meta-tools.js';
import { type ParsedAnswer } from './renderer.js';
import { type ToolCatalogue, type ToolView } from './tool-view.js';

const sets = new WeakMap<ToolCatalogue, ToolSet>();

/**
 * Reads the calls out of an answer. All tools of the catalogue may be called, whether their definitions were shown or
 * not, and so may the meta tools.
 */
export function parseAnswer(raw: string, catalogue: ToolCatalogue, dialects?: readonly Dialect[]): ParsedAnswer {
  let tools = sets.get(catalogue);
  if (!tools) {
    tools = new ToolSet([...META_TOOLS, ...catalogue.list()].map(definitionOf));
    sets.set(catalogue, tools);
  }
  const { calls, ...rest } = parseToolCalls(raw, { tools, ...(dialects ? { dialects } : {}) });
  return { ...rest, calls: calls.map((call) => ({ id: call.id, name: call.name, args: call.arguments })) };
}

/** A tool in the form that the parser of calls takes. */
export function definitionOf(tool: ToolView): ToolDefinition {
  const { name, description, parameters } = tool;
  return { name, description, ...(parameters === undefined || parameters === null ? {} : { parameters }) };
}
