import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type CommandRequest,
  type CommandResult,
  type JobAction,
  type JobView,
  type Verdict,
} from '../../runner-protocol.js';
import { type RunnerConfig } from '../config.js';
import { newId, type Pipeline } from '../pipeline.js';
import { type RunHandle } from '../sandbox/run-sandboxed.js';
import { QueueFull } from '../fair-queue.js';
import { JobLog } from './job-log.js';

interface Job {
  id: string;
  tenant: string;
  startedAt: number;
  log: JobLog;
  handle: RunHandle | null;
  verdict: () => Verdict;
  ended: Promise<void>;
  running: boolean;
  leaseExpiresAt: number;
  /** When its log was last written to its record, and up to which byte. */
  kept: { at: number; end: number };
}

const ID = /^job_[0-9a-f]{18}$/;
const SWEEP_MS = 1000;
/** What a job has written is kept for a successor so often: what came after is lost when the runner is killed. */
const KEEP_EVERY_MS = 5000;
/** How a job ended that was not ended for its own sake, but with its runner. */
const LOST: readonly (string | null)[] = ['runner-ended', 'shutdown'];

/**
 * Commands that outlive the call that started them. Each has a lease, which asking about it renews, a longest life, a
 * bounded log, and a record on disk: a runner that starts again can say that the job was lost, and its log until some seconds before.
 */
export class Jobs {
  readonly #pipeline: Pipeline;
  readonly #config: RunnerConfig;
  readonly #dir: string;
  readonly #jobs = new Map<string, Job>();
  readonly #timer: NodeJS.Timeout;

