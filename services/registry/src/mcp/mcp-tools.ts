import { create } from '@bufbuild/protobuf';
import { type Effect, MCP_KIND, type Tool, ToolSchema } from '@yardmaster/contracts';
import { exposedName } from '@yardmaster/tool-render';
import type { McpDefinition } from './mcp-definition.js';
import type { ListedTool } from './mcp-listing.js';

const MOST_DESCRIPTION = 10_000;

/** What a server says of a tool counts only where the operator trusts it: then it may run again, or be called harmless. */
export function toolOf(server: McpDefinition, tool: ListedTool): Tool {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = tool.annotations;
  const { id, trusted } = server;
  const annotations = Object.fromEntries(
    Object.entries({
      readOnly: readOnlyHint,
      // What only reads destroys nothing, whatever the default of the hint.
      destructive: readOnlyHint === true ? undefined : destructiveHint,
      idempotent: idempotentHint,
      openWorld: openWorldHint,
    }).filter(([, flag]) => typeof flag === 'boolean'),
  );
  const effect: Effect = !trusted
    ? 'unsafe'
    : readOnlyHint === true
      ? 'read'
      : idempotentHint === true
        ? 'idempotent'
        : 'unsafe';
  const description = tool.description.trim();
  return create(ToolSchema, {
    name: exposedName(id, tool.name),
    description: (description === '' ? `The tool ${tool.name} of ${id}.` : description).slice(0, MOST_DESCRIPTION),
    parametersJson: JSON.stringify(tool.inputSchema),
    kind: MCP_KIND,
    effect,
    category: server.category,
    timeoutMs: server.timeoutMs,
    state: 'active',
    server: id,
    serverTool: tool.name,
    annotationsJson: Object.keys(annotations).length === 0 ? '' : JSON.stringify(annotations),
    annotationsTrusted: trusted,
    // Part of the hash: whoever agrees to a tool agrees to it on this server.
    dispatchJson: dispatchOf(server),
    outputSchemaJson: tool.outputSchema === undefined ? '' : JSON.stringify(tool.outputSchema),
  });
}

const dispatchOf = ({ address }: McpDefinition) => JSON.stringify({ address });

/** Was the tool listed by the server that this definition leads to, and not by one that was there before? */
export const isListedBy = (tool: Tool, server: McpDefinition): boolean => tool.dispatchJson === dispatchOf(server);
