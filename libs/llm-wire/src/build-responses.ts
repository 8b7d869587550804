import type { ContentPart } from '@yardmaster/contracts';
import { sampling } from './build-chat.js';
import { argumentsText } from './call-arguments.js';
import { grammarSchema } from './grammar-schema.js';
import { mergeSystemIntoUser, parseMessages, textOf } from './wire-messages.js';
import type { ChatMessage, ChatRequestInput, ToolChoice, WireTool } from './wire-request.js';

/** The body of `/responses`. Nothing is stored at the provider. */
export function responsesBody(input: ChatRequestInput): string {
  const quirks = input.quirks ?? {};
  const parsed = parseMessages(input.messages);
  const messages = quirks.mergeSystemIntoUser === true ? mergeSystemIntoUser(parsed) : parsed;
  const body: Record<string, unknown> = {
    model: input.model,
    input: messages.flatMap(toItems),
    store: false,
  };
  const tools = toolList(input.tools);
  if (tools.length > 0) {
    body['tools'] = tools.map(({ function: tool }) => ({
      type: 'function',
      ...tool,
      ...(quirks.grammarSchemas === true ? { parameters: grammarSchema(tool.parameters ?? {}) } : {}),
      strict: tool.strict ?? false,
    }));
    if (input.toolChoice !== undefined) body['tool_choice'] = toolChoice(input.toolChoice);
    if (input.parallelToolCalls !== undefined && quirks.parallelToolCalls !== false) {
      body['parallel_tool_calls'] = input.parallelToolCalls;
    }
  }
  if (input.maxTokens !== undefined) body['max_output_tokens'] = input.maxTokens;
  const { temperature, top_p } = sampling(input.sampling, quirks);
  if (temperature !== undefined) body['temperature'] = temperature;
  if (top_p !== undefined) body['top_p'] = top_p;
  if (input.reasoningEffort !== undefined) body['reasoning'] = { effort: input.reasoningEffort };
  if (input.responseFormat !== undefined) body['text'] = { format: flatFormat(input.responseFormat) };
  if (input.stream !== false) body['stream'] = true;
  return JSON.stringify({ ...body, ...input.extra });
}

export function toolList(tools: ChatRequestInput['tools']): readonly WireTool[] {
  if (tools === undefined || tools === '') return [];
  return typeof tools === 'string' ? (JSON.parse(tools) as WireTool[]) : tools;
}

function toItems(message: ChatMessage): unknown[] {
  if (message.role === 'tool') {
    return [{ type: 'function_call_output', call_id: message.tool_call_id, output: textOf(message.content) }];
  }
  const items: unknown[] = [];
  const isAssistant = message.role === 'assistant';
  const content =
    typeof message.content === 'string' ? [{ type: 'text' as const, text: message.content }] : (message.content ?? []);
  const parts = content.filter((part) => part.type !== 'text' || part.text !== '');
  if (parts.length > 0) {
    items.push({ type: 'message', role: message.role, content: parts.map((part) => toPart(part, isAssistant)) });
  }
  for (const call of message.tool_calls ?? []) {
    items.push({
      type: 'function_call',
      call_id: call.id,
      name: call.function.name,
      arguments: argumentsText(call.function.arguments),
    });
  }
  return items;
}

function toPart(part: ContentPart, isAssistant: boolean): unknown {
  if (part.type === 'text') return { type: isAssistant ? 'output_text' : 'input_text', text: part.text };
  return { type: 'input_image', image_url: part.image_url.url, detail: part.image_url.detail ?? 'auto' };
}

function toolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', name: choice.name };
}

/** `json_schema` nests its schema in the chat form and not here. */
function flatFormat(format: unknown): unknown {
  const value = format as { type?: unknown; json_schema?: object } | null;
  return value?.type === 'json_schema' && value.json_schema !== undefined
    ? { type: 'json_schema', ...value.json_schema }
    : format;
}
