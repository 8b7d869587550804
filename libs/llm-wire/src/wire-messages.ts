import type { ContentPart } from '@yardmaster/contracts';
import { UnsendableRequest, type ChatMessage, type WireMessage } from './wire-request.js';

/** All messages as objects; serialised ones are parsed. */
export function parseMessages(messages: readonly WireMessage[]): ChatMessage[] {
  const out: ChatMessage[] = [];
  for (const message of messages) {
    if (typeof message !== 'string') {
      out.push(message);
      continue;
    }
    if (message === '') continue;
    try {
      out.push(...(JSON.parse(`[${message}]`) as ChatMessage[]));
    } catch {
      throw new UnsendableRequest(
        'bad_message',
        'a serialised message is no JSON; pass message objects joined by commas',
      );
    }
  }
  return out;
}

/** True when a message carries an image. */
export function hasImages(messages: readonly WireMessage[]): boolean {
  return messages.some((message) =>
    typeof message === 'string'
      ? // Within a JSON string the quotes would be escaped, so this finds a part and not a text about one.
        /"type":\s?"image_url"/.test(message)
      : Array.isArray(message.content) && message.content.some((part) => part.type === 'image_url'),
  );
}

/** The text of a content; images are left out. */
export function textOf(content: string | ContentPart[] | null): string {
  if (content === null) return '';
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** For providers that refuse `role: system`: all system text goes in front of the first user message. */
export function mergeSystemIntoUser(messages: readonly ChatMessage[]): ChatMessage[] {
  const isSystem = (message: ChatMessage): boolean => message.role === 'system' || message.role === 'developer';
  const system = messages
    .filter(isSystem)
    .map((message) => textOf(message.content))
    .filter((text) => text !== '')
    .join('\n\n');
  const others = messages.filter((message) => !isSystem(message));
  if (system === '') return others;
  const at = others.findIndex((message) => message.role === 'user');
  const first = others[at];
  if (first === undefined) return [{ role: 'user', content: system }, ...others];
  const content: ChatMessage['content'] = Array.isArray(first.content)
    ? [{ type: 'text', text: `${system}\n\n` }, ...first.content]
    : `${system}\n\n${first.content ?? ''}`;
  return others.with(at, { ...first, content });
}
