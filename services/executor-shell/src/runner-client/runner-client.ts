import { connect, type Socket } from 'node:net';
import { YardError } from '@yardmaster/contracts';
import { readJsonLines } from '../json-lines.js';
import {
  type CommandRequest,
  type CommandResult,
  type JobAction,
  type JobView,
  type RunnerFrame,
  type RunnerRequest,
  type RunnerStatus,
} from '../runner-protocol.js';

export interface RunOptions {
  /** Aborting ends the command and everything it started; its result then says `cancelled`. */
  signal?: AbortSignal;
  onOutput?: (stream: 'stdout' | 'stderr', text: string) => void;
  onStarted?: (id: string) => void;
}

/** Talks to a runner over its unix socket, one connection for each request. */
export class RunnerClient {
  readonly #path: string;

  constructor(socketPath: string) {
    this.#path = socketPath;
  }

  /** Runs a command to its end. @throws YardError EXHAUSTED or UNAVAILABLE when the runner takes no command now. */
  async run(request: CommandRequest, options: RunOptions = {}): Promise<CommandResult> {
    const frame = await this.#ask({ op: 'run', ...request }, options);
    if (frame.t !== 'result') throw unexpected(frame);
    return frame.result;
  }

  /** Starts a background job. @throws YardError */
  async start(request: CommandRequest): Promise<JobView> {
    const frame = await this.#ask({ op: 'start', ...request });
    if (frame.t !== 'job') throw unexpected(frame);
    return frame.job;
  }

  /** Asks about, reads or stops a background job. @throws YardError NOT_FOUND for a job that this tenant does not have. */
  async job(tenant: string, job: string, action: JobAction, after?: number): Promise<JobView> {
    const frame = await this.#ask({ op: 'job', tenant, job, action, ...(after === undefined ? {} : { after }) });
    if (frame.t !== 'job') throw unexpected(frame);
    return frame.job;
  }

  /** What the runner proved about its containment and how busy it is. @throws YardError UNAVAILABLE */
  async status(): Promise<RunnerStatus> {
    const frame = await this.#ask({ op: 'status' });
    if (frame.t !== 'status') throw unexpected(frame);
    return frame.status;
  }

  /** Takes no new command, gives those that run `graceMs` to end, then ends them. */
  async drain(graceMs?: number): Promise<void> {
    await this.#ask({ op: 'drain', ...(graceMs === undefined ? {} : { grace_ms: graceMs }) });
  }

  #ask(request: RunnerRequest, options: RunOptions = {}): Promise<Exclude<RunnerFrame, { t: 'error' }>> {
    return new Promise((resolve, reject) => {
      const socket: Socket = connect(this.#path);
      let connected = false;
      socket.once('connect', () => (connected = true));
      const { signal } = options;
      const cancel = (): void => {
        socket.write('{"op":"cancel"}\n');
      };
      const end = (settle: () => void): void => {
        signal?.removeEventListener('abort', cancel);
        socket.destroy();
        settle();
      };
      const lost = (cause?: unknown): void => {
        end(() =>
          reject(
            !connected
              ? new YardError('UNAVAILABLE', 'YM-SHELL-RUNNER', 'The shell runner is not reachable.', {
                  cause,
                  retryAfterMs: 1000,
                })
              : new YardError(
                  'UNAVAILABLE',
                  'YM-SHELL-INTERRUPTED',
                  'The shell runner ended while it worked: what the command did is not known.',
                  { cause },
                ),
          ),
        );
      };
      socket.on('error', lost);
      socket.on('close', () => lost());
      readJsonLines(
        socket,
        (value) => {
          const frame = value as RunnerFrame;
          if (frame.t === 'output') options.onOutput?.(frame.stream, frame.text);
          else if (frame.t === 'started') options.onStarted?.(frame.id);
          else if (frame.t === 'error') {
            const { message, retry_after_ms: retryAfterMs } = frame;
            end(() =>
              reject(
                new YardError(frame.class, frame.code, message, retryAfterMs === undefined ? {} : { retryAfterMs }),
              ),
            );
          } else end(() => resolve(frame));
        },
        (why) => lost(new Error(why)),
      );
      socket.write(`${JSON.stringify(request)}\n`);
      if (signal?.aborted === true) cancel();
      else signal?.addEventListener('abort', cancel);
    });
  }
}

function unexpected(frame: RunnerFrame): YardError {
  return new YardError(
    'INTERNAL',
    'YM-SHELL-PROTOCOL',
    `The runner answered with "${frame.t}", which does not belong to the request.`,
  );
}
