import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';

/** How a server ended: its exit code, 128 + n when signal n ended it. */
export interface Exit {
  code: number;
  /** The last lines of its log. */
  lastWords: string;
}

export interface ServerProcessOptions {
  /** Program and arguments. */
  command: readonly [string, ...string[]];
  /** Its output is appended here. */
  log: string;
  cwd?: string;
  env?: NodeJS.ProcessEnv;
  /** A temporary folder that goes when the server is stopped, or when this process is gone. */
  removeAtEnd?: string;
  /** How long it may take to end after SIGTERM before it is killed, in milliseconds. */
  graceMs?: number;
  /** Called when it ends without having been asked to through `stop` or `kill`. */
  onCrash?: (exit: Exit) => void;
}

/**
 * The guardian: a shell between us and the server, which ends the server when we are gone, however we went.
 * It holds the reading end of a pipe whose only writing end is ours (Node opens it close-on-exec, so no other child
 * inherits it). When this process ends, SIGKILL included, the kernel closes the pipe, `read` sees the end of file, and
 * the server gets SIGTERM, then SIGKILL, and a temporary folder is removed. Works the same on Linux and macOS, needs no
 * polling, costs one `sh`. Its first line of output is the server's process id; its exit code is the server's.
 */
const GUARDIAN = `
log=$1; grace=$2; remove=$3; shift 3
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
gone=
trap 'gone=1' USR1
trap '' TERM INT HUP
echo "$server"
exec >/dev/null
(
  while read -r _ <&3; do :; done
  kill -USR1 $$
  kill -TERM "$server" 2>/dev/null
  while [ "$grace" -gt 0 ]; do
    sleep 0.1
    grace=$((grace - 1))
    kill -0 "$server" 2>/dev/null || exit 0
  done
  kill -KILL "$server" 2>/dev/null
) &
watch=$!
while :; do
  wait "$server"
  code=$?
  kill -0 "$server" 2>/dev/null || break
done
kill -KILL "$watch" 2>/dev/null
if [ -n "$gone" ] && [ -n "$remove" ]; then rm -rf "$remove"; fi
exit "$code"
`;

/** One server under a guardian. Never outlives this process. */
export class ServerProcess {
  readonly pid: number;
  /** Resolves when the server has ended, whatever the reason. */
  readonly exited: Promise<Exit>;
  #guardian: ChildProcess;
  #asked = false;
  #ended = false;

  private constructor(
    guardian: ChildProcess,
    pid: number,
    private readonly options: ServerProcessOptions,
    private readonly logStart: number,
  ) {
    this.#guardian = guardian;
    this.pid = pid;
    this.exited = once(guardian, 'exit').then(([code]) => {
      this.#ended = true;
      guardian.stdin?.destroy();
      const exit = { code: (code as number | null) ?? 137, lastWords: this.lastWords() };
      if (!this.#asked) options.onCrash?.(exit);
      return exit;
    });
  }

  /** Starts the server and resolves once its process exists; rejects when no process can be started at all. */
  static async start(options: ServerProcessOptions): Promise<ServerProcess> {
    const log = openSync(options.log, 'a', 0o600); // logs may name subjects and keys: not for others
    const logStart = fstatSync(log).size;
    closeSync(log);
    const grace = String(Math.ceil((options.graceMs ?? 5000) / 100));
    const args = ['-c', GUARDIAN, 'guardian', options.log, grace, options.removeAtEnd ?? '', ...options.command];
    const guardian = spawn('/bin/sh', args, {
      stdio: ['pipe', 'pipe', 'ignore'],
      cwd: options.cwd,
      env: options.env,
      // A session of its own: Ctrl-C in the terminal is for us, and we decide in which order things end.
      detached: true,
    });
    guardian.stdin?.on('error', () => {});
    const pid = await new Promise<number>((resolve, reject) => {
      guardian.once('error', reject);
      guardian.stdout?.once('data', (chunk: Buffer) => resolve(Number(chunk.toString())));
      guardian.once('exit', () => reject(new Error(`${options.command[0]} was not started`)));
    });
    // Neither keeps the event loop of a process alive that has nothing else to do.
    guardian.unref();
    for (const stream of [guardian.stdin, guardian.stdout]) (stream as unknown as { unref?: () => void })?.unref?.();
    return new ServerProcess(guardian, pid, options, logStart);
  }

  get running(): boolean {
    return !this.#ended;
  }

  /** Sends a signal that the server lives on after, such as SIGHUP for a reload. */
  signal(signal: NodeJS.Signals): void {
    if (!this.running) return;
    try {
      process.kill(this.pid, signal);
    } catch (error) {
      // It has just ended by itself, and `exited` is about to say so.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  /** Ends the server politely, with SIGKILL after the grace; resolves when it is gone. */
  async stop(): Promise<Exit> {
    this.#asked = true;
    this.#guardian.stdin?.destroy(); // the guardian takes it from here
    this.#guardian.ref();
    return this.exited;
  }

  /** Ends the server as a power cut would: SIGKILL. */
  async kill(): Promise<Exit> {
    this.#asked = true;
    this.#guardian.ref();
    this.signal('SIGKILL');
    return this.exited;
  }

  /** The last lines that it wrote since this start, for error messages. */
  lastWords(lines = 5): string {
    try {
      return readFileSync(this.options.log)
        .subarray(this.logStart)
        .toString()
        .trimEnd()
        .split('\n')
        .slice(-lines)
        .join('\n');
    } catch {
      return '';
    }
  }
}
