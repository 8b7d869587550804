// An executor of the kit with 8 slots; its tool answers at once, as that of the floor does.
import { defineTool, serveTools } from '@yardmaster/executor-kit';

const { role } = await import(new URL('../../floors/lib/processes.mjs', import.meta.url).href);
const output = 'out '.repeat(65);

role(async ({ natsUrl, pass }: { natsUrl: string; pass: string }) => {
  const tool = defineTool({ name: 'echo', description: '', effect: 'unsafe', input: {}, run: () => output });
  const server = await serveTools({ kind: 'bench', url: natsUrl, pass, slots: 8 }, [tool]);
  return { stop: () => server.stop() };
});
