import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  Bus,
  type DeadLetter,
  failpoint,
  failpointArmed,
  HandBack,
  type Log,
  matchesArgsHash,
  type WorkContext,
  type Worker,
  type WorkerCounts,
} from '@yardmaster/bus';
import {
  type Effect,
  executorAccount,
  parseExactJson,
  subjects,
  type TenantId,
  type ToolCall,
  ToolOutputSchema,
  ToolResultSchema,
  toolWork,
  YardError,
} from '@yardmaster/contracts';
import { claim } from './claim.js';
import { type CallIdentity, identityOf, salvage } from './identify.js';
import { capOutput, OUTPUT_CAP_BYTES } from './output-cap.js';
import { RunningCall } from './running-call.js';
import { type Tool, type ToolContext, type ToolOutcome } from './tool.js';

export interface ServeToolsOptions {
  /** The executor kind: names the queue, the login and the account. */
  kind: string;
  /** A connection that is there already; without it one is made from `url` and `pass`. */
  bus?: Bus;
  url?: string;
  pass?: string;
  /** Calls run at once. */
  slots: number;
  /** For tools that come and go, or differ by tenant: asked where the list has no tool of a name. */
  find?: (name: string, tenant: TenantId) => Tool | undefined;
  /** The queue's ack wait in milliseconds, as the topology was set up (30 000). */
  ackWaitMs?: number;
  log?: Log;
}

export interface ToolServer {
  readonly bus: Bus;
  readonly counts: WorkerCounts;
  /** Takes no new calls, waits for those that run, and closes the connection if it made it. */
  stop(): Promise<void>;
}

const CANCELS_KEPT = 10_000;
const DELTA_PIECE_CHARS = 16_384;

/** Runs the calls of one executor kind. Resolves when the queue is being pulled. */
export async function serveTools(options: ServeToolsOptions, tools: readonly Tool[]): Promise<ToolServer> {
  const byName = new Map<string, Tool>();
  for (const tool of tools) {
    if (byName.has(tool.name)) throw new TypeError(`Two tools are called ${tool.name}.`);
    byName.set(tool.name, tool);
  }
  const bus = options.bus ?? (await connectAs(options));
  const server = new Executor(bus, options, byName);
  await bus.flush();
  return server;
}

function connectAs({ kind, url, pass, log }: ServeToolsOptions): Promise<Bus> {
  if (url === undefined) throw new TypeError('serveTools needs a bus or the url of a NATS server.');
  return Bus.connect({ url, user: executorAccount(kind).user, pass, log });
}

class Executor implements ToolServer {
  readonly bus: Bus;
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #find: ServeToolsOptions['find'];
  readonly #log: Log;
  readonly #id = `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`;
  readonly #worker: Worker;
  readonly #running = new Map<string, Set<RunningCall>>();
  readonly #cancelled = new Set<string>();
  readonly #deaf: () => void;
  readonly #ownsBus: boolean;
  readonly #ackWaitMs: number;
  /** What is being worked on, by place in the queue: a message delivered to us again while it runs is waited for. */
  readonly #begun = new Map<number, Promise<void>>();
  #stopping: Promise<void> | undefined;

