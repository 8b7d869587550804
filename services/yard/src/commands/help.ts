import { groupHelp, commandHelp, exitCodeHelp, flagHelp, topHelp } from '../cli/help.js';
import { isGroup } from '../cli/command.js';
import type { Invocation } from '../cli/invocation.js';
import { UsageError } from '../cli/usage-error.js';

/** `yard help [TOPIC]`: topics, and the nouns as with --help. */
export async function help({ args: [topic], output }: Invocation): Promise<void> {
  const { TREE } = await import('../tree.js');
  const entry = topic !== undefined && Object.hasOwn(TREE, topic) ? TREE[topic] : undefined;
  if (topic === undefined) output.line(topHelp(TREE));
  else if (topic === 'flags') output.line(flagHelp());
  else if (topic === 'exit-codes') output.line(exitCodeHelp());
  else if (entry !== undefined) output.line(isGroup(entry) ? groupHelp(topic, entry) : commandHelp([topic], entry));
  else
    throw new UsageError(`there is no help on "${topic.slice(0, 60)}"; topics: flags, exit-codes, and every command`);
}
