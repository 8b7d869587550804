// What must hold after every fault (U1-U6): reads what clients saw, and the final state of the streams and of Redis.
import { type ConversationMessage, messages, STREAMS, subjects, tenantId, toolStream } from '@yardmaster/contracts';
import { connectRedis } from '@yardmaster/conversation';
import { jetstreamManager } from '@nats-io/jetstream';
import { JANITOR_MS, type Rig, TERMINAL, type Touched, UNSAFE_TOOLS } from './rig.ts';

export interface Expectations {
  /** Messages that the scenario leaves in the dead letters. */
  deadLetters?: number;
}

/** Names of what Redis holds, written down here on their own: the oracle does not ask the product where to look. */
export const redisKeys = ({
  tenant,
  conversation,
  run = '',
}: {
  tenant: string;
  conversation: string;
  run?: string;
}) => ({
  history: `ym:h:{${tenant}:${conversation}}`,
  meta: `ym:m:{${tenant}:${conversation}}`,
  queue: `ym:q:{${tenant}:${conversation}}`,
  run: `ym:r:{${tenant}:${conversation}}:${run}`,
});

const WORK_STREAMS = [STREAMS.runs.name, toolStream('fault')];
const READ_STREAMS = [STREAMS.events.name, STREAMS.results.name, STREAMS.claims.name, STREAMS.commands.name];

/** Waits until nothing is queued or running any more. Throws with what still is. */
export async function quiet(rig: Rig, touched: readonly Touched[] = rig.touched): Promise<void> {
  for (const { run, tenant } of touched) await rig.settled(run, { tenant, ms: 60_000 });
  let left: string[] = [];
  await rig
    .until(async () => (left = await queues(rig)).length === 0, 'the work queues are empty (U4)', JANITOR_MS)
    .catch((error: unknown) => {
      throw new Error(`${(error as Error).message}: ${left.join('; ')}`);
    });
}

async function queues(rig: Rig): Promise<string[]> {
  const jsm = await jetstreamManager(rig.bus.nc);
  const left: string[] = [];
  for (const stream of WORK_STREAMS) {
    const { state } = await jsm.streams.info(stream);
    const { num_ack_pending: pending } = await jsm.consumers.info(stream, 'work');
    if (state.messages > 0) left.push(`${stream} holds ${state.messages} messages`);
    if (pending > 0) left.push(`${stream} has ${pending} pending acks`);
  }
  return left;
}

/** Everything that is wrong with the runs that were touched, in words. */
export async function violations(
  rig: Rig,
  touched: readonly Touched[],
  expected: Expectations = {},
): Promise<string[]> {
  const wrong: string[] = [];
  const redis = connectRedis({ url: rig.stack.redis.urlFor('dispatcher') });
  try {
    for (const each of touched) wrong.push(...(await events(rig, each)));
    const conversations = new Map(touched.map((each) => [each.conversation, each]));
    for (const each of conversations.values()) wrong.push(...(await conversation(redis, each)));
    for (const each of touched) {
      const left = await redis.pttl(redisKeys(each).run);
      if (left === -1) wrong.push(`U5 the record of run ${each.run} is kept for ever`);
    }
  } finally {
    redis.disconnect();
  }
  const refused = rig.model.seen.filter(({ status }) => status === 400).length;
  if (refused > 0) wrong.push(`U1 the model refused ${refused} requests as malformed`);
  wrong.push(...doubleStarts(rig));
  wrong.push(...(await streams(rig, expected)));
  wrong.push(...rig.unexpectedDeaths.map((death) => `U6 ${death}`));
  for (const [file, log] of rig.logs()) {
    const line = log
      .split('\n')
      .find((each) => /a rejection was not handled|UnhandledPromiseRejection|uncaughtException/.test(each));
    if (line !== undefined) wrong.push(`U6 ${file}: ${line.slice(0, 300)}`);
  }
  for (const [tenant, answers] of rig.answers) {
    const foreign = [...rig.answers.keys()].filter((other) => other !== tenant).map((other) => `secret-of-${other}`);
    const found = foreign.find((word) => answers.some((answer) => answer.includes(word)));
    if (found !== undefined) wrong.push(`U6 an answer to ${tenant} has the word ${found}`);
  }
  return wrong;
}

