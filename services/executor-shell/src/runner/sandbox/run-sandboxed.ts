import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { type Readable, type Writable } from 'node:stream';
import { isAlive, SECCOMP_FILE, type TreeUsage, treeUsage } from '@yardmaster/guard';
import { type FifoPool } from '../collect/fifo-pool.js';
import { type Kept, StreamCollector } from '../collect/stream-collector.js';
import { dataLimitKb } from './bwrap-arguments.js';
import { type CommandCgroup } from './cgroups.js';
import { endMarked, MARK, newMark } from './leftovers.js';

/** How a child is started: `arguments` may name the descriptors below. */
export interface Launch {
  program: string;
  args: string[];
  /** Empty for bubblewrap (it clears the environment itself); the whole environment in mode pod. */
  env: Record<string, string>;
  cwd?: string;
  /** Whether the child is bubblewrap, which says on a descriptor who runs inside. */
  sandbox: 'bwrap' | 'none';
}

/** Descriptors of the child, named in the arguments of bubblewrap. */
export const CHILD_FDS = { script: 3, seccomp: 4, status: 5 } as const;

export interface RunLimits {
  timeoutMs: number;
  silenceMs: number;
  outputBytes: number;
  outputTotalBytes: number;
  memoryMb: number;
  pids: number;
  diskMb: number;
  openFiles: number;
}

export interface Outcome {
  exitCode: number | null;
  signal: string | null;
  killedReason: string | null;
  stdout: Kept;
  stderr: Kept;
  bytes: { stdout: number; stderr: number };
  peakRss: number | null;
  cpuMs: number | null;
  durationMs: number;
  /** Processes seen at the last look, as numbered outside. */
  pids: number[];
  /** Set when the command never ran. */
  failure: string | null;
}

export interface RunHandle {
  readonly done: Promise<Outcome>;
  /** Ends the whole tree; the first reason counts. */
  kill(reason: string): void;
  /** Output so far. */
  peek(): { stdout: Kept; stderr: Kept; bytes: { stdout: number; stderr: number } };
  /** CPU so far as last sampled, in ms. */
  cpuMs(): number;
}

const PIPES_GRACE_MS = 500;
const KILL_GRACE_MS = 2000;
const SAMPLE_FIRST_MS = 40;
const READ_BYTES = 65_536;
/** Buffers of ended commands for the next ones: made anew for each they are most of what the collector has to do. */
const MOST_SPARE_BUFFERS = 32;
const spareBuffers: Buffer[] = [];
const SAMPLE_MS = 100;

// Joins the cgroups, then becomes the program.
const JOIN = `n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; n=$((n-1)); done
exec "$@"`;
// The same limits as guard's sandbox/rootfs/limits.sh sets in a sandbox, for mode pod; `ulimit -f` counts 512 bytes here.
const LIMIT = `ulimit -c 0; ulimit -n "$1" 2>/dev/null; ulimit -f "$2" 2>/dev/null; ulimit -d "$3" 2>/dev/null
echo 500 2>/dev/null > /proc/self/oom_score_adj
shift 3; exec "$@"`;

/** What is started, with what has to happen before it. */
function startCommand(launch: Launch, limits: RunLimits, joinFiles: readonly string[]): [string, string[]] {
  let command = [launch.program, ...launch.args];
  if (launch.sandbox === 'none')
    command = [
      '/bin/sh',
      '-c',
      LIMIT,
      'start',
      String(limits.openFiles),
      String(limits.diskMb * 2048),
      String(dataLimitKb(limits.memoryMb)),
      ...command,
    ];
  if (joinFiles.length > 0)
    command = ['/bin/sh', '-c', JOIN, 'start', String(joinFiles.length), ...joinFiles, ...command];
  const [program, ...args] = command;
  return [program!, args];
}

/**
 * Runs a program with the script on a descriptor, real pipes, limits and a deadline, and ends its whole tree in every case.
 * Rejects only when no process could be started at all.
 */
