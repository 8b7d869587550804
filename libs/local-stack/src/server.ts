import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onFreePort } from './ports.js';
import { waitUntilReady } from './ready.js';
import { type Exit, ServerProcess } from './server-process.js';

export interface ServerOptions {
  /** Where its data, configuration and log live; without it a temporary folder that is removed at the end. */
  dir?: string;
  /** A fixed port; without it a free one. It keeps its port when it is started again. */
  port?: number;
  /** Called when the server ends by itself. */
  onCrash?: (exit: Exit) => void;
}

/** How one kind of server is started and recognised. */
export interface ServerKind {
  name: string;
  /** Writes its configuration for this port and answers the command. */
  prepare: (port: number, dir: string) => readonly [string, ...string[]];
  /** What to send after connecting, if the server does not speak first. */
  say?: string;
  /** Does this answer prove that the process `pid` serves, and that it is ours? */
  accept: (answer: string, pid: number) => boolean;
}

/** A real server on a loopback port, which never outlives this process. */
export class Server {
  readonly port: number;
  readonly dir: string;
  readonly log: string;
  #kind: ServerKind;
  #options: ServerOptions;
  #process: ServerProcess;

  constructor(started: StartedServer) {
    this.port = started.port;
    this.dir = started.dir;
    this.log = started.log;
    this.#kind = started.kind;
    this.#options = started.options;
    this.#process = started.process;
  }

  get pid(): number {
    return this.#process.pid;
  }

  get running(): boolean {
    return this.#process.running;
  }

  /** Ends it politely and waits until it is gone; a temporary folder goes with it. */
  async stop(): Promise<void> {
    await this.#process.stop();
    // The guardian did it already, unless the server had ended before.
    if (this.#options.dir === undefined) removeTemporary(this.dir);
  }

  /** SIGKILL, as a power cut would: the data stay for `startAgain`. */
  async kill(): Promise<void> {
    await this.#process.kill();
  }

  /** Starts it again on the same port and data after `kill`, or after it ended by itself. */
  async startAgain(): Promise<void> {
    if (this.#process.running) throw new Error(`${this.#kind.name} is running`);
    this.#process = await launch(this.#kind, this.port, this.dir, this.log, this.#options);
  }

  /** SIGHUP, SIGSTOP, SIGCONT and the like. */
  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }
}

export interface StartedServer {
  kind: ServerKind;
  options: ServerOptions;
  process: ServerProcess;
  port: number;
  dir: string;
  log: string;
}

const temporary = new Set<string>();
let removesAtExit = false;

function temporaryFolder(name: string): string {
  const dir = mkdtempSync(join(tmpdir(), `yardmaster-${name}-`));
  // A server that was killed and not started again has no guardian any more to do this.
  if (!removesAtExit) process.once('exit', () => temporary.forEach(tryToRemove));
  removesAtExit = true;
  temporary.add(dir);
  return dir;
}

function tryToRemove(dir: string): void {
  try {
    removeTemporary(dir);
  } catch {
    // Its server still writes there: its guardian removes the folder once it has ended it.
  }
}

function removeTemporary(dir: string): void {
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  temporary.delete(dir);
}

/** Starts a server and waits until it serves. Throws `PortTaken` for a fixed port in use, else an error with its last words. */
export async function startServer(kind: ServerKind, options: ServerOptions): Promise<StartedServer> {
  const dir = options.dir ?? temporaryFolder(kind.name);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const log = join(dir, `${kind.name}.log`);
  if (existsSync(log)) renameSync(log, `${log}.1`); // the log of the time before is kept, those before that are not
  const start = async (port: number): Promise<StartedServer> => ({
    kind,
    options,
    process: await launch(kind, port, dir, log, options),
    port,
    dir,
    log,
  });
  try {
    return await (options.port === undefined ? onFreePort(start) : start(options.port));
  } catch (error) {
    if (options.dir === undefined) removeTemporary(dir);
    throw error;
  }
}

async function launch(kind: ServerKind, port: number, dir: string, log: string, options: ServerOptions) {
  let up = false;
  const server = await ServerProcess.start({
    command: kind.prepare(port, dir),
    log,
    cwd: dir,
    // A start that fails is an error of the caller's `await`, not a crash.
    onCrash: (exit) => {
      if (up) options.onCrash?.(exit);
    },
    ...(options.dir === undefined && { removeAtEnd: dir }),
  });
  await waitUntilReady(server, {
    name: kind.name,
    port,
    log,
    kept: options.dir !== undefined,
    ...(kind.say !== undefined && { say: kind.say }),
    accept: (answer) => kind.accept(answer, server.pid),
  });
  up = true;
  return server;
}
