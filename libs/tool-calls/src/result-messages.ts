import { type AssistantToolCalls, type ConversationMessage, type ToolResults } from '@yardmaster/contracts';
import { attributeText, neutraliseProtocol } from './neutralise.js';
import { prepareOutput } from './result-text.js';
import { type OutputLimits, type ToolExecutionResult } from './tool-dispatcher.js';

const RESULTS_HEADER = '[Tool results]';
const NO_OUTPUT = '(no output)';

/**
 * The results of one round for the canonical history: decoded, well-formed and cut, in call order, in no dialect.
 * What a dialect adds (tags, a word about failure) is put on when the history is rendered.
 */
export function toToolResults(results: readonly ToolExecutionResult[], limits: OutputLimits = {}): ToolResults {
  return {
    type: 'tool_results',
    results: results.map(({ name, output, success, tool_call_id, cut_chars }) => ({
      tool_call_id: tool_call_id ?? 'unknown',
      content: prepareOutput(output, limits.maxOutputChars, cut_chars).text,
      name,
      ok: success,
    })),
  };
}

/** One result as the native API carries it: no tags, and a failure that can be read as one, since there is no status field. */
export function nativeContent(content: string, ok: boolean): string {
  if (ok) return content === '' ? NO_OUTPUT : content;
  if (content === '') return `Error: ${NO_OUTPUT}`;
  return /^error\b/i.test(content) ? content : `Error: ${content}`;
}

/** The message of the XML dialect: a header and one block for each result, contents neutralised. */
export function xmlResults(
  blocks: readonly { name: string; ok: boolean; id: string | undefined; content: string }[],
): string {
  const rendered = blocks.map(({ name, ok, id, content }) => {
    const idAttribute = id === undefined ? '' : ` id="${attributeText(id)}"`;
    const open = `<tool_result name="${attributeText(name)}" status="${ok ? 'ok' : 'error'}"${idAttribute}>`;
    return `${open}\n${neutraliseProtocol(content)}\n</tool_result>`;
  });
  return [RESULTS_HEADER, ...rendered].join('\n');
}

/** The names of the tools that the calls before a message were made to, by call id. */
export function calledNames(history: readonly ConversationMessage[]): Map<string, string> {
  const names = new Map<string, string>();
  for (const message of history) {
    if (message.type !== 'assistant_tool_calls') continue;
    for (const call of message.tool_calls) names.set(call.id, call.name);
  }
  return names;
}

/** Whether reasoning may go to the one who will read it: only its own author may see it again. */
export function keepsReasoning(
  message: Pick<AssistantToolCalls, 'served'>,
  target: { provider: string; model: string } | undefined,
): boolean {
  if (!target || !message.served) return true;
  return message.served.provider === target.provider && message.served.model === target.model;
}