export async function runSandboxed(options: {
  launch: Launch;
  script: string;
  limits: RunLimits;
  fifos: FifoPool;
  cgroup: CommandCgroup | null;
  onOutput?: ((stream: 'stdout' | 'stderr', text: string) => void) | undefined;
  /** Hand on all output as it comes, not only its beginning. */
  streamAll?: boolean;
  /** Mode pod: how to end what has left the tree. */
  sweep?: (() => void) | undefined;
  /** Told how far it is; see `fault-points.ts`. */
  at?: ((point: 'pipes-open' | 'spawned' | 'output' | 'exited', pid?: number) => void) | undefined;
}): Promise<RunHandle> {
  const { launch, limits, cgroup } = options;
  const startedAt = performance.now();
  const out = await options.fifos.take();
  const err = await options.fifos.take().catch((error: unknown) => {
    closeSync(out.readFd);
    closeSync(out.writeFd);
    throw error;
  });
  let seccomp: number | undefined;
  let child: ChildProcess;
  const mark = newMark();
  try {
    options.at?.('pipes-open');
    seccomp = openSync(SECCOMP_FILE, 'r');
    const [program, args] = startCommand(launch, limits, cgroup?.joinFiles ?? []);
    child = spawn(program, args, {
      stdio:
        launch.sandbox === 'none'
          ? ['ignore', out.writeFd, err.writeFd]
          : ['ignore', out.writeFd, err.writeFd, 'pipe', seccomp, 'pipe'],
      env: launch.sandbox === 'bwrap' ? { ...launch.env, [MARK]: mark } : launch.env,
      detached: launch.sandbox === 'none',
      ...(launch.cwd === undefined ? {} : { cwd: launch.cwd }),
    });
  } catch (error) {
    closeSync(out.readFd);
    closeSync(err.readFd);
    throw error;
  } finally {
    closeSync(out.writeFd);
    closeSync(err.writeFd);
    if (seccomp !== undefined) closeSync(seccomp);
  }
  try {
    options.at?.('spawned', child.pid);
    return new Run(child, mark, out.readFd, err.readFd, startedAt, options);
  } catch (error) {
    // Nobody reads from it yet, so nothing of it can be told: it ends as if it had not been started.
    closeSync(out.readFd);
    closeSync(err.readFd);
    await abandon(child, launch);
    await endMarked(mark);
    throw error;
  }
}

/** Ends a child that no run looks after, and waits until it is gone. */
async function abandon(child: ChildProcess, launch: Launch): Promise<void> {
  for (const stream of child.stdio) stream?.on('error', () => undefined).destroy();
  await new Promise<void>((resolve) => {
    child.once('error', () => resolve());
    child.once('exit', () => resolve());
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return resolve();
    if (launch.sandbox === 'none') killGroup(child.pid);
    child.kill('SIGKILL');
  });
}

class Run implements RunHandle {
  readonly done: Promise<Outcome>;
  readonly #child: ChildProcess;
  readonly #mark: string;
  readonly #options: Parameters<typeof runSandboxed>[0];
  readonly #collectors: { stdout: StreamCollector; stderr: StreamCollector };
  #killedReason: string | null = null;
  /** What broke in this process while the command ran. */
  #fault: Error | null = null;
  #exited = false;
  /** First process inside the sandbox, as seen from here. */
  #inner: number | null = null;
  #innerExit: number | null = null;
  #peakRss = 0;
  #sampled = false;
  #cpuMs = 0;
  #pids: number[] = [];
  #lastOutputAt = performance.now();
  #statusText = '';
  #timers: NodeJS.Timeout[] = [];

