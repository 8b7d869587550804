// One thread that works on content: takes a task at a time and hands back its result, bytes moved instead of copied.
import { registerHooks } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { ContentRefusal, FromThread, Tasks, ToThread } from './tasks.js';
import type { Embed, work as Work } from './work.js';

// From source the thread runs under type stripping, where imports still name the built files.
if (import.meta.url.endsWith('.ts')) {
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier.startsWith('.') && context.parentURL?.endsWith('.ts') === true
        ? next(specifier.replace(/\.js$/, '.ts'), context)
        : next(specifier, { ...context, conditions: ['source', ...context.conditions] }),
  });
}
const { work } = (await import('./work.js')) as { work: typeof Work };

const port = parentPort!;
let asked: { resolve: (vectors: number[][] | undefined) => void; reject: (error: Error) => void } | undefined;

port.on('message', (message: ToThread) => {
  if ('vectors' in message) asked?.resolve(message.vectors);
  else if ('failed' in message) asked?.reject(new Error(message.failed));
  else void run(message);
});

async function run({ id, name, give, mayEmbed }: Extract<ToThread, { name: keyof Tasks }>): Promise<void> {
  const send = (message: FromThread, moved: ArrayBuffer[] = []) => port.postMessage(message, moved);
  const embed: Embed = (texts) =>
    new Promise((resolve, reject) => {
      asked = { resolve, reject };
      send({ id, embed: texts });
    });
  try {
    const back = await work[name](give as never, mayEmbed ? embed : undefined);
    send({ id, back }, buffersOf(back));
  } catch (error) {
    const { reason, details } = error as ContentRefusal;
    const message = error instanceof Error ? error.message : String(error);
    if (reason !== undefined) send({ id, refused: { reason, message, details } });
    else send({ id, failed: message });
  }
}

function buffersOf(back: object): ArrayBuffer[] {
  return Object.values(back).flatMap((value) => (value instanceof Uint8Array ? [value.buffer as ArrayBuffer] : []));
}
