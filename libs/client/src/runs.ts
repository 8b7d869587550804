import { YardError } from '@yardmaster/contracts';
import { type EventOptions, runEvents } from './event-source.js';
import { type CallOptions, type Http, pause } from './http.js';
import { paged } from './paging.js';
import {
  type Approval,
  type Decision,
  isTerminal,
  type Page,
  type Run,
  type RunEvent,
  type RunState,
  type StartRunRequest,
} from './types.js';

export interface RunFilter {
  conversation_id?: string;
  state?: RunState;
  agent?: string;
  limit?: number;
}

export interface StartOptions extends CallOptions {
  /** Made when absent, so that a start that is repeated after a lost answer starts one run. */
  idempotencyKey?: string;
}

/** A run that was started or found, with what can be done to it. */
export class RunHandle {
  constructor(
    private readonly runs: Runs,
    readonly run: Run,
  ) {}

  get id(): string {
    return this.run.id;
  }

  events(options?: EventOptions): AsyncGenerator<RunEvent, void, void> {
    return this.runs.events(this.id, options);
  }

  /** The run after its end. */
  result(options?: CallOptions): Promise<Run> {
    return this.runs.result(this.id, options);
  }

  cancel(reason?: string, options?: CallOptions): Promise<Run> {
    return this.runs.cancel(this.id, reason, options);
  }
}

const idPath = (id: string) => `/v1/runs/${encodeURIComponent(id)}`;

export class Runs {
  constructor(private readonly http: Http) {}

  /** Starts a run. Throws ApiError: INVALID with all faults, NOT_FOUND with the known names, CONFLICT, EXHAUSTED. */
  async start(request: string | StartRunRequest, options: StartOptions = {}): Promise<RunHandle> {
    const run = await this.http.json<Run>({
      method: 'POST',
      path: '/v1/runs',
      body: typeof request === 'string' ? { input: request } : request,
      headers: { 'idempotency-key': options.idempotencyKey ?? crypto.randomUUID() },
      repeatable: true,
      ...signalOf(options),
    });
    return new RunHandle(this, run);
  }

  get(id: string, options?: CallOptions): Promise<Run> {
    return this.http.json({ method: 'GET', path: idPath(id), ...signalOf(options) });
  }

  /** A handle of a run that exists. Throws NOT_FOUND. */
  async open(id: string, options?: CallOptions): Promise<RunHandle> {
    return new RunHandle(this, await this.get(id, options));
  }

  /** One page, newest first. */
  page(filter: RunFilter & { cursor?: string } = {}, options?: CallOptions): Promise<Page<Run>> {
    return this.http.json({ method: 'GET', path: '/v1/runs', query: { ...filter }, ...signalOf(options) });
  }

  /** All runs, newest first, a page at a time. */
  list(filter: RunFilter = {}, options?: CallOptions): AsyncGenerator<Run, void, void> {
    return paged((cursor) => this.page({ ...filter, ...(cursor !== undefined && { cursor }) }, options));
  }

  /** Events until the terminal one; goes on by itself after a lost connection. */
  events(id: string, options?: EventOptions): AsyncGenerator<RunEvent, void, void> {
    return runEvents(this.http, id, options);
  }

  /** A page of stored events. */
  eventPage(
    id: string,
    query: { after?: number; limit?: number } = {},
    options?: CallOptions,
  ): Promise<Page<RunEvent & { id: number }>> {
    return this.http.json({ method: 'GET', path: `${idPath(id)}/events`, query, ...signalOf(options) });
  }

  /** Waits for the end of a run and reads it. */
  async result(id: string, options?: CallOptions): Promise<Run> {
    for await (const event of this.events(id, signalOf(options))) void event;
    for (let tries = 0; ; tries++) {
      const run = await this.get(id, options);
      if (isTerminal(run.state)) return run;
      if (tries === 50)
        throw new YardError('UNAVAILABLE', 'YM-RUN-UNSETTLED', `Run ${id} has no more events and is ${run.state}.`);
      await pause(100, options?.signal);
    }
  }

  /** Throws CONFLICT when the run has ended. */
  cancel(id: string, reason?: string, options?: CallOptions): Promise<Run> {
    const body = reason === undefined ? {} : { reason };
    return this.http.json({
      method: 'POST',
      path: `${idPath(id)}/cancel`,
      body,
      repeatable: true,
      ...signalOf(options),
    });
  }

  /** Says something to the running agent. */
  steer(id: string, text: string, options?: CallOptions): Promise<{ run_id: string; n: number }> {
    return this.http.json({ method: 'POST', path: `${idPath(id)}/messages`, body: { text }, ...signalOf(options) });
  }

  async approvals(id: string, options?: CallOptions): Promise<Approval[]> {
    const page = await this.http.json<Page<Approval>>({
      method: 'GET',
      path: `${idPath(id)}/approvals`,
      ...signalOf(options),
    });
    return page.items;
  }

  /** Decides on a call. Throws CONFLICT when someone else has. */
  decide(id: string, call: string, decision: Decision, options?: CallOptions): Promise<Approval> {
    const path = `${idPath(id)}/approvals/${encodeURIComponent(call)}`;
    return this.http.json({ method: 'POST', path, body: decision, ...signalOf(options) });
  }
}

export const signalOf = (options: CallOptions | undefined): CallOptions =>
  options?.signal === undefined ? {} : { signal: options.signal };