  constructor(
    bus: Bus,
    { kind, slots, ackWaitMs = 30_000, bus: given, log, find }: ServeToolsOptions,
    tools: ReadonlyMap<string, Tool>,
  ) {
    this.bus = bus;
    this.#tools = tools;
    this.#find = find;
    this.#log = log ?? bus.log;
    this.#ownsBus = given === undefined;
    this.#ackWaitMs = ackWaitMs;
    this.#deaf = bus.hearRaw('ym.cancel.>', (message) => this.#cancel(message.subject));
    this.#worker = bus.work(toolWork(kind), (call, context) => this.#once(call, context), {
      slots,
      ackWaitMs,
      // Every tool has a time-out of its own; this is for those that do not honour it.
      ceilingMs: 24 * 3_600_000,
      onDead: (letter) => this.#bury(letter),
    }) as unknown as Worker;
  }

  get counts(): WorkerCounts {
    return this.#worker.counts;
  }

  stop(): Promise<void> {
    return (this.#stopping ??= (async () => {
      await this.#worker.stop();
      this.#deaf();
      if (this.#ownsBus) await this.bus.close();
    })());
  }

  #cancel(subject: string): void {
    const run = subject.slice('ym.cancel.'.length);
    // Remembered, because calls of the run may still be in the queue.
    this.#cancelled.add(run);
    if (this.#cancelled.size > CANCELS_KEPT)
      for (const oldest of this.#cancelled) {
        this.#cancelled.delete(oldest);
        break;
      }
    for (const call of this.#running.get(run) ?? []) call.end(cancelledError());
  }

  #once(call: ToolCall, context: WorkContext): Promise<void> {
    const { streamSequence } = context;
    const begun = this.#begun.get(streamSequence);
    if (begun !== undefined) return begun;
    const done = this.#work(call, context).finally(() => this.#begun.delete(streamSequence));
    this.#begun.set(streamSequence, done);
    return done;
  }

  async #work(call: ToolCall, context: WorkContext): Promise<void> {
    const identity = identityOf(call, context.tenant);
    if (identity === undefined)
      throw new YardError(
        'INVALID',
        'YM-CALL-IDENTITY',
        'The call names no run, call or nonce that can be part of a subject.',
      );
    const refuse = (text: string) =>
      this.#publish(identity, { ok: false, reason: 'refused', output: text }, context.json);
    if (call.tenant !== '' && call.tenant !== context.tenant)
      return refuse('The call belongs to another tenant than its queue.');
    if (!matchesArgsHash(call.argumentsJson, call.argsHash))
      return refuse('The arguments are not those that were approved: their hash differs.');
    const tool = this.#tools.get(call.name) ?? this.#find?.(call.name, context.tenant);
    if (tool === undefined) {
      const text = `This executor has no tool "${call.name}". It has: ${[...this.#tools.keys()].join(', ')}.`;
      throw new GivenUp('YM-TOOL-UNKNOWN', text, { ok: false, reason: 'refused', output: text });
    }
    let args: unknown;
    try {
      args = parseExactJson(call.argumentsJson);
    } catch {
      args = undefined;
    }
    if (typeof args !== 'object' || args === null || Array.isArray(args))
      return refuse('The arguments are no JSON object.');

    if (this.#cancelled.has(`${context.tenant}.${call.runId}`))
      return this.#publish(
        identity,
        { ok: false, reason: 'cancelled', output: 'Cancelled before it began.' },
        context.json,
      );
    const effect = strictest(tool.effect, call.effect);
    const verdict = await claim(this.bus, identity, effect, {
      executor: this.#id,
      streamSequence: context.streamSequence,
      deliverySequence: context.deliverySequence,
      deliveryCount: context.deliveryCount,
      afterOutage: performance.now() - (this.bus.reconnectedAt ?? -Infinity) < 2 * this.#ackWaitMs,
    });
    if (verdict.is === 'in-doubt') throw new HandBack(this.#ackWaitMs / 2);
    if (verdict.is === 'duplicate') return;
    if (verdict.is === 'given-up') {
      this.#log.warn(
        { run: call.runId, call: call.callId, tool: call.name, attempts: verdict.attempts },
        'a call was interrupted',
      );
      const outcome = interrupted(effect, verdict.attempts);
      // An unsafe call that was interrupted once is an accident; one that outlives no executor is a poisoned message.
      if (effect !== 'unsafe') throw new GivenUp('YM-CALL-INTERRUPTED', outcome.output, outcome);
      return this.#publish(identity, outcome, context.json);
    }
    failpoint('executor.claimed');
    const startedAt = performance.now();
    const outcome = await this.#runTool(tool, call, args as Record<string, unknown>, effect, verdict.attempt, context);
    failpoint('executor.effect.done');
    await this.#publish(
      identity,
      { ...outcome, attempt: verdict.attempt, durationMs: Math.round(performance.now() - startedAt) },
      context.json,
    );
    failpoint('executor.result.published');
  }

  async #runTool(
    tool: Tool,
    call: ToolCall,
    args: Record<string, unknown>,
    effect: Effect,
    attempt: number,
    work: WorkContext,
  ): Promise<ToolOutcome> {
    const run = `${work.tenant}.${call.runId}`;
    // The cancel may have come while the call was claimed.
    if (this.#cancelled.has(run)) return { ok: false, reason: 'cancelled', output: 'Cancelled before it began.' };
    const timeoutMs = call.timeoutMs > 0 ? call.timeoutMs : tool.timeoutMs;
    const running = new RunningCall();
    const calls = this.#running.get(run) ?? new Set();
    this.#running.set(run, calls.add(running));
    const offsets = new Map<string, number>();
    const context: ToolContext = {
      tenant: work.tenant,
      runId: call.runId,
      callId: call.callId,
      conversationId: call.conversationId,
      workspace: call.workspace,
      attempt,
      timeoutMs,
      trace: work.trace,
      get signal() {
        return running.signal;
      },
      call,
      output: (stream, text) => this.#show(call, work, offsets, stream, text),
    };
    const fault = failpointArmed('executor.command.running')
      ? setTimeout(() => failpoint('executor.command.running'), 300)
      : undefined;
    try {
      const result = await running.run(
        () => tool.run(args, context),
        timeoutMs,
        () => new YardError('TIMEOUT', 'YM-TOOL-TIMEOUT', `Ended after ${timeoutMs} ms: the time for this call is up.`),
      );
      return typeof result === 'string' ? { output: result } : result;
    } catch (error) {
      return failure(error, running.reason, effect, this.#log);
    } finally {
      clearTimeout(fault);
      calls.delete(running);
      if (calls.size === 0) this.#running.delete(run);
    }
  }

  #show(
    call: ToolCall,
    { tenant, trace }: WorkContext,
    offsets: Map<string, number>,
    stream: string,
    text: string,
  ): void {
    const subject = subjects.delta(tenant, call.runId);
    let offset = offsets.get(stream) ?? 0;
    for (let at = 0; at < text.length; at += DELTA_PIECE_CHARS) {
      const piece = text.slice(at, at + DELTA_PIECE_CHARS);
      try {
        this.bus.publish(
          subject,
          ToolOutputSchema,
          { callId: call.callId, stream, text: piece, offset: BigInt(offset) },
          { trace, named: 'ToolOutput' },
        );
      } catch {
        return; // the connection is closing; what is shown while it runs may be lost
      }
      offset += piece.length;
    }
    offsets.set(stream, offset);
  }

  /** Stores the result. Another that is there already counts, so `exists` is as good. */
  async #publish(
    { tenant, runId, callId, nonce, argsHash, historySeq }: CallIdentity,
    outcome: ToolOutcome & { attempt?: number; durationMs?: number },
    json: boolean,
  ): Promise<void> {
    const subject = subjects.result(tenant, runId, callId, nonce);
    const ok = outcome.ok ?? true;
    for (let tries = 0, cap = OUTPUT_CAP_BYTES; ; tries++) {
      const { output, cutChars } = capOutput(outcome.output, cap);
      const result: MessageInitShape<typeof ToolResultSchema> = {
        runId,
        callId,
        argsHash,
        historySeq,
        ok,
        output,
        reason: ok ? '' : (outcome.reason ?? 'failed'),
        attempt: outcome.attempt ?? 0,
        durationMs: outcome.durationMs ?? 0,
        verdictJson: this.#verdict(outcome.verdict),
        outcomeUnknown: outcome.outcomeUnknown ?? false,
        outputCutChars: BigInt(cutChars + (outcome.outputCutChars ?? 0)),
      };
      try {
        await this.bus.publishOnce(subject, ToolResultSchema, result, { json });
        return;
      } catch (error) {
        if (!YardError.is(error)) throw error;
        // JSON escapes can make six bytes of one.
        if (error.code === 'YM-MESSAGE-TOO-LARGE' && cap > 1_000) cap /= 6;
        else if ((error.class === 'TIMEOUT' || error.class === 'UNAVAILABLE') && !this.bus.isClosed()) {
          // The tool has run: losing its result would be worse than any wait. The message is kept alive meanwhile.
          if (tries % 10 === 0) this.#log.warn({ subject, err: error }, 'a result cannot be stored yet');
          await sleep(Math.min(200 * 2 ** tries, 5_000));
        } else throw error;
      }
    }
  }

  #verdict(verdict: Record<string, unknown> | undefined): string {
    if (verdict === undefined) return '';
    const text = JSON.stringify(verdict);
    if (text.length <= OUTPUT_CAP_BYTES / 4) return text;
    this.#log.warn({ chars: text.length }, 'a verdict is too large and was left out');
    return '{"left_out":"too large"}';
  }

  /** Whoever waits for the call is told, if it can be read who that is; then the message goes to the dead letters. */
  async #bury(letter: DeadLetter): Promise<void> {
    const { tenant, data, json, reason } = letter;
    const identity = identityOf(salvage(data, json), tenant);
    if (identity !== undefined) {
      const output = reason.code === 'YM-UNDECODABLE' ? 'The call could not be read by the executor.' : reason.message;
      const outcome = reason instanceof GivenUp ? reason.outcome : { ok: false, reason: 'failed', output };
      await this.#publish(identity, outcome, json);
    }
    await this.bus.bury(letter);
  }
}