  constructor(pipeline: Pipeline, config: RunnerConfig) {
    this.#pipeline = pipeline;
    this.#config = config;
    this.#dir = join(config.stateDir, 'jobs');
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    this.#reap();
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS).unref();
  }

  /** Starts a command in the background; a refused one is answered as an ended job with its verdict. @throws QueueFull */
  async start(request: CommandRequest): Promise<JobView> {
    const { jobs } = this.#config;
    const mine = [...this.#jobs.values()].filter((job) => job.tenant === request.tenant && job.running).length;
    if (this.running >= jobs.total) throw new QueueFull('jobs', 'Too many background jobs run: try again later.');
    if (mine >= jobs.perTenant)
      throw new QueueFull('jobs', `${mine} background jobs of this tenant run already: stop one first.`);
    const id = newId('job');
    const startedAt = Date.now();
    const limits = { ...request.limits, timeout_ms: jobs.maxMs };
    const admitted = await this.#pipeline.admit({ ...request, limits }, id);
    const log = new JobLog(jobs.logBytes);
    if ('verdict' in admitted) {
      this.#pipeline.audit(request, admitted);
      return this.#view(
        this.#add({ id, tenant: request.tenant, startedAt, log, running: false, verdict: admitted.verdict }),
        0,
      );
    }
    const validated = { ...admitted, limits: { ...admitted.limits, timeoutMs: jobs.maxMs, silenceMs: 0 } };
    const job = this.#add({
      id,
      tenant: request.tenant,
      startedAt,
      log,
      running: true,
      verdict: this.#pipeline.runningVerdict(validated, { stdout: 0, stderr: 0 }, 0),
    });
    try {
      // Registered before anything is spawned.
      this.#record(id, { tenant: request.tenant, state: 'running', startedAt });
      const { handle, done } = await this.#pipeline.start(id, validated, {
        onOutput: (_stream, text) => log.append(text),
        background: true,
      });
      job.handle = handle;
      job.verdict = () => this.#pipeline.runningVerdict(validated, handle.peek().bytes, Date.now() - startedAt);
      job.ended = done.then(
        (outcome) => this.#end(job, request, this.#pipeline.result(id, validated, outcome)),
        (error: unknown) => this.#end(job, request, this.#failed(id, job, error)),
      );
    } catch (error) {
      this.#end(job, request, this.#failed(id, job, error));
    }
    return this.#view(job, 0);
  }

  /** Looks at, reads or stops a job of this tenant; undefined when it has no such job. */
  async act(tenant: string, id: string, action: JobAction, after = 0): Promise<JobView | undefined> {
    const job = this.#jobs.get(id) ?? this.#recall(id);
    if (job === undefined || job.tenant !== tenant) return undefined;
    job.leaseExpiresAt = Date.now() + this.#config.jobs.leaseMs;
    if (action === 'stop' && job.handle !== null) {
      job.handle.kill('stopped');
      await job.ended;
    }
    return this.#view(job, after, action === 'status' ? 0 : this.#config.outputBytes.default);
  }

  get running(): number {
    return [...this.#jobs.values()].filter((job) => job.running).length;
  }

  /** Waits until the records of all ended jobs are written. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#jobs.values()].map((job) => job.ended));
  }

  #add(job: { id: string; tenant: string; startedAt: number; log: JobLog; running: boolean; verdict: Verdict }): Job {
    const { verdict, ...rest } = job;
    const added: Job = {
      ...rest,
      handle: null,
      verdict: () => verdict,
      ended: Promise.resolve(),
      leaseExpiresAt: Date.now() + this.#config.jobs.leaseMs,
      kept: { at: Date.now(), end: 0 },
    };
    this.#jobs.set(job.id, added);
    return added;
  }

  #failed(id: string, job: Job, error: unknown): CommandResult {
    const verdict: Verdict = {
      ...job.verdict(),
      status: 'error',
      stage: 'execute',
      reason: `The job could not be run: ${(error as Error).message}`,
    };
    return { id, stdout: '', stderr: '', verdict };
  }

  #end(job: Job, request: CommandRequest, result: CommandResult): void {
    job.running = false;
    job.handle = null;
    job.verdict = () => result.verdict;
    this.#pipeline.audit(request, result);
    const { output, skipped } = job.log.read(0, this.#config.jobs.logBytes);
    const { tenant, startedAt } = job;
    try {
      this.#record(job.id, { tenant, state: 'ended', startedAt, verdict: result.verdict, output, skipped });
    } catch (error) {
      // It can still be asked for while this runner lives; only a successor will take it for lost.
      this.#pipeline.note({ event: 'job-record-failed', id: job.id, error: (error as Error).message });
    }
  }

  #view(job: Job, after: number, mostBytes = this.#config.outputBytes.default): JobView {
    const lost = LOST.includes(job.verdict().killed_reason);
    return {
      job: job.id,
      state: job.running ? 'running' : lost ? 'lost' : 'ended',
      started_at: new Date(job.startedAt).toISOString(),
      lease_expires_at: job.running ? new Date(job.leaseExpiresAt).toISOString() : null,
      ...job.log.read(after, mostBytes),
      verdict: job.verdict(),
    };
  }

  #sweep(): void {
    const now = Date.now();
    for (const job of this.#jobs.values()) {
      if (job.running && now > job.leaseExpiresAt) job.handle?.kill('lease');
      else if (job.running) this.#keep(job, now);
      else if (!job.running && now > job.leaseExpiresAt + this.#config.jobs.keepMs) {
        this.#jobs.delete(job.id);
        rmSync(join(this.#dir, job.id), { force: true });
      }
    }
  }

  /** Writes the newest output of a running job to its record. */
  #keep(job: Job, now: number): void {
    const { id, tenant, startedAt, log, kept } = job;
    if (log.end === kept.end || now - kept.at < KEEP_EVERY_MS) return;
    job.kept = { at: now, end: log.end };
    const { output, skipped } = log.read(0, this.#config.outputBytes.default);
    try {
      this.#record(id, { tenant, state: 'running', startedAt, output, skipped });
    } catch (error) {
      this.#pipeline.note({ event: 'job-record-failed', id, error: (error as Error).message });
    }
  }

  #record(id: string, content: Record<string, unknown>): void {
    const path = join(this.#dir, id);
    try {
      writeFileSync(`${path}.new`, JSON.stringify(content), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch (error) {
      rmSync(`${path}.new`, { force: true });
      throw error;
    }
  }

  /** An ended or lost job of an earlier runner, from its record. */
  #recall(id: string): Job | undefined {
    if (!ID.test(id)) return undefined;
    try {
      const saved = JSON.parse(readFileSync(join(this.#dir, id), 'utf8')) as {
        tenant: string;
        startedAt: number;
        verdict?: Verdict;
        output?: string;
        skipped?: number;
      };
      const log = new JobLog(this.#config.jobs.logBytes, saved.skipped);
      log.append(saved.output ?? '');
      const verdict = saved.verdict ?? this.#pipeline.lostVerdict();
      return this.#add({ id, tenant: saved.tenant, startedAt: saved.startedAt, log, running: false, verdict });
    } catch {
      return undefined;
    }
  }

  /** Removes records that nobody may ask for any more. */
  #reap(): void {
    for (const name of readdirSync(this.#dir)) {
      const path = join(this.#dir, name);
      if (!ID.test(name) || Date.now() - statSync(path).mtimeMs > this.#config.jobs.keepMs + this.#config.jobs.leaseMs)
        rmSync(path, { recursive: true, force: true });
    }
  }
}
