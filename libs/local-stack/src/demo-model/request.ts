/** A chat completion request in the OpenAI form, as far as the demo model looks at it. */
export interface ModelRequest {
  model: string;
  messages: Message[];
  tools?: { type: string; function?: { name: string } }[];
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  [more: string]: unknown;
}

export interface Message {
  role: string;
  content?: string | { type: string; text?: string }[] | null;
  tool_calls?: { id: string; type?: string; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

/** A conversation without its wire form: who said what, which calls were made, what came of them. */
export type Turn =
  | { who: 'system' | 'user'; text: string }
  | { who: 'model'; text: string; calls: { name: string; arguments: Record<string, unknown> }[] }
  | { who: 'tool'; name: string; ok: boolean; text: string };

/** How the model asks for tools: in the API's own field, or in tags that the system prompt has taught it. */
export type Voice = 'native' | 'xml' | 'none';

/** What a strict server says of a request that it refuses, or undefined when it is well formed. */
export function complaint(request: unknown): string | undefined {
  if (typeof request !== 'object' || request === null) return 'the body must be a JSON object';
  const { model, messages } = request as Partial<ModelRequest>;
  if (typeof model !== 'string' || model === '') return "you must provide a model parameter ('model')";
  if (!Array.isArray(messages) || messages.length === 0) return "'messages' must be a non-empty array";
  return (
    messages.map(wrongMessage).find((text) => text !== undefined) ?? wrongOrder(messages) ?? wrongXmlOrder(messages)
  );
}

function wrongMessage(message: Message, at: number): string | undefined {
  const where = `'messages[${at}]`;
  if (typeof message !== 'object' || message === null) return `${where}' must be an object`;
  if (!['system', 'developer', 'user', 'assistant', 'tool'].includes(message.role))
    return `${where}.role' must be system, developer, user, assistant or tool, got '${String(message.role)}'`;
  const { content, tool_calls: calls } = message;
  const empty = content === undefined || content === null;
  if (!empty && typeof content !== 'string' && !Array.isArray(content))
    return `${where}.content' must be text or parts`;
  if (empty && !(message.role === 'assistant' && calls !== undefined)) return `${where}.content' is missing`;
  if (calls === undefined) return undefined;
  if (message.role !== 'assistant') return `${where}.tool_calls' is allowed for the role assistant only`;
  if (!Array.isArray(calls) || calls.length === 0) return `${where}.tool_calls' must not be empty`;
  for (const call of calls) {
    if (typeof call?.id !== 'string' || call.id === '') return `${where}.tool_calls' has a call without an id`;
    if (typeof call.function?.name !== 'string' || typeof call.function.arguments !== 'string')
      return `${where}.tool_calls' must have a function with a name and arguments as text`;
  }
  if (new Set(calls.map(({ id }) => id)).size < calls.length) return `${where}.tool_calls' has the same id twice`;
  return undefined;
}

/** Every call has exactly one result right behind it, and every result has its call. */
function wrongOrder(messages: readonly Message[]): string | undefined {
  let open = new Set<string>();
  for (const message of messages) {
    if (message.role === 'tool') {
      if (!open.delete(message.tool_call_id ?? ''))
        return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'";
      continue;
    }
    if (open.size > 0) break;
    open = new Set(message.tool_calls?.map(({ id }) => id));
  }
  if (open.size === 0) return undefined;
  return (
    "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; " +
    `these did not have response messages: ${[...open].join(', ')}`
  );
}

const RESULTS = /^\[Tool results\]\n/;
/** Results, or the word that a call could not be read or names no tool. */
const ANSWERED = /<tool_result|Nothing was run\./;

/** The same for conversations in tags, where servers cannot look: so that a lost result is noticed here too. */
function wrongXmlOrder(messages: readonly Message[]): string | undefined {
  for (const [i, message] of messages.entries()) {
    const before = messages[i - 1];
    if (message.role === 'user' && RESULTS.test(textOf(message)) && before?.role !== 'assistant')
      return 'tool results must follow the message of the assistant that asked for them';
    const asked = before?.role === 'assistant' && xmlCalls(textOf(before)).length > 0;
    if (asked && !(message.role === 'user' && ANSWERED.test(textOf(message))))
      return 'the assistant asked for tools and their results do not follow';
  }
  return undefined;
}

function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map(({ text }) => text ?? '').join('\n');
}

/** Calls that an assistant wrote as `<tool_call>{"name": …, "arguments": {…}}</tool_call>`. */
function xmlCalls(text: string): { name: string; arguments: Record<string, unknown> }[] {
  return [...text.matchAll(/<tool_call>\s*(\{[\s\S]*?\})\s*<\/tool_call>/g)].flatMap(([, json]) => {
    const call = asObject(json!);
    return typeof call['name'] === 'string'
      ? [{ name: call['name'], arguments: (call['arguments'] ?? {}) as Record<string, unknown> }]
      : [];
  });
}

function asObject(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The conversation as turns, whichever voice each part of it was spoken in. */
export function turnsOf({ messages }: ModelRequest): Turn[] {
  const names = new Map<string, string>();
  return messages.flatMap((message): Turn[] => {
    const text = textOf(message);
    if (message.role === 'assistant') {
      for (const call of message.tool_calls ?? []) names.set(call.id, call.function.name);
      const native = (message.tool_calls ?? []).map(({ function: f }) => ({
        name: f.name,
        arguments: asObject(f.arguments),
      }));
      return [{ who: 'model', text, calls: [...native, ...xmlCalls(text)] }];
    }
    if (message.role === 'tool') return [result(names.get(message.tool_call_id ?? '') ?? '', text)];
    if (message.role === 'user' && RESULTS.test(text)) {
      const blocks = text.matchAll(/^<tool_result name="([^"]*)"[^>\n]*>\n([\s\S]*?)\n?<\/tool_result>$/gm);
      return [...blocks].map(([block, name, inner]) => result(name!, inner!, !/^[^\n]*status="error"/.test(block)));
    }
    return [{ who: message.role === 'user' ? 'user' : 'system', text }];
  });
}

const result = (name: string, text: string, ok = true): Turn => ({ who: 'tool', name, ok, text });

/** The voice that this request calls for, and the tools it may ask for. */
export function voiceOf(request: ModelRequest, forced?: Voice): { voice: Voice; tools: Set<string> } {
  const native = (request.tools ?? []).flatMap((tool) => tool.function?.name ?? []);
  const taught = request.messages
    .filter(({ role }) => role === 'system' || role === 'developer')
    .map(textOf)
    .find((text) => text.includes('<tool_call>'));
  const inText = [...(taught ?? '').matchAll(/"name"\s*:\s*"([A-Za-z0-9_.-]+)"/g)].map(([, name]) => name!);
  if (native.length > 0 && forced !== 'xml') return { voice: 'native', tools: new Set(native) };
  if (taught !== undefined && forced !== 'native') return { voice: 'xml', tools: new Set(inText) };
  return { voice: 'none', tools: new Set() };
}
