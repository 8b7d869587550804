import { type ChatTurn, type ConversationMessage, type StoredToolCall } from '@yardmaster/contracts';
import { chatContent } from './chat-content.js';
import { readNativeCalls } from './native-calls.js';
import { neutraliseSpecialTokens, safeToolName } from './neutralise.js';
import { promptInstructions } from './prompt-instructions.js';
import { prepareOutput } from './result-text.js';
import { calledNames, xmlResults } from './result-messages.js';
import { type ParseOptions, parseToolCalls } from './stream.js';
import {
  type HistoryOptions,
  type ModelAnswer,
  type OutputLimits,
  type ParseResponseOptions,
  type ProviderMessage,
  type ToolDispatcher,
  type ToolExecutionResult,
} from './tool-dispatcher.js';
import { type ParseResult, type ToolDefinition } from './types.js';

/** How one deployment of a text model writes and wants to see its calls. */
export interface XmlDispatcherOptions extends Pick<ParseOptions, 'dialects' | 'thinkPrefilled'> {
  /** Show the model its own calls in the history; without them results appear from nowhere. On by default. */
  showCalls?: boolean;
}

/** For models that call tools in their text: definitions in the prompt, calls in tags, results in a user message. */
export class XmlToolDispatcher implements ToolDispatcher {
  readonly kind = 'xml';

  constructor(private readonly settings: XmlDispatcherOptions = {}) {}

  parseResponse(answer: ModelAnswer, options: ParseResponseOptions = {}): ParseResult {
    const outer = readNativeCalls({ ...answer, tool_calls: answer.tool_calls ?? [] }, options);
    // A server that found calls by itself has taken them out of the text, which is then never searched.
    if (answer.textFromReasoning || (answer.tool_calls?.length ?? 0) > 0) return outer;
    const { dialects, thinkPrefilled } = this.settings;
    const parsed = parseToolCalls(answer.text ?? '', {
      ...(dialects ? { dialects } : {}),
      ...(thinkPrefilled === undefined ? {} : { thinkPrefilled }),
      ...options,
    });
    return { ...parsed, reasoning: [outer.reasoning, parsed.reasoning].filter((part) => part !== '').join('\n') };
  }

  formatResults(results: readonly ToolExecutionResult[], limits: OutputLimits = {}): ChatTurn {
    const blocks = results.map(({ name, output, success, tool_call_id, cut_chars }) => ({
      name,
      ok: success,
      id: tool_call_id ?? undefined,
      content: prepareOutput(output, limits.maxOutputChars, cut_chars).text,
    }));
    return { type: 'chat', role: 'user', content: xmlResults(blocks) };
  }

  toProviderMessages(history: readonly ConversationMessage[], options: HistoryOptions = {}): ProviderMessage[] {
    const safe = options.neutraliseEveryRole ? neutraliseSpecialTokens : (text: string) => text;
    const names = calledNames(history);
    return history.map((message): ProviderMessage => {
      switch (message.type) {
        case 'chat':
          return { role: message.role, content: chatContent(message.content, safe) };
        case 'assistant_tool_calls': {
          const calls = this.settings.showCalls === false ? [] : message.tool_calls.map(renderCall);
          const text = safe(message.text ?? '');
          return { role: 'assistant', content: [...(text === '' ? [] : [text]), ...calls].join('\n') };
        }
        case 'tool_results': {
          const blocks = message.results.map((result) => ({
            name: safeToolName(result.name ?? names.get(result.tool_call_id) ?? 'unknown'),
            ok: result.ok ?? true,
            id: result.tool_call_id === 'unknown' ? undefined : result.tool_call_id,
            // Stored results came through `prepareOutput`; this repeats what a history from elsewhere may lack.
            content: prepareOutput(result.content, Number.POSITIVE_INFINITY).text,
          }));
          return { role: 'user', content: xmlResults(blocks) };
        }
      }
    });
  }

  shouldSendToolSpecs(): boolean {
    return false;
  }

  promptInstructions(tools: readonly ToolDefinition[]): string {
    return promptInstructions(tools);
  }
}

/** A call as the prompt teaches it. `<` is escaped, so that no string in the arguments can look like a mark. */
export function renderCall(call: Pick<StoredToolCall, 'name' | 'arguments'>): string {
  const body = `{"name":${JSON.stringify(safeToolName(call.name))},"arguments":${compact(call.arguments)}}`;
  return `<tool_call>\n${body.replaceAll('<', '\\u003c')}\n</tool_call>`;
}

/** The argument text itself where it is JSON, on one line; text that is no JSON becomes a JSON string. */
function compact(text: string): string {
  if (text.trim() === '') return '{}';
  try {
    JSON.parse(text);
  } catch {
    return JSON.stringify(text);
  }
  // Raw line breaks can only stand between tokens here; the numbers keep their digits.
  return text.trim();
}
