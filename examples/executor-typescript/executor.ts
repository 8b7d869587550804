// An executor of the kind "crm" with one tool. Run it beside a stack whose configuration says `executors: [crm]`:
//   YM_NATS_URL=… YM_NATS_PASSWORD_FILE=.yard/secrets/nats-executor-crm npx node examples/executor-typescript/executor.ts
import { readFileSync } from 'node:fs';
import { defineTool, serveTools } from '@yardmaster/executor-kit';

const customers: Record<number, string> = { 17: 'Ada Lovelace', 18: 'Grace Hopper' };

const find = defineTool<{ id: number }>({
  name: 'crm_find',
  description: 'Finds a customer by number.',
  // Has no default: may a call run again when nobody knows how it ended?
  effect: 'read',
  timeoutMs: 10_000,
  input: {
    type: 'object',
    properties: { id: { type: 'integer', description: 'Number of the customer' } },
    required: ['id'],
    additionalProperties: false,
  },
  run({ id }) {
    const name = customers[id];
    return name === undefined ? { ok: false, output: `There is no customer ${id}.` } : `Customer ${id}: ${name}`;
  },
});

const server = await serveTools(
  {
    kind: 'crm',
    url: process.env['YM_NATS_URL'] ?? 'nats://127.0.0.1:4222',
    pass: readFileSync(process.env['YM_NATS_PASSWORD_FILE']!, 'utf8').trim(),
    slots: 4,
  },
  [find],
);
console.log('ready');
// Takes no new calls and waits for those that run.
process.once('SIGTERM', () => void server.stop().then(() => process.exit(0)));
