import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BUILT_IN_EXECUTORS, YardError } from '@yardmaster/contracts';
import { type Script, startModel } from '@yardmaster/local-stack';
import { CHECKOUT, isBuilt, type StackFile, stackFile, stackIn } from './checkout.js';
import { EXIT } from '../exit-codes.js';
import { DEFAULT_API_PORT, LocalStack, type StackOptions } from './local-stack.js';
import { findModel } from './model-search.js';
import { StackError } from './stack-error.js';

export interface BringUpOptions {
  config?: string | undefined;
  provider?: string | undefined;
  apiPort?: number | undefined;
  /** Ends the start; `bringUp` rejects with its reason. */
  signal?: AbortSignal | undefined;
  onProgress: StackOptions['onProgress'];
}

export interface RunningStack {
  stack: LocalStack;
  /** How the model was found, for people. */
  modelWords: string;
  stop(): Promise<void>;
}

/** The stack that runs in this checkout, if there is one. */
export const runningStack = (): StackFile | undefined => stackIn(stackFile());

/** Ctrl-C ends everything within five seconds, also while a run is in the middle of something. */
const GRACE_MS = 3_000;
/** How many ports after the wanted one are tried. */
const MORE_PORTS = 9;

/** The wanted port or the next free one; 0 (any) when all of them are taken. */
async function freePort(wanted: number): Promise<number> {
  if (wanted === 0) return 0;
  for (let port = wanted; port <= wanted + MORE_PORTS; port++) if (await isFree(port)) return port;
  return 0;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Commands run in a sandbox or not at all. */
function findSandbox(): boolean {
  const named = process.env['YM_BWRAP'];
  if (named !== undefined && named !== '') return existsSync(named);
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'bwrap')));
}

/** Finds a model and starts everything. */
export async function bringUp(options: BringUpOptions): Promise<RunningStack> {
  if (!isBuilt()) throw new StackError('the services are not built: run "npm run build" first', 1);
  await ensureServers();
  const wanted = options.apiPort ?? DEFAULT_API_PORT;
  const apiPort = await freePort(wanted);
  if (apiPort !== wanted)
    options.onProgress({
      what: 'port',
      state: 'note',
      words: `${wanted} is in use by another program, so the API takes ${apiPort === 0 ? 'a free one' : apiPort}`,
    });
  let demo: Awaited<ReturnType<typeof startModel>> | undefined;
  const model = await findModel({ config: options.config, provider: options.provider, env: process.env }, async () => {
    demo = await startModel({ chunkDelayMs: 15, script: oneFailure() });
    return { url: demo.url };
  }).catch((error: Error) => Promise.reject(new StackError(error.message, 2)));
  const shell = findSandbox();
  if (!shell) {
    const words =
      process.platform === 'linux'
        ? 'the shell tool is off: bubblewrap (bwrap) was not found; everything else works'
        : `the shell tool is off and the file tools answer with errors: both need Linux, this is ${process.platform}; everything else works`;
    options.onProgress({ what: 'executor-shell', state: 'note', words });
  }
  try {
    const stack = await LocalStack.start({
      model,
      executors: shell ? BUILT_IN_EXECUTORS : BUILT_IN_EXECUTORS.filter((kind) => kind !== 'shell'),
      apiPort,
      graceMs: GRACE_MS,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      onProgress: options.onProgress,
    });
    return {
      stack,
      modelWords: model.words,
      async stop() {
        await stack.stop();
        await demo?.stop();
      },
    };
  } catch (error) {
    await demo?.stop();
    if (options.signal?.aborted || YardError.is(error)) throw error;
    throw new StackError(`the stack did not start: ${(error as Error).message}`, EXIT.bug);
  }
}

/** `npm start` has found the servers by now; elsewhere they are found, installed or explained in the same way. */
async function ensureServers(): Promise<void> {
  if (process.env['YM_NATS_SERVER'] && process.env['YM_REDIS_SERVER']) return;
  const setup = pathToFileURL(join(CHECKOUT, 'libs', 'local-stack', 'setup', 'servers.mjs')).href;
  const { ensureServers } = (await import(setup)) as { ensureServers: (how: { required: boolean }) => Promise<void> };
  try {
    await ensureServers({ required: true });
  } catch (error) {
    throw new StackError((error as Error).message, (error as { exitCode?: number }).exitCode ?? EXIT.bug);
  }
}

/**
 * The demo model fails once in the middle of every task while it speaks native calls, so that a failover to the other
 * dialect can be seen.
 */
function oneFailure(): Script {
  return (request) => {
    const results = request.messages.filter((message) => message.role === 'tool').length;
    return request.tools !== undefined && results === 2
      ? { status: 503, body: { error: { message: 'the demo model is overloaded (on purpose)' } } }
      : undefined;
  };
}