/** U1: the history is a list of rounds, and its ids are its sequence. U5: no lease, and nothing without an end. */
async function conversation(redis: ReturnType<typeof connectRedis>, touched: Touched): Promise<string[]> {
  const keys = redisKeys(touched);
  const wrong: string[] = [];
  const say = (text: string) => wrong.push(`${text} (conversation ${touched.conversation})`);
  const entries = await redis.xrange(keys.history, '-', '+');
  entries.forEach(([id], index) => {
    if (id !== `${index + 1}-0`) say(`U1 item ${index + 1} has the id ${id}`);
  });
  const items = entries.map(([, fields]) => JSON.parse(fields[1] ?? '{}') as ConversationMessage);
  for (const problem of malformed(items)) say(`U1 ${problem}`);
  const meta = await redis.hmget(keys.meta, 'owner', 'until', 'seq');
  if (meta[0] !== null || meta[1] !== null) say(`U5 a lease is held by ${meta[0]}`);
  if (entries.length > 0 && Number(meta[2]) !== entries.length)
    say(`U1 the sequence says ${meta[2]}, there are ${entries.length} items`);
  for (const key of [keys.history, keys.meta, keys.queue])
    if ((await redis.pttl(key)) === -1) say(`U5 ${key} is kept for ever`);
  return wrong;
}

/** Every call has one result, right behind it; no result stands alone. */
export function malformed(items: readonly ConversationMessage[]): string[] {
  const wrong: string[] = [];
  items.forEach((item, index) => {
    const next = items[index + 1];
    if (item.type === 'assistant_tool_calls') {
      const asked = item.tool_calls.map(({ id }) => id).join();
      const answered =
        next?.type === 'tool_results' ? next.results.map((result) => result.tool_call_id).join() : 'nothing';
      if (asked !== answered) wrong.push(`item ${index + 1} calls ${asked} and is followed by results of ${answered}`);
    }
    if (item.type === 'tool_results' && items[index - 1]?.type !== 'assistant_tool_calls')
      wrong.push(`item ${index + 1} has results without a call`);
  });
  return wrong;
}

/** U2: what must not happen twice did not begin twice. */
function doubleStarts(rig: Rig): string[] {
  const count = new Map<string, number>();
  for (const { kind, call, text } of rig.effects())
    if (kind === 'start' && UNSAFE_TOOLS.has(text)) count.set(call, (count.get(call) ?? 0) + 1);
  return [...count].filter(([, starts]) => starts > 1).map(([call, starts]) => `U2 ${call} started ${starts} times`);
}

/** U3: numbered without holes, one end, and it is the last; the run's own word is the same. */
async function events(rig: Rig, { tenant, run }: Touched): Promise<string[]> {
  const wrong: string[] = [];
  const stored: { n: number; type: string }[] = [];
  for await (const { message } of rig.bus.readSubject(
    STREAMS.events.name,
    subjects.event(tenantId(tenant), run),
    messages.events,
  ))
    for (const { n, type } of message.events) stored.push({ n: Number(n), type });
  const say = (text: string) =>
    wrong.push(`U3 ${text} (run ${run}: ${stored.map(({ n, type }) => `${n} ${type}`).join(', ')})`);
  stored.forEach(({ n }, index) => {
    if (n !== index + 1) say(`event ${index + 1} has the number ${n}`);
  });
  const ends = stored.filter(({ type }) => TERMINAL.includes(type.replace(/^run\./, '')));
  if (ends.length !== 1) say(`${ends.length} terminal events`);
  else if (stored.at(-1) !== ends[0]) say('the terminal event is not the last one');
  const seen = await rig.events(run, tenant);
  if (seen.map(({ id, type }) => `${id} ${type}`).join() !== stored.map(({ n, type }) => `${n} ${type}`).join())
    say(`clients see ${seen.length} events`);
  const { state } = await rig.get(run, { tenant });
  if (ends[0] !== undefined && ends[0].type !== `run.${state}`) say(`the run says ${state}`);
  return wrong;
}

/** U4, and of U5 that nothing of a single run is left at the server. */
async function streams(rig: Rig, { deadLetters = 0 }: Expectations): Promise<string[]> {
  const jsm = await jetstreamManager(rig.bus.nc);
  const wrong = (await queues(rig)).map((text) => `U4 ${text}`);
  const { state } = await jsm.streams.info(STREAMS.deadLetters.name);
  if (state.messages !== deadLetters) wrong.push(`U4 ${state.messages} dead letters, not ${deadLetters}`);
  const left = async () => {
    let consumers = 0;
    for (const stream of READ_STREAMS) consumers += (await jsm.streams.info(stream)).state.consumer_count;
    return consumers;
  };
  // Readers that were just killed are forgotten by the server after a while.
  await rig
    .until(async () => (await left()) === 0, '', 10_000)
    .catch(async () => wrong.push(`U5 ${await left()} consumers of single runs are left`));
  return wrong;
}
