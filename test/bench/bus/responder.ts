// Answers a question of the registry's with as much as was asked.
import { Bus } from '@yardmaster/bus';
import { Registry } from '@yardmaster/contracts';
import { role } from './role.ts';

await role(async ({ natsUrl, user, pass }) => {
  const bus = await Bus.connect({ url: natsUrl, user, pass });
  bus.serve(Registry.validate, (request) => ({ ok: true, argumentsJson: request.argumentsJson }));
  await bus.flush();
});
