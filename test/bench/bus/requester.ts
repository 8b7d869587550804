// Asks a question of 512 bytes.
import { Bus } from '@yardmaster/bus';
import { Registry, tenantId } from '@yardmaster/contracts';
import { role } from './role.ts';

const argumentsJson = JSON.stringify({ command: 'x'.repeat(480) });
const TENANT = tenantId('t0');

await role(async ({ natsUrl, user, pass }) => {
  const bus = await Bus.connect({ url: natsUrl, user, pass });
  return async () => {
    await bus.request(Registry.validate, TENANT, { name: 'shell_run', argumentsJson }, { timeoutMs: 5_000 });
  };
});
