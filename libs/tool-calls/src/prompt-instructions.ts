import { neutraliseDeep } from '@yardmaster/tool-schema';
import { type ToolDefinition } from './types.js';

const PROTOCOL = `## Tool Use Protocol

To use a tool, reply with a JSON object inside <tool_call> tags, one block per call:

<tool_call>
{"name": "tool_name", "arguments": {"param": "value"}}
</tool_call>

Use only the tools listed here. Results arrive in the next user message inside <tool_result> tags.
`;

/** Stops a model that goes on to invent the result of its own call. */
export const XML_STOP_SEQUENCE = '</tool_call>\n<tool_result';

/**
 * What a text model is told about its tools, one JSON line per tool, sorted by name so that equal sets give equal bytes.
 * Empty without tools: a model that is told of a protocol without tools invents tools.
 */
export function promptInstructions(tools: readonly ToolDefinition[]): string {
  if (tools.length === 0) return '';
  const sorted = [...tools].sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const lines = sorted.map(({ name, description, parameters }) => {
    const shown = {
      name,
      description: description ?? '',
      parameters: parameters ?? { type: 'object', properties: {} },
    };
    return JSON.stringify(neutraliseDeep(shown)).replaceAll('</', '<\\/');
  });
  return `${PROTOCOL}\n<tools>\n${lines.join('\n')}\n</tools>`;
}
