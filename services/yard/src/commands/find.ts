import type { Conversation, Run } from '@yardmaster/client';
import { ago } from '../cli/table.js';
import { findByFragment, isWholeId } from '../connection/fragments.js';
import type { Session } from '../connection/session.js';

/** The id of the run that `given` is or is a piece of. Throws UsageError or NothingFound. */
export async function runId(session: Session, given: string): Promise<string> {
  if (isWholeId(given)) return given;
  const found = await findByFragment<Run>(
    given,
    { what: 'run', listCommand: 'yard run list' },
    pages((cursor) => session.lookup.runs.page({ limit: 200, ...(cursor !== undefined && { cursor }) })),
    (run) => `${run.state}, ${ago(run.created_at)}`,
  );
  return found.id;
}

/** The same for conversations. */
export async function conversationId(session: Session, given: string): Promise<string> {
  if (isWholeId(given)) return given;
  const found = await findByFragment<Conversation>(
    given,
    { what: 'conversation', listCommand: 'yard conversation list' },
    pages((cursor) => session.lookup.conversations.page({ limit: 200, ...(cursor !== undefined && { cursor }) })),
    (conversation) => `${conversation.messages} messages, ${ago(conversation.created_at)}`,
  );
  return found.id;
}

/** All items of a list, in the largest pages. */
export async function* pages<T>(
  page: (cursor: string | undefined) => Promise<{ items: T[]; next_cursor: string | null }>,
): AsyncGenerator<T, void, void> {
  let cursor: string | undefined;
  do {
    const found = await page(cursor);
    yield* found.items;
    cursor = found.next_cursor ?? undefined;
  } while (cursor !== undefined);
}
