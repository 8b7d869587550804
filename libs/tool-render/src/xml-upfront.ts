import { XmlToolDispatcher, promptInstructions } from '@yardmaster/tool-calls';
import { definitionOf, parseAnswer } from './parse-answer.js';
import { type ContextRenderer } from './renderer.js';
import { type ToolView } from './tool-view.js';

const writer = new XmlToolDispatcher();

/** The prompt text for models without native calls; empty without tools, or the model would invent some. */
export function xmlToolPrompt(tools: readonly ToolView[]): string {
  return promptInstructions(tools.map(definitionOf));
}

/** All tools in the system prompt, calls in `<tool_call>` tags, results in `<tool_result>` tags. */
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
    formatResult: (name, { text, ok }) => {
      const { content } = writer.formatResults([{ name, output: text, success: ok, tool_call_id: null }]);
      return typeof content === 'string' ? content : '';
    },
    parseCall: (raw, catalogue) => parseAnswer(raw, catalogue),
  };
}
