import type { ContentPart, ConversationMessage, StoredToolResult } from '@yardmaster/contracts';
import { YardError } from '@yardmaster/contracts';

const wrong = (at: string, says: string) =>
  new YardError('INVALID', 'YM-REQ-INVALID', `${at} ${says}.`, { details: { param: at } });

type Wire = Record<string, unknown>;
const isObject = (value: unknown): value is Wire =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The `messages` of a chat completion in canonical form; system messages are apart. Throws INVALID that names the
 * message, also for tool results that answer no call: no provider would take them.
 */
export function fromOpenAiMessages(messages: unknown): { system: string; messages: ConversationMessage[] } {
  if (!Array.isArray(messages) || messages.length === 0) throw wrong('messages', 'must be a list that is not empty');
  const system: string[] = [];
  const found: ConversationMessage[] = [];
  /** Calls of the last assistant message that have no result yet, in call order. */
  let open: { id: string; name: string }[] = [];
  let results: StoredToolResult[] = [];
  for (const [i, message] of messages.entries()) {
    const at = `messages[${i}]`;
    if (!isObject(message)) throw wrong(at, 'must be an object');
    if (message['role'] === 'tool') {
      const id = message['tool_call_id'];
      const call = open.find((entry) => entry.id === id);
      if (call === undefined) throw wrong(`${at}.tool_call_id`, 'answers no call of the message before');
      results.push({ tool_call_id: call.id, name: call.name, content: textOf(message['content'], `${at}.content`) });
      open = open.filter((entry) => entry !== call);
      if (open.length === 0) {
        found.push({ type: 'tool_results', results });
        results = [];
      }
      continue;
    }
    if (open.length > 0) throw wrong(at, `comes before the result of call ${open[0]!.id}`);
    switch (message['role']) {
      case 'system':
      case 'developer':
        system.push(textOf(message['content'], `${at}.content`));
        break;
      case 'user':
        found.push({ type: 'chat', role: 'user', content: contentOf(message['content'], `${at}.content`) });
        break;
      case 'assistant': {
        const calls = message['tool_calls'];
        if (!Array.isArray(calls) || calls.length === 0) {
          found.push({ type: 'chat', role: 'assistant', content: textOf(message['content'] ?? '', `${at}.content`) });
          break;
        }
        const stored = calls.map((call, j) => callOf(call, `${at}.tool_calls[${j}]`));
        const text = message['content'] == null ? null : textOf(message['content'], `${at}.content`);
        found.push({ type: 'assistant_tool_calls', text: text || null, tool_calls: stored, reasoning_content: null });
        open = stored.map(({ id, name }) => ({ id, name }));
        break;
      }
      default:
        throw wrong(`${at}.role`, 'must be system, developer, user, assistant or tool');
    }
  }
  if (open.length > 0) throw wrong('messages', `ends before the result of call ${open[0]!.id}`);
  return { system: system.join('\n\n'), messages: found };
}

function callOf(call: unknown, at: string) {
  if (!isObject(call) || !isObject(call['function'])) throw wrong(at, 'must be a function call');
  const { name, arguments: args } = call['function'];
  if (typeof call['id'] !== 'string' || typeof name !== 'string' || typeof args !== 'string')
    throw wrong(at, 'must have an id, a name and arguments');
  return { id: call['id'], name, arguments: args };
}

function textOf(content: unknown, at: string): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content) && content.every((part) => isObject(part) && typeof part['text'] === 'string'))
    return content.map((part) => (part as { text: string }).text).join('');
  throw wrong(at, 'must be text');
}

function contentOf(content: unknown, at: string): string | ContentPart[] {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content) || content.length === 0) throw wrong(at, 'must be text or content parts');
  return content.map((part, i): ContentPart => {
    if (isObject(part) && part['type'] === 'text' && typeof part['text'] === 'string')
      return { type: 'text', text: part['text'] };
    if (isObject(part) && part['type'] === 'image_url' && isObject(part['image_url'])) {
      const { url, detail } = part['image_url'];
      if (typeof url === 'string' && /^(https?:\/\/|data:image\/)/.test(url))
        return { type: 'image_url', image_url: { url, ...(typeof detail === 'string' && { detail }) } };
    }
    throw wrong(`${at}[${i}]`, 'must be a text or image_url part');
  });
}
