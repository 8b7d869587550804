import type { ChatMessage, ChatRequestInput, Sampling, ToolChoice, WireQuirks } from './wire-request.js';
import { argumentsText } from './call-arguments.js';
import { grammarTools } from './grammar-schema.js';
import { mergeSystemIntoUser, parseMessages } from './wire-messages.js';

/** The body of `/chat/completions`. Serialised messages and tools are spliced in as they are. */
export function chatBody(input: ChatRequestInput): string {
  const quirks = input.quirks ?? {};
  const messages = messagesJson(input, quirks);
  const tools = quirks.grammarSchemas === true ? grammarTools(toolsJson(input.tools)) : toolsJson(input.tools);
  const rest: Record<string, unknown> = {};
  if (tools !== '') {
    if (input.toolChoice !== undefined) rest['tool_choice'] = toolChoice(input.toolChoice);
    if (input.parallelToolCalls !== undefined && quirks.parallelToolCalls !== false) {
      rest['parallel_tool_calls'] = input.parallelToolCalls;
    }
  }
  if (input.maxTokens !== undefined) rest[quirks.maxTokensField ?? 'max_tokens'] = input.maxTokens;
  Object.assign(rest, sampling(input.sampling, quirks));
  if (input.responseFormat !== undefined) rest['response_format'] = input.responseFormat;
  if (input.reasoningEffort !== undefined) rest['reasoning_effort'] = input.reasoningEffort;
  if (input.stream !== false) {
    rest['stream'] = true;
    if (quirks.streamUsage !== false) rest['stream_options'] = { include_usage: true };
  }
  Object.assign(rest, input.extra);
  const tail = JSON.stringify(rest);
  return (
    `{"model":${JSON.stringify(input.model)},"messages":[${messages}]` +
    (tools === '' ? '' : `,"tools":${tools}`) +
    (tail === '{}' ? '}' : `,${tail.slice(1)}`)
  );
}

function messagesJson(input: ChatRequestInput, quirks: WireQuirks): string {
  if (quirks.mergeSystemIntoUser === true) {
    return mergeSystemIntoUser(parseMessages(input.messages))
      .map((message) => messageJson(message, quirks))
      .join(',');
  }
  const pieces: string[] = [];
  for (const message of input.messages) {
    const piece = typeof message === 'string' ? message : messageJson(message, quirks);
    if (piece !== '') pieces.push(piece);
  }
  return pieces.join(',');
}

/** The JSON of one message as this provider wants it; the same message always gives the same bytes. */
export function messageJson(message: ChatMessage, quirks: WireQuirks = {}): string {
  const { thinking_blocks: _blocks, reasoning_content: reasoning, ...plain } = message;
  if (plain.role === 'system' && quirks.systemRole === 'developer') plain.role = 'developer';
  if (plain.tool_calls?.some((call) => argumentsText(call.function.arguments) !== call.function.arguments) === true)
    plain.tool_calls = plain.tool_calls.map((call) => ({
      ...call,
      function: { ...call.function, arguments: argumentsText(call.function.arguments) },
    }));
  return JSON.stringify(
    quirks.keepReasoning === true && reasoning !== undefined && reasoning !== ''
      ? { ...plain, reasoning_content: reasoning }
      : plain,
  );
}

export function toolsJson(tools: ChatRequestInput['tools']): string {
  if (tools === undefined || tools.length === 0 || tools === '[]') return '';
  return typeof tools === 'string' ? tools : JSON.stringify(tools);
}

function toolChoice(choice: ToolChoice): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } };
}

/** The sampling fields that are given and that the provider takes. */
export function sampling(given: Sampling | undefined, quirks: WireQuirks): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value !== undefined && quirks.omit?.includes(name as keyof Sampling) !== true) out[name] = value;
  }
  return out;
}
