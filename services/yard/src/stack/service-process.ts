import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, type WriteStream } from 'node:fs';
import { createInterface } from 'node:readline';

export interface ServiceOptions {
  name: string;
  entry: string;
  env: NodeJS.ProcessEnv;
  log: string;
  /** Told each time it is ready, with its `ready` log line. */
  onReady?: (line: ReadyLine) => void;
  /** Told when it ended by itself, before it is started again. */
  onDeath?: (exit: string) => void;
}

export interface ReadyLine {
  pid: number;
  healthPort: number;
  metricsPort: number;
  ready_ms: number;
  api_url?: string;
}

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;
/** A service that lived this long has its restart wait set back. */
const STEADY_MS = 30_000;

/** One service of the stack as a process of its own, started again when it dies. */
export class ServiceProcess {
  private child: ChildProcess | undefined;
  private log: WriteStream;
  private stopping = false;
  private waitMs = FIRST_WAIT_MS;
  private again: NodeJS.Timeout | undefined;
  private patience: NodeJS.Timeout | undefined;
  private lastWords: string[] = [];
  ready: ReadyLine | undefined;

  constructor(private readonly options: ServiceOptions) {
    this.log = createWriteStream(options.log, { flags: 'a', mode: 0o600 });
  }

  get pid(): number | undefined {
    return this.child?.pid;
  }

  /** Starts it and resolves when it is ready; rejects with its last words when it ends before, or takes too long. */
  start(timeoutMs: number): Promise<ReadyLine> {
    return new Promise((resolve, reject) => {
      this.patience = setTimeout(
        () =>
          reject(
            new Error(`${this.options.name} was not ready after ${timeoutMs / 1000} s (log: ${this.options.log})`),
          ),
        timeoutMs,
      );
      this.launch(
        (line) => {
          clearTimeout(this.patience);
          resolve(line);
        },
        (exit) => {
          clearTimeout(this.patience);
          reject(new Error(`${this.options.name} ended (${exit}): ${this.lastWords.slice(-5).join('\n')}`));
        },
      );
    });
  }

  private launch(onReady: (line: ReadyLine) => void, onEarlyEnd: (exit: string) => void): void {
    const started = Date.now();
    // A group of its own: Ctrl-C is for the stack, which ends its services in order.
    const child = spawn(process.execPath, [this.options.entry], {
      env: this.options.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    // A failpoint is for the first process: the one that follows must get through.
    delete this.options.env['YM_FAILPOINT'];
    this.child = child;
    this.ready = undefined;
    this.lastWords = [];
    const keep = (line: string) => {
      this.log.write(`${line}\n`);
      this.lastWords.push(line);
      if (this.lastWords.length > 20) this.lastWords.shift();
    };
    createInterface({ input: child.stderr }).on('line', keep);
    createInterface({ input: child.stdout }).on('line', (line) => {
      keep(line);
      if (this.ready === undefined && line.includes('"msg":"ready"')) {
        this.ready = JSON.parse(line) as ReadyLine;
        onReady(this.ready);
        this.options.onReady?.(this.ready);
      }
    });
    child.once('error', (error) => onEarlyEnd(error.message));
    child.once('exit', (code, signal) => {
      const exit = signal ?? `exit code ${code}`;
      const early = this.ready === undefined;
      this.ready = undefined;
      if (this.stopping) return;
      this.options.onDeath?.(exit);
      if (early) onEarlyEnd(exit);
      this.waitMs = Date.now() - started > STEADY_MS ? FIRST_WAIT_MS : Math.min(LONGEST_WAIT_MS, this.waitMs * 2);
      this.again = setTimeout(
        () =>
          this.launch(
            () => {},
            () => {},
          ),
        early ? this.waitMs : FIRST_WAIT_MS,
      );
    });
  }

  /** Ends it politely and starts it again with these variables besides its own; resolves when it is ready. */
  async restart(env: NodeJS.ProcessEnv, graceMs: number, timeoutMs: number): Promise<ReadyLine> {
    await this.end(graceMs);
    this.stopping = false;
    Object.assign(this.options.env, env);
    return this.start(timeoutMs);
  }

  /** SIGTERM, then SIGKILL after `graceMs`; resolves when it is gone. */
  async stop(graceMs: number): Promise<void> {
    await this.end(graceMs);
    await new Promise<void>((resolve) => this.log.end(resolve));
  }

  private async end(graceMs: number): Promise<void> {
    this.stopping = true;
    clearTimeout(this.again);
    clearTimeout(this.patience);
    const { child } = this;
    if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      await gone;
      clearTimeout(timer);
    }
  }
}
