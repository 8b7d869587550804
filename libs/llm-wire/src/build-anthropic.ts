import type { ContentPart } from '@yardmaster/contracts';
import { toolList } from './build-responses.js';
import { argumentsObject } from './call-arguments.js';
import type { JsonObject } from './json-value.js';
import { parseMessages, textOf } from './wire-messages.js';
import type { ChatMessage, ChatRequestInput, ToolChoice } from './wire-request.js';

/** The API wants a limit; this one is safe for every current model. */
const DEFAULT_MAX_TOKENS = 8192;
const MAX_BREAKPOINTS = 4;
const EPHEMERAL = { type: 'ephemeral' } as const;

interface Turn {
  role: 'user' | 'assistant';
  content: JsonObject[];
}

/** The body of Anthropic's `/messages`, with prompt-cache breakpoints at the places that stay the same between turns. */
export function anthropicBody(input: ChatRequestInput): string {
  const messages = parseMessages(input.messages);
  const system = messages
    .filter(isSystem)
    .map((message) => textOf(message.content))
    .filter((text) => text !== '')
    .map((text): JsonObject => ({ type: 'text', text }));
  const turns = toTurns(messages.filter((message) => !isSystem(message)));
  const tools = toolList(input.tools).map(({ function: tool }): JsonObject => {
    const definition: JsonObject = {
      name: tool.name,
      input_schema: tool.parameters ?? { type: 'object', properties: {} },
    };
    if (tool.description !== undefined) definition['description'] = tool.description;
    return definition;
  });
  setBreakpoints(tools, system, turns, Math.min(MAX_BREAKPOINTS, input.quirks?.cacheBreakpoints ?? MAX_BREAKPOINTS));

  const body: JsonObject = { model: input.model, max_tokens: input.maxTokens ?? DEFAULT_MAX_TOKENS };
  // Tools, system, messages: the order in which the provider builds its cache.
  if (tools.length > 0) {
    body['tools'] = tools;
    const choice = toolChoice(input.toolChoice, input.parallelToolCalls);
    if (choice !== undefined) body['tool_choice'] = choice;
  }
  if (system.length > 0) body['system'] = system;
  body['messages'] = turns;
  const omit = input.quirks?.omit ?? [];
  const { temperature, top_p, top_k, stop } = input.sampling ?? {};
  if (temperature !== undefined && !omit.includes('temperature')) body['temperature'] = Math.min(1, temperature);
  if (top_p !== undefined && !omit.includes('top_p')) body['top_p'] = top_p;
  if (top_k !== undefined && !omit.includes('top_k')) body['top_k'] = top_k;
  const stops = stop?.filter((word) => word.trim() !== '');
  if (stops !== undefined && stops.length > 0) body['stop_sequences'] = stops;
  if (input.stream !== false) body['stream'] = true;
  return JSON.stringify({ ...body, ...input.extra });
}

function isSystem(message: ChatMessage): boolean {
  return message.role === 'system' || message.role === 'developer';
}

/** Roles must alternate and begin with the user; all results of one round belong into one user turn, before its text. */
function toTurns(messages: readonly ChatMessage[]): Turn[] {
  const turns: Turn[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const content =
      message.role === 'tool'
        ? [toolResult(message)]
        : role === 'user'
          ? userBlocks(message.content)
          : assistantBlocks(message);
    if (content.length === 0) continue;
    const last = turns.at(-1);
    if (last?.role === role) last.content.push(...content);
    else turns.push({ role, content });
  }
  if (turns[0]?.role === 'assistant')
    turns.unshift({ role: 'user', content: [{ type: 'text', text: '(earlier messages were cut)' }] });
  for (const turn of turns) {
    const results = turn.content.filter((block) => block['type'] === 'tool_result');
    if (results.length > 0)
      turn.content = [...results, ...turn.content.filter((block) => block['type'] !== 'tool_result')];
  }
  return turns;
}

/** Ids of other providers may hold characters that this API refuses; both ends of a call change alike. */
function safeId(id: string): string {
  return /^[a-zA-Z0-9_-]+$/.test(id)
    ? id
    : `x${Array.from(new TextEncoder().encode(id), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

function toolResult(message: ChatMessage): JsonObject {
  if (message.tool_references !== undefined && message.tool_references.length > 0) {
    const content = message.tool_references.map((name) => ({ type: 'tool_reference', tool_name: name }));
    return { type: 'tool_result', tool_use_id: safeId(message.tool_call_id ?? ''), content };
  }
  const content = Array.isArray(message.content) ? userBlocks(message.content) : textOf(message.content);
  return { type: 'tool_result', tool_use_id: safeId(message.tool_call_id ?? ''), content };
}

function assistantBlocks(message: ChatMessage): JsonObject[] {
  // Thinking goes first and unchanged, or the model refuses the turn.
  const blocks: JsonObject[] = (message.thinking_blocks ?? [])
    .filter((block) => block.type === 'redacted_thinking' || block.signature !== undefined)
    .map((block) => ({ ...block }));
  const text = textOf(message.content);
  if (text.trim() !== '') blocks.push({ type: 'text', text });
  for (const call of message.tool_calls ?? []) {
    const input = argumentsObject(call.function.arguments);
    blocks.push({ type: 'tool_use', id: safeId(call.id), name: call.function.name, input });
  }
  return blocks;
}

function userBlocks(content: string | ContentPart[] | null): JsonObject[] {
  if (typeof content === 'string') return content.trim() === '' ? [] : [{ type: 'text', text: content }];
  return (content ?? []).flatMap((part): JsonObject[] => {
    if (part.type === 'text') return part.text.trim() === '' ? [] : [{ type: 'text', text: part.text }];
    const data = /^data:([^;,]+);base64,(.*)$/s.exec(part.image_url.url);
    const source =
      data === null ? { type: 'url', url: part.image_url.url } : { type: 'base64', media_type: data[1], data: data[2] };
    return [{ type: 'image', source }];
  });
}

function toolChoice(choice: ToolChoice | undefined, parallel: boolean | undefined): JsonObject | undefined {
  const serial = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (choice === undefined) return parallel === false ? { type: 'auto', ...serial } : undefined;
  if (choice === 'none') return { type: 'none' };
  if (choice === 'auto') return { type: 'auto', ...serial };
  if (choice === 'required') return { type: 'any', ...serial };
  return { type: 'tool', name: choice.name, ...serial };
}

/**
 * Tools and system change least, so each ends a cached part. The last two user turns end the others: the older is where
 * the previous request ended and is read, the newer is written for the next one.
 */
function setBreakpoints(tools: JsonObject[], system: JsonObject[], turns: Turn[], maximum: number): void {
  const users = turns.filter((turn) => turn.role === 'user');
  const places = [users.at(-1)?.content.at(-1), system.at(-1), users.at(-2)?.content.at(-1), tools.at(-1)];
  for (const place of places.filter((block) => block !== undefined).slice(0, maximum))
    place['cache_control'] = EPHEMERAL;
}
