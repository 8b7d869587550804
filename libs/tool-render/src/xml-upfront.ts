import { parseAnswer } from './parse-answer.js';
import { type ContextRenderer } from './renderer.js';
import { type ToolView } from './tool-view.js';
import { jsonLine, showTool } from './view-schema.js';

const PROTOCOL = `## Tool Use Protocol

To use a tool, reply with a JSON object inside <tool_call> tags, one block per call:

<tool_call>
{"name": "tool_name", "arguments": {"param": "value"}}
</tool_call>

Use only the tools listed here. Results arrive in the next user message inside <tool_result> tags.

<tools>
`;

/** The prompt text for models without native calls; empty without tools, or the model would invent some. */
export function xmlToolPrompt(tools: readonly ToolView[]): string {
  if (tools.length === 0) return '';
  const lines = tools.map((tool) => {
    const { name, description, parameters } = showTool(tool);
    return `${jsonLine({ name, description, parameters })}\n`;
  });
  return `${PROTOCOL}${lines.join('')}</tools>`;
}

/** All tools in the system prompt, calls in `<tool_call>` tags. */
export function xmlUpfront(): ContextRenderer {
  return {
    strategy: 'xml_upfront',
    placement: 'SystemPrompt',
    discovery: 'Static',
    cacheImpact: 'Rewind',
    initialRender: (catalogue) => ({ segments: [xmlToolPrompt(catalogue.list())] }),
    onToolLoad: () => undefined,
    onToolsChanged: () => undefined,
    formatMessage: (_role, text) => text,
    formatResult: (name, { text, ok }) =>
      `[Tool results]\n<tool_result name="${name}" status="${ok ? 'ok' : 'error'}">\n${text}\n</tool_result>`,
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue),
  };
}