/** A call that becomes a dead letter, and what its run is told. */
class GivenUp extends YardError {
  readonly outcome: ToolOutcome;
  constructor(code: string, message: string, outcome: ToolOutcome) {
    super('INVALID', code, message);
    this.outcome = outcome;
  }
}

const STRICTNESS: readonly string[] = ['read', 'idempotent', 'unsafe'] satisfies Effect[];

/** The registry's word and the tool's own: whichever forbids more. A word that is none forbids most. */
function strictest(own: Effect, called: string): Effect {
  if (called === '') return own;
  const of = (effect: string) => (STRICTNESS.includes(effect) ? STRICTNESS.indexOf(effect) : 2);
  return STRICTNESS[Math.max(of(own), of(called))] as Effect;
}

const cancelledError = () => new YardError('UNAVAILABLE', 'YM-CANCELLED', 'Ended: the run was cancelled.');

function interrupted(effect: Effect, attempts: number): ToolOutcome {
  if (effect === 'unsafe')
    return {
      ok: false,
      reason: 'interrupted',
      outcomeUnknown: true,
      output: 'The executor died while this call ran. Whether it took effect is unknown; it was not started again.',
    };
  return {
    ok: false,
    reason: 'interrupted',
    outcomeUnknown: effect !== 'read',
    output: `The executor died while this call ran, ${attempts} times. It was not started again.`,
  };
}

function failure(error: unknown, ended: YardError | undefined, effect: Effect, log: Log): ToolOutcome {
  if (ended) {
    return {
      ok: false,
      reason: ended.class === 'TIMEOUT' ? 'timeout' : 'cancelled',
      output: ended.message,
      outcomeUnknown: effect === 'unsafe',
    };
  }
  if (!YardError.is(error)) log.warn({ err: error }, 'a tool threw');
  return { ok: false, reason: 'failed', output: error instanceof Error ? error.message : String(error) };
}
