import type { ConversationMessage, StoredToolResult } from '@yardmaster/contracts';
import { connectRedis } from '@yardmaster/conversation';
import { type Expectations, redisKeys } from './oracle.ts';
import type { Rig, RigOptions, Touched } from './rig.ts';

/** One fault: what is done and what must hold beside the oracle's U1-U6. */
export interface Scenario {
  /** A stack of its own with these options, since the scenario destroys, or needs, more than the shared one has. */
  own?: Omit<RigOptions, 'slack'>;
  run(rig: Rig, must: Must): Promise<Expectations | void>;
}

/** Notes what does not hold; the scenario goes on, so that all of it is told. */
export type Must = (holds: boolean, what: string) => void;

/** Thrown where this machine cannot show the fault; the reason is for the reader. */
export class Skip extends Error {}

/** The history of a conversation as it is stored. */
export async function history(rig: Rig, of: Pick<Touched, 'tenant' | 'conversation'>): Promise<ConversationMessage[]> {
  const redis = connectRedis({ url: rig.stack.redis.urlFor('dispatcher') });
  try {
    const entries = await redis.xrange(redisKeys(of).history, '-', '+');
    return entries.map(([, fields]) => JSON.parse(fields[1]!) as ConversationMessage);
  } finally {
    redis.disconnect();
  }
}

/** All tool results of a history, in order. */
export const resultsIn = (items: readonly ConversationMessage[]): StoredToolResult[] =>
  items.flatMap((item) => (item.type === 'tool_results' ? item.results : []));

/** Messages of the assistant with exactly this text. */
export const saying = (items: readonly ConversationMessage[], text: string) =>
  items.filter((item) => item.type === 'chat' && item.role === 'assistant' && item.content === text);
