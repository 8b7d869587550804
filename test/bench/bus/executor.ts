// An executor of the kit with 8 slots and a tool that answers at once.
import { defineTool, serveTools } from '@yardmaster/executor-kit';
import { role } from './role.ts';

const output = 'out '.repeat(25);

await role(async ({ natsUrl, pass }) => {
  const tool = defineTool({ name: 'shell_run', description: '', effect: 'unsafe', input: {}, run: () => output });
  await serveTools({ kind: 'shell', url: natsUrl, pass, slots: 8 }, [tool]);
});
