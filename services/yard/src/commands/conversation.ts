import type { Conversation, ConversationItem } from '@yardmaster/client';
import { type Invocation, readStdin } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { ago } from '../cli/table.js';
import { UsageError } from '../cli/usage-error.js';
import { conversationId } from './find.js';
import { collect, wantedItems } from './list-pages.js';

/** `yard conversation list` */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const page = await collect<Conversation>(wantedItems(invocation), (query) => session.api.conversations.page(query));
  await invocation.output.page(
    page,
    [
      { name: 'id', of: (conversation) => conversation.id },
      { name: 'messages', of: (conversation) => conversation.messages },
      { name: 'bytes', of: (conversation) => conversation.bytes },
      { name: 'active run', of: (conversation) => conversation.active_run },
      { name: 'compacted to', of: (conversation) => conversation.compacted_up_to, wide: true },
      { name: 'created', of: (conversation) => ago(conversation.created_at) },
    ],
    'no conversations; a run starts one: yard ask "…"',
  );
  if (page.next_cursor !== null && !invocation.output.structured)
    invocation.output.note(`${page.items.length} shown; more: --limit N or --all`);
}

const describe = (conversation: Conversation) =>
  fields([
    ['conversation', conversation.id],
    ['created', `${conversation.created_at} (${ago(conversation.created_at)})`],
    ['messages', conversation.messages],
    ['bytes', conversation.bytes],
    ['active run', conversation.active_run],
    ['compacted to', conversation.compacted_up_to],
  ]);

/** `yard conversation get CONVERSATION` */
export async function get(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const found = await session.api.conversations.get(await conversationId(session, invocation.args[0]!));
  await invocation.output.object(found, () => describe(found));
}

/** `yard conversation messages CONVERSATION` */
export async function messages(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const items: ConversationItem[] = [];
  const id = await conversationId(session, invocation.args[0]!);
  for await (const item of session.api.conversations.messages(id)) items.push(item);
  await invocation.output.page(
    { items, next_cursor: null } as { items: ConversationItem[] },
    [
      { name: 'seq', of: (item) => item.seq },
      { name: 'who', of: who },
      { name: 'text', of: textOf, max: 100 },
    ],
    'no messages yet',
  );
}

const who = (item: ConversationItem) => (typeof item['role'] === 'string' ? item['role'] : item.type);

/** What a message says, in one line: its text, the calls, the results. */
function textOf(item: ConversationItem): string {
  const parts: string[] = [];
  const { content } = item;
  if (typeof content === 'string') parts.push(content);
  else if (Array.isArray(content))
    for (const part of content as { type?: string; text?: string }[])
      parts.push(part.text ?? `[${part.type ?? 'part'}]`);
  if (typeof item['text'] === 'string') parts.push(item['text']);
  for (const call of (item['tool_calls'] ?? []) as { name?: string; arguments?: unknown }[])
    parts.push(
      `${call.name ?? '?'} ${typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments)}`,
    );
  for (const result of (item['results'] ?? []) as { content?: unknown; output?: unknown }[])
    parts.push(String(result.content ?? result.output ?? ''));
  return parts.join(' | ');
}

/** `yard conversation compact CONVERSATION --up-to SEQ` */
export async function compact(invocation: Invocation): Promise<void> {
  const upTo = invocation.number('up-to');
  if (upTo === undefined)
    throw new UsageError('--up-to SEQ is needed; the numbers are in: yard conversation messages CONVERSATION');
  const session = await invocation.session();
  const given = invocation.text('summary');
  const summary = given === '-' ? await readStdin() : given;
  const model = invocation.text('model');
  const found = await session.api.conversations.compact(await conversationId(session, invocation.args[0]!), {
    up_to_seq: upTo,
    ...(summary === undefined ? {} : { summary }),
    ...(model === undefined ? {} : { model }),
  });
  await invocation.output.object(found, () => `${describe(found)}\n\n${found.summary}`);
}

/** `yard conversation delete CONVERSATION` */
export async function remove(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const id = await conversationId(session, invocation.args[0]!);
  await session.api.conversations.delete(id);
  invocation.output.note(`deleted conversation ${id}`);
}
