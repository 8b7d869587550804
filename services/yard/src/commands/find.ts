import { type Conversation, paged, type Run } from '@yardmaster/client';
import { ago } from '../cli/table.js';
import { findByFragment, isWholeId } from '../connection/fragments.js';
import type { Session } from '../connection/session.js';

/** The id of the run that `given` is or is a piece of. Throws UsageError or NothingFound. */
export async function runId(session: Session, given: string): Promise<string> {
  if (isWholeId(given)) return given;
  const found = await findByFragment<Run>(
    given,
    { what: 'run', listCommand: 'yard run list' },
    paged((cursor) => session.lookup.runs.page({ limit: 200, ...(cursor !== undefined && { cursor }) })),
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
    paged((cursor) => session.lookup.conversations.page({ limit: 200, ...(cursor !== undefined && { cursor }) })),
    (conversation) => `${conversation.messages} messages, ${ago(conversation.created_at)}`,
  );
  return found.id;
}
