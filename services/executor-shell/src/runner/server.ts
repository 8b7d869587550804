import { chmodSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { readJsonLines } from '../json-lines.js';
import { type CommandRequest, type RunnerFrame, type RunnerRequest, type RunnerStatus } from '../runner-protocol.js';
import { QueueFull } from './fair-queue.js';
import { type Pipeline } from './pipeline.js';
import { type Jobs } from './track/jobs.js';

/** Output frames are joined for so long, so that a chatty command does not cost a message a line. */
const OUTPUT_JOIN_MS = 40;
/** Frames for a reader that does not read are dropped; the result holds what it missed. */
const MOST_UNREAD_BYTES = 4 * 1024 * 1024;

export interface RunnerParts {
  pipeline: Pipeline;
  jobs: Jobs;
  status: () => RunnerStatus;
  /** Called once for a `drain` request. */
  drain: (graceMs: number | undefined) => Promise<void>;
}

/** Serves the requests of `runner-protocol.ts` on a unix socket. */
export class RunnerServer {
  readonly #server: Server;
  readonly #path: string;
  readonly #sockets = new Set<Socket>();
  #parts: RunnerParts | undefined;
  #status: () => RunnerStatus;

  constructor(path: string, status: () => RunnerStatus) {
    this.#path = path;
    this.#status = status;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  async listen(): Promise<void> {
    rmSync(this.#path, { force: true });
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#path, () => resolve());
    });
    // The executor may be another container with the same group.
    chmodSync(this.#path, 0o660);
  }

  /** From now on commands are taken; before, only the status is answered. */
  open(parts: RunnerParts): void {
    this.#parts = parts;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroySoon();
    await closed;
    rmSync(this.#path, { force: true });
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    const gone = new AbortController();
    let answered = false;
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#sockets.delete(socket);
      gone.abort(new Error('the caller went away'));
    });
    const send = (frame: RunnerFrame): void => {
      if (socket.writable) socket.write(`${JSON.stringify(frame)}\n`);
    };
    const fail = (frame: Extract<RunnerFrame, { t: 'error' }>): void => {
      send(frame);
      socket.end();
    };
    const invalid = (message: string): void =>
      fail({ t: 'error', class: 'INVALID', code: 'YM-SHELL-REQUEST', message });
    readJsonLines(
      socket,
      (value) => {
        const request = value as RunnerRequest;
        if (typeof request !== 'object' || request === null) return invalid('A request must be a JSON object.');
        if (request.op === 'cancel') return gone.abort(new Error('cancelled'));
        if (answered) return invalid('One connection carries one request.');
        answered = true;
        this.#answer(request, socket, gone.signal, send).then(
          () => socket.end(),
          (error: unknown) => {
            if (error instanceof QueueFull)
              fail({
                t: 'error',
                class: error.rule === 'draining' ? 'UNAVAILABLE' : 'EXHAUSTED',
                code: `YM-SHELL-${error.rule.toUpperCase()}`,
                message: error.message,
                retry_after_ms: error.retryAfterMs,
              });
            else fail({ t: 'error', class: 'INTERNAL', code: 'YM-SHELL-INTERNAL', message: (error as Error).message });
          },
        );
      },
      invalid,
    );
  }

  async #answer(
    request: RunnerRequest,
    socket: Socket,
    signal: AbortSignal,
    send: (frame: RunnerFrame) => void,
  ): Promise<void> {
    if (request.op === 'status') return send({ t: 'status', status: this.#status() });
    const parts = this.#parts;
    if (parts === undefined)
      return send({
        t: 'error',
        class: 'UNAVAILABLE',
        code: 'YM-SHELL-NOT-READY',
        message: 'The runner has not proved its containment; ask for its status.',
        retry_after_ms: 1000,
      });
    switch (request.op) {
      case 'run': {
        const output = new OutputJoiner((stream, text) => {
          if (socket.writableLength < MOST_UNREAD_BYTES) send({ t: 'output', stream, text });
        });
        const result = await parts.pipeline.run(command(request), {
          signal,
          onStarted: (id) => send({ t: 'started', id }),
          onOutput: (stream, text) => output.add(stream, text),
        });
        output.flush();
        return send({ t: 'result', result });
      }
      case 'start':
        return send({ t: 'job', job: await parts.jobs.start(command(request)) });
      case 'job': {
        const job = await parts.jobs.act(
          request.tenant,
          String(request.job),
          request.action,
          Number(request.after) || 0,
        );
        if (job === undefined)
          return send({
            t: 'error',
            class: 'NOT_FOUND',
            code: 'YM-SHELL-NO-JOB',
            message: `There is no job ${JSON.stringify(String(request.job).slice(0, 40))}.`,
          });
        return send({ t: 'job', job });
      }
      case 'drain':
        await parts.drain(request.grace_ms);
        return send({ t: 'drained' });
      default:
        return send({ t: 'error', class: 'INVALID', code: 'YM-SHELL-REQUEST', message: 'The operation is not known.' });
    }
  }
}

function command(request: { op: string } & CommandRequest): CommandRequest {
  const { tenant, workspace, command: text, cwd, env, limits, id } = request;
  return {
    tenant,
    workspace,
    command: text,
    ...(typeof cwd === 'string' ? { cwd } : {}),
    ...(typeof env === 'object' && env !== null ? { env } : {}),
    ...(typeof limits === 'object' && limits !== null ? { limits } : {}),
    ...(typeof id === 'string' && /^[\w.:-]{1,128}$/.test(id) ? { id: id.replace(/[^\w-]/g, '_') } : {}),
  };
}

class OutputJoiner {
  readonly #emit: (stream: 'stdout' | 'stderr', text: string) => void;
  #pending: { stream: 'stdout' | 'stderr'; text: string }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(emit: (stream: 'stdout' | 'stderr', text: string) => void) {
    this.#emit = emit;
  }

  add(stream: 'stdout' | 'stderr', text: string): void {
    const last = this.#pending.at(-1);
    if (last?.stream === stream) last.text += text;
    else this.#pending.push({ stream, text });
    this.#timer ??= setTimeout(() => this.flush(), OUTPUT_JOIN_MS);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const { stream, text } of this.#pending.splice(0)) this.#emit(stream, text);
  }
}
