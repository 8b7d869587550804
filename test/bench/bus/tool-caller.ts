// The dispatcher's half of a durable tool call: queue it, be woken by the result, read the stored one.
import { randomUUID } from 'node:crypto';
import { Bus } from '@yardmaster/bus';
import { argsHash } from '@yardmaster/executor-kit';
import { newId, STREAMS, subjects, tenantId, ToolCallSchema, ToolResultSchema } from '@yardmaster/contracts';
import { role, tenantOf } from './role.ts';

const argumentsJson = JSON.stringify({ command: 'x'.repeat(400) });

await role(async ({ natsUrl, user, pass }) => {
  const bus = await Bus.connect({ url: natsUrl, user, pass });
  const waiting = new Map<string, () => void>();
  const runs: string[] = [];
  let steps = 0;
  bus.hearRaw('ym.res.>', (message) => waiting.get(message.subject)?.());
  await bus.flush();
  return async (slot) => {
    const tenant = tenantId(tenantOf(slot));
    const runId = (runs[slot] ??= newId());
    const callId = `${++steps}-0`;
    const nonce = randomUUID();
    const subject = subjects.result(tenant, runId, callId, nonce);
    const woken = new Promise<void>((resolve) => waiting.set(subject, resolve));
    const call = {
      runId,
      callId,
      name: 'shell_run',
      argumentsJson,
      argsHash: argsHash(argumentsJson),
      nonce,
      tenant,
      effect: 'unsafe',
    };
    await bus.enqueue(subjects.tool('shell', tenant), ToolCallSchema, call, { msgId: `${runId}.${callId}` });
    await woken;
    waiting.delete(subject);
    // The live message only wakes, and can be faster than the store.
    for (;;) {
      const found = await bus.getStored(STREAMS.results.name, subject, ToolResultSchema);
      if (found?.message.ok) return;
      if (found) throw new Error(found.message.output);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };
});