  constructor(
    child: ChildProcess,
    mark: string,
    outFd: number,
    errFd: number,
    startedAt: number,
    options: Parameters<typeof runSandboxed>[0],
  ) {
    this.#child = child;
    this.#mark = mark;
    this.#options = options;
    const { limits } = options;
    this.#collectors = {
      stdout: new StreamCollector(limits.outputBytes, options.streamAll),
      stderr: new StreamCollector(limits.outputBytes, options.streamAll),
    };
    const readers = [this.#read('stdout', outFd), this.#read('stderr', errFd)];
    this.done = this.#finish(readers, startedAt);
    if (child.pid !== undefined) {
      try {
        setPriority(child.pid, 2);
      } catch {
        // already gone
      }
    }
    if (options.launch.sandbox === 'bwrap') {
      (child.stdio[CHILD_FDS.script] as Writable).on('error', () => undefined);
      const status = statusStream(child);
      status.on('error', () => undefined);
      status.on('data', (chunk: Buffer) => this.#onStatus(chunk.toString()));
    }
    this.#timers.push(setTimeout(() => this.kill('timeout'), limits.timeoutMs));
    this.#timers.push(setTimeout(() => this.#sample(), SAMPLE_FIRST_MS));
  }

  kill(reason: string): void {
    if (this.#exited || this.#killedReason !== null) return;
    this.#killedReason = reason;
    this.#endTree();
    // bwrap ends when its first process inside has ended and with it the pid namespace; it is ended itself only when
    // that does not happen, or when nobody is inside yet.
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), this.#inner === null ? 300 : KILL_GRACE_MS);
    this.#timers.push(timer);
  }

  peek(): { stdout: Kept; stderr: Kept; bytes: { stdout: number; stderr: number } } {
    return {
      stdout: this.#collectors.stdout.snapshot(false),
      stderr: this.#collectors.stderr.snapshot(false),
      bytes: { stdout: this.#collectors.stdout.total, stderr: this.#collectors.stderr.total },
    };
  }

  cpuMs(): number {
    return this.#cpuMs;
  }

  #usage(): TreeUsage | null {
    const root = this.#root();
    return root === null || this.#exited ? null : treeUsage(root);
  }

  #root(): number | null {
    return this.#inner ?? (this.#options.launch.sandbox === 'none' ? (this.#child.pid ?? null) : null);
  }

