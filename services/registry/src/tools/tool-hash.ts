import type { Tool } from '@yardmaster/contracts';
import { definitionHash } from '@yardmaster/tool-schema';

/**
 * What a person agrees to who agrees to a tool: its definition as a model sees it, and what a call of it does. For a tool
 * of an MCP server `dispatch` says which server that is, so that another one has to be agreed to anew. The order of keys
 * does not count, nor does a time limit, aliases or search words: they change nothing that was agreed to.
 */
export function toolHash(tool: Tool): string {
  return definitionHash({
    name: tool.name,
    description: tool.description,
    inputSchema: JSON.parse(tool.parametersJson) as unknown,
    outputSchema: parsed(tool.outputSchemaJson),
    annotations: {
      declared: parsed(tool.annotationsJson),
      kind: tool.kind,
      effect: tool.effect,
      category: tool.category,
      dispatch: parsed(tool.dispatchJson),
    },
  });
}

const parsed = (json: string): unknown => (json === '' ? null : (JSON.parse(json) as unknown));
