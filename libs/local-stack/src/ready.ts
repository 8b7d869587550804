import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerProcess } from './server-process.js';
import { PortTaken } from './ports.js';

export interface ReadyOptions {
  name: string;
  port: number;
  log: string;
  /** Will the log still be there for whoever reads the error? */
  kept: boolean;
  /** What to send after connecting; nothing when the server speaks first. */
  say?: string;
  /** True when this answer proves that it is our server, ready; false when not yet. */
  accept: (answer: string) => boolean;
  timeoutMs?: number;
}

/**
 * Waits until a server answers as ours. Throws `PortTaken` when it ended because another process has the port (the
 * answer of that other process is never accepted), an error with its last words when it ended otherwise.
 */
export async function waitUntilReady(server: ServerProcess, options: ReadyOptions): Promise<void> {
  const where = options.kept ? ` (log: ${options.log})` : '';
  const until = performance.now() + (options.timeoutMs ?? 20_000);
  for (let pause = 5; performance.now() < until; pause = Math.min(pause * 1.5, 100)) {
    if (!server.running) {
      const words = server.lastWords();
      if (/address already in use/i.test(words)) throw new PortTaken(options.port);
      throw new Error(`${options.name} ended while starting: ${words || 'it said nothing'}${where}`);
    }
    const answer = await firstAnswer(options.port, options.say);
    if (answer !== undefined && options.accept(answer)) return;
    await sleep(pause);
  }
  await server.kill();
  throw new Error(`${options.name} was not ready in time: ${server.lastWords()}${where}`);
}

function firstAnswer(port: number, say: string | undefined): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const done = (answer?: string) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(500, () => done());
    socket.once('error', () => done());
    socket.once('close', () => done());
    socket.once('data', (data) => done(data.toString()));
    if (say !== undefined) socket.once('connect', () => socket.write(say));
  });
}
