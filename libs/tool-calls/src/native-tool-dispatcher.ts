import { type ConversationMessage, type ToolResults } from '@yardmaster/contracts';
import { readNativeCalls } from './native-calls.js';
import { neutraliseSpecialTokens, safeToolName } from './neutralise.js';
import { keepsReasoning, nativeContent, toToolResults } from './result-messages.js';
import { chatContent } from './chat-content.js';
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
import { type ParseResult } from './types.js';

/** For models whose API carries tool definitions, calls and results in fields of their own. */
export class NativeToolDispatcher implements ToolDispatcher {
  readonly kind = 'native';

  /**
   * With `textFallback`, an answer without native calls is searched for calls to registered tools: for servers that
   * sometimes leave a call in the text. Off by default, since a sample in prose would run.
   */
  constructor(private readonly textFallback?: Pick<ParseOptions, 'dialects' | 'thinkPrefilled'>) {}

  parseResponse(answer: ModelAnswer, options: ParseResponseOptions = {}): ParseResult {
    const native = readNativeCalls({ ...answer, tool_calls: answer.tool_calls ?? [] }, options);
    const hasCalls = (answer.tool_calls?.length ?? 0) > 0;
    if (!this.textFallback || hasCalls || answer.textFromReasoning || !options.tools) return native;
    const parsed = parseToolCalls(answer.text ?? '', { ...this.textFallback, ...options });
    return { ...parsed, reasoning: [native.reasoning, parsed.reasoning].filter((part) => part !== '').join('\n') };
  }

  formatResults(results: readonly ToolExecutionResult[], limits?: OutputLimits): ToolResults {
    const canonical = toToolResults(results, limits);
    for (const result of canonical.results) result.content = nativeContent(result.content, result.ok ?? true);
    return canonical;
  }

  toProviderMessages(history: readonly ConversationMessage[], options: HistoryOptions = {}): ProviderMessage[] {
    const safe = options.neutraliseEveryRole ? neutraliseSpecialTokens : (text: string) => text;
    return history.flatMap((message): ProviderMessage[] => {
      switch (message.type) {
        case 'chat': {
          const reasoning = keepsReasoning(message, options.target) ? message.reasoning_content : null;
          return [
            {
              role: message.role,
              content: chatContent(message.content, safe),
              ...(reasoning ? { reasoning_content: reasoning } : {}),
            },
          ];
        }
        case 'assistant_tool_calls': {
          const payload = {
            content: message.text === null ? null : safe(message.text),
            tool_calls: message.tool_calls.map((call) => ({ ...call, name: safeToolName(call.name) })),
            reasoning_content: keepsReasoning(message, options.target) ? message.reasoning_content : null,
          };
          return [{ role: 'assistant', content: JSON.stringify(payload) }];
        }
        case 'tool_results':
          return message.results.map(({ tool_call_id, content, ok }) => ({
            role: 'tool',
            content: JSON.stringify({ tool_call_id, content: safe(nativeContent(content, ok ?? true)) }),
          }));
      }
    });
  }

  shouldSendToolSpecs(): boolean {
    return true;
  }

  promptInstructions(): string {
    return '';
  }
}