  #endTree(): void {
    if (this.#options.launch.sandbox === 'none') {
      if (this.#child.pid !== undefined) killGroup(this.#child.pid);
      this.#options.sweep?.();
    } else if (this.#inner !== null) killPid(this.#inner);
  }

  #onStatus(text: string): void {
    this.#statusText = (this.#statusText + text).slice(-4096);
    if (this.#inner === null) {
      const pid = /"child-pid": (\d+)/.exec(this.#statusText)?.[1];
      if (pid !== undefined) {
        this.#inner = Number(pid);
        if (this.#killedReason !== null) this.#endTree();
        // Not before: from here on bubblewrap ends with this process, so a command whose runner is killed while it is
        // being started never begins, instead of running on with nobody to end it.
        (this.#child.stdio[CHILD_FDS.script] as Writable).end(this.#options.script);
      }
    }
    const code = /"exit-code": (\d+)/.exec(this.#statusText)?.[1];
    if (code !== undefined) this.#innerExit = Number(code);
  }

  /** Drains one stream into one reused buffer until every writer is gone. */
  #read(stream: 'stdout' | 'stderr', fd: number): { closed: Promise<void>; stop: () => void } {
    const { limits, onOutput } = this.#options;
    let socket: Socket;
    const memory = spareBuffers.pop() ?? Buffer.allocUnsafeSlow(READ_BYTES);
    const closed = new Promise<void>((resolve) => {
      socket = new Socket({
        fd,
        readable: true,
        writable: false,
        onread: {
          buffer: memory,
          callback: (count: number, buffer: Uint8Array): boolean => {
            this.#lastOutputAt = performance.now();
            try {
              this.#options.at?.('output', this.#child.pid);
              const text = this.#collectors[stream].push(buffer.subarray(0, count));
              if (text !== '') onOutput?.(stream, text);
            } catch (error) {
              this.#fault ??= error as Error;
              this.kill('fault');
            }
            if (this.#collectors.stdout.total + this.#collectors.stderr.total > limits.outputTotalBytes)
              this.kill('output');
            return true;
          },
        },
      } as ConstructorParameters<typeof Socket>[0]);
      socket.on('error', () => resolve());
      socket.on('close', () => {
        // Nothing reads into it any more; what was kept of it has been copied.
        if (spareBuffers.length < MOST_SPARE_BUFFERS) spareBuffers.push(memory);
        resolve();
      });
      // With `onread` nothing flows through the stream itself, but its end is still announced there.
      socket.on('end', () => socket.destroy());
      socket.resume();
    });
    return { closed, stop: () => socket.destroy() };
  }

  #sample(): void {
    if (this.#exited) return;
    const { limits, cgroup } = this.#options;
    const usage = this.#usage();
    if (usage !== null) {
      this.#sampled = true;
      this.#pids = usage.pids;
      this.#peakRss = Math.max(this.#peakRss, usage.rssBytes);
      this.#cpuMs = Math.max(this.#cpuMs, usage.cpuMs);
      if (usage.rssBytes > limits.memoryMb * 1024 * 1024) this.kill('memory');
      if (usage.pids.length > limits.pids + 4) this.kill('pids');
    }
    if (cgroup !== null && cgroup.usage().oomKills > 0) this.kill('memory');
    if (limits.silenceMs > 0 && performance.now() - this.#lastOutputAt > limits.silenceMs) this.kill('silence');
    const next = SAMPLE_MS * (usage !== null && usage.pids.length > 64 ? 3 : 1);
    this.#timers.push(setTimeout(() => this.#sample(), next));
    if (this.#timers.length > 16) this.#timers.splice(1, this.#timers.length - 8);
  }

  async #finish(readers: { closed: Promise<void>; stop: () => void }[], startedAt: number): Promise<Outcome> {
    const child = this.#child;
    const { cgroup, launch } = this.#options;
    const { code, signal, error } = await new Promise<{
      code: number | null;
      signal: string | null;
      error: Error | null;
    }>((resolve) => {
      child.once('error', (failure) => resolve({ code: null, signal: null, error: failure }));
      // `exit`, not `close`: whoever still holds a pipe must not delay the result.
      child.once('exit', (exitCode, exitSignal) => resolve({ code: exitCode, signal: exitSignal, error: null }));
    });
    this.#exited = true;
    for (const timer of this.#timers) clearTimeout(timer);
    if (launch.sandbox === 'none') this.#endTree();
    else if (this.#inner !== null && isAlive(this.#inner)) killPid(this.#inner);
    let grace: NodeJS.Timeout | undefined;
    try {
      this.#options.at?.('exited', child.pid);
      const late = new Promise<void>((resolve) => (grace = setTimeout(resolve, PIPES_GRACE_MS)));
      const status = launch.sandbox === 'bwrap' ? statusStream(child) : null;
      const statusClosed = new Promise<void>((resolve) =>
        status === null || status.destroyed ? resolve() : status.once('close', () => resolve()),
      );
      await Promise.race([Promise.all([...readers.map((reader) => reader.closed), statusClosed]), late]);
    } finally {
      clearTimeout(grace);
      for (const reader of readers) reader.stop();
      for (const stream of child.stdio) stream?.destroy();
    }
    // It was killed before it could say whom it had started.
    if (launch.sandbox === 'bwrap' && this.#inner === null && signal !== null) await endMarked(this.#mark);
    if (this.#fault !== null) throw this.#fault;
    const group = cgroup?.usage();
    const exitCode = launch.sandbox === 'bwrap' ? this.#innerExit : code !== null ? code : null;
    let killedReason = this.#killedReason;
    if (killedReason === null && (group?.oomKills ?? 0) > 0 && exitCode !== 0) killedReason = 'memory';
    let failure: string | null = error === null ? null : error.message;
    if (failure === null && launch.sandbox === 'bwrap' && this.#innerExit === null && killedReason === null) {
      const said = this.#collectors.stderr.snapshot(false).head.toString().trim().slice(-500);
      const how = `${signal ?? `exit ${code}`}`;
      failure =
        this.#inner === null
          ? `the sandbox did not start (${how})${said ? `: ${said}` : ''}`
          : `the sandbox was ended from outside, and the command with it (${how})${said ? `: ${said}` : ''}`;
    }
    return {
      exitCode,
      signal: launch.sandbox === 'none' ? signal : null,
      killedReason,
      stdout: this.#collectors.stdout.snapshot(true),
      stderr: this.#collectors.stderr.snapshot(true),
      bytes: { stdout: this.#collectors.stdout.total, stderr: this.#collectors.stderr.total },
      peakRss: group?.peakBytes ?? (this.#sampled ? this.#peakRss : null),
      cpuMs: group?.cpuMs ?? (this.#sampled ? this.#cpuMs : null),
      durationMs: performance.now() - startedAt,
      pids: this.#pids,
      failure,
    };
  }
}

/** The types know five descriptors only. */
function statusStream(child: ChildProcess): Readable {
  return (child.stdio as unknown as Readable[])[CHILD_FDS.status]!;
}

function killPid(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // already gone
  }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // already gone
  }
}
