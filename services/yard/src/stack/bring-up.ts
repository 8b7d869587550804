import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { BUILT_IN_EXECUTORS } from '@yardmaster/contracts';
import { type Script, startModel } from '@yardmaster/local-stack';
import { isBuilt, type StackFile, stackFile } from './checkout.js';
import { LocalStack, type StackOptions } from './local-stack.js';
import { findModel } from './model-search.js';

export interface BringUpOptions {
  config?: string | undefined;
  provider?: string | undefined;
  apiPort?: number | undefined;
  onProgress: StackOptions['onProgress'];
}

export interface RunningStack {
  stack: LocalStack;
  /** How the model was found, for people. */
  modelWords: string;
  stop(): Promise<void>;
}

/** A failure that its reader can do something about; its message is all that is printed. */
export class StackError extends Error {
  constructor(
    message: string,
    readonly exitCode: number,
  ) {
    super(message);
    this.name = 'StackError';
  }
}

/** Commands run in a sandbox or not at all. */
function findSandbox(): boolean {
  const named = process.env['YM_BWRAP'];
  if (named !== undefined && named !== '') return existsSync(named);
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'bwrap')));
}

/** The stack that runs in this checkout, if there is one; the file of a stack that died is no stack. */
export function runningStack(): StackFile | undefined {
  if (!existsSync(stackFile())) return undefined;
  try {
    const file = JSON.parse(readFileSync(stackFile(), 'utf8')) as StackFile;
    process.kill(file.pid, 0);
    return file;
  } catch {
    return undefined;
  }
}

/** Finds a model and starts everything. */
export async function bringUp(options: BringUpOptions): Promise<RunningStack> {
  if (!isBuilt()) throw new StackError('the services are not built: run "npm run build" first', 1);
  let demo: Awaited<ReturnType<typeof startModel>> | undefined;
  const model = await findModel({ config: options.config, provider: options.provider, env: process.env }, async () => {
    demo = await startModel({ chunkDelayMs: 15, script: oneFailure() });
    return { url: demo.url };
  }).catch((error: Error) => Promise.reject(new StackError(error.message, 2)));
  const shell = findSandbox();
  if (!shell)
    options.onProgress({
      what: 'executor-shell',
      state: 'note',
      words: `the shell tool is off: bubblewrap (bwrap) ${process.platform === 'linux' ? 'was not found' : `does not exist on ${process.platform}`}; everything else works`,
    });
  try {
    const stack = await LocalStack.start({
      model,
      executors: shell ? BUILT_IN_EXECUTORS : BUILT_IN_EXECUTORS.filter((kind) => kind !== 'shell'),
      ...(options.apiPort === undefined ? {} : { apiPort: options.apiPort }),
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
    throw error;
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
