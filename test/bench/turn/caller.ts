// Starts durable one-tool runs as the api does (record, then message) and waits for the terminal event of each.
import { create, toJsonString } from '@bufbuild/protobuf';
import { Bus } from '@yardmaster/bus';
import { ConversationStore } from '@yardmaster/conversation';
import { newId, RunEventsSchema, RunMessageSchema, StartRunSchema, subjects, tenantId } from '@yardmaster/contracts';

const { load } = await import(new URL('../../floors/lib/load.mjs', import.meta.url).href);
const { role } = await import(new URL('../../floors/lib/processes.mjs', import.meta.url).href);

const WINDOW = 40;
const CONVERSATIONS_PER_SLOT = 4;
const TENANTS = 16;

role(async (options: { natsUrl: string; natsPass: string; redisUrl: string; redisPass: string; slots: number }) => {
  const bus = await Bus.connect({ url: options.natsUrl, user: 'api', pass: options.natsPass });
  const store = await ConversationStore.connect({
    url: options.redisUrl,
    username: 'api',
    password: options.redisPass,
    owner: `bench-${process.pid}`,
  });
  const ended = new Map<string, (type: string) => void>();
  bus.hear('ym.evt.*.*', RunEventsSchema, ({ events }) => {
    const last = events.at(-1)!;
    if (last.type.startsWith('run.') && last.type !== 'run.started') ended.get(last.runId)?.(last.type);
  });
  const tenantOf = (slot: number) => tenantId(`t${slot % TENANTS}`);

  /** Every conversation begins with a full window of 1 KB messages, as those of the floor do. */
  const conversations: string[] = [];
  for (let i = 0; i < options.slots * CONVERSATIONS_PER_SLOT; i++) {
    const ref = { tenant: tenantOf(i % options.slots), conversation: newId(), run: newId() };
    await store.createRun({ ...ref, specJson: '{}', newConversation: true });
    const taken = await store.acquire({ ...ref, deliverySequence: 1, leaseMs: 60_000 });
    if (taken.kind !== 'acquired') throw new Error('the conversation is taken');
    await store.finish({
      ...ref,
      fence: taken.fence,
      expectedSeq: taken.seq,
      items: Array.from({ length: WINDOW }, (_, n) => ({
        type: 'chat' as const,
        role: n % 2 ? ('assistant' as const) : ('user' as const),
        content: 'x'.repeat(960),
      })),
      record: { state: 'completed' },
    });
    conversations.push(ref.conversation);
  }

  const specJson = toJsonString(StartRunSchema, create(StartRunSchema, { input: 'y'.repeat(400), tools: ['echo'] }));
  const first = { type: 'chat' as const, role: 'user' as const, content: 'y'.repeat(400) };
  let runs = 0;
  const operation = async (slot: number) => {
    const tenant = tenantOf(slot);
    const run = newId();
    const conversation = conversations[(runs++ % CONVERSATIONS_PER_SLOT) * options.slots + slot]!;
    const end = new Promise<string>((resolve) => ended.set(run, resolve));
    await store.createRun({ tenant, conversation, run, specJson, first });
    await bus.enqueue(
      subjects.runStart(tenant),
      RunMessageSchema,
      { runId: run, conversationId: conversation, reason: 'start' },
      { msgId: run },
    );
    const type = await end;
    ended.delete(run);
    if (type !== 'run.completed') throw new Error(`a run ended as ${type}`);
  };
  await bus.flush();
  return { load: (level: { inFlight: number; seconds: number }) => load({ ...level, operation }) };
});
