import type { Invocation } from '../cli/invocation.js';
import { ago } from '../cli/table.js';
import { EXIT } from '../exit-codes.js';
import { openJetStream } from '../stack/stack-servers.js';
import { stackFile, stackIn } from '../stack/checkout.js';
import { StackError } from '../stack/stack-error.js';

/** `yard queue list`: streams with what they hold, and for work queues what waits, what is worked on and who asks. */
export async function list({ output }: Invocation): Promise<void> {
  const stack = stackIn(stackFile());
  if (stack === undefined)
    throw new StackError(
      'queues are read from the local stack, and none runs. Start one with: npm start',
      EXIT.unreachable,
    );
  const { streams, close } = await openJetStream(stack.nats_url);
  try {
    const items = await streams();
    await output.page(
      { items },
      [
        { name: 'stream', of: (item) => item.name },
        { name: 'kind', of: (item) => item.kind },
        { name: 'messages', of: (item) => item.messages },
        { name: 'waiting', of: (item) => item.waiting },
        { name: 'working', of: (item) => item.working },
        { name: 'pulling', of: (item) => item.pulling },
        { name: 'bytes', of: (item) => item.bytes },
        { name: 'oldest', of: (item) => (item.messages === 0 ? undefined : ago(item.oldest_at)) },
        { name: 'subjects', of: (item) => item.subjects.join(' '), wide: true },
      ],
      'there are no streams: is the set-up done?',
    );
  } finally {
    await close();
  }
}
