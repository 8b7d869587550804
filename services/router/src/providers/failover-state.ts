import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { ConversationStore } from '@yardmaster/conversation';
import { HEALTH, LOGGER, type Health, type Logger } from '@yardmaster/service-kit';
import { Counter, Histogram } from 'prom-client';
import { RouterConfig } from '../config.js';
import { CircuitBreakers } from '../failover/circuit-breaker.js';
import { systemClock } from '../failover/clock.js';
import { DeadlineBoard } from '../failover/deadline-board.js';
import { EndpointLoad } from '../failover/endpoint-load.js';
import type { AttemptRecord } from '../failover/frame.js';
import { RetryBudgets } from '../failover/retry-budget.js';
import { RouteMemory } from '../failover/route-memory.js';
import type { FailoverDeps } from '../failover/run-chat.js';
import { SharedDeadlines } from '../sharing/shared-deadlines.js';
import { Egress } from './egress.js';
import { UndiciTransport } from './undici-transport.js';

const KEY_BOARD = 'ym:key:all';
const BREAKER_BOARD = 'ym:brk:all';
const OPEN = 'open';

/**
 * What this process has learnt about its providers: cooling keys, open circuits, routes that do not exist. Keys and
 * circuits are shared with the other replicas; each chooses by its own copy, so it serves on while Redis is away.
 */
@Injectable()
export class FailoverState implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly deps: FailoverDeps;
  readonly keys: DeadlineBoard;
  readonly breakers: CircuitBreakers;
  readonly load = new EndpointLoad();
  private readonly egress: Egress;
  private readonly transport: UndiciTransport;
  private readonly shared: readonly SharedDeadlines[];

  constructor(
    @Inject(LOGGER) log: Logger,
    @Inject(HEALTH) health: Health,
    config: RouterConfig,
    store: ConversationStore,
  ) {
    const attempts = new Counter({
      name: 'yardmaster_llm_attempts_total',
      help: 'Attempts at providers, by outcome.',
      labelNames: ['provider', 'model', 'outcome'],
      registers: [health.metrics],
    });
    const duration = new Histogram({
      name: 'yardmaster_llm_attempt_seconds',
      help: 'Duration of attempts at providers.',
      labelNames: ['provider', 'model'],
      buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
      registers: [health.metrics],
    });
    const tokens = new Counter({
      name: 'yardmaster_llm_tokens_total',
      help: 'Tokens as providers count them, of all attempts; cached ones are a part of the prompt.',
      labelNames: ['provider', 'model', 'kind'],
      registers: [health.metrics],
    });
    this.egress = new Egress(config.connections);
    this.transport = new UndiciTransport({ dispatcherFor: (...args) => this.egress.dispatcherFor(...args) });
    const keys = new SharedDeadlines(store.redis, KEY_BOARD, { merge: (entry) => this.keys.merge(entry) });
    const circuits = new SharedDeadlines(store.redis, BREAKER_BOARD, {
      merge: ({ id, until }) => this.breakers.openUntil(id, until),
      withdrawn: (id) => this.breakers.closedElsewhere(id),
    });
    this.shared = [keys, circuits];
    this.keys = new DeadlineBoard(keys);
    this.breakers = new CircuitBreakers(systemClock, undefined, {
      opened: (id, until) => circuits.publish({ id, until, reason: OPEN }),
      closed: (id) => circuits.withdraw(id, OPEN),
    });
    this.deps = {
      clock: systemClock,
      transport: this.transport,
      keys: this.keys,
      breakers: this.breakers,
      budgets: new RetryBudgets(),
      routes: new RouteMemory(systemClock),
      load: this.load,
      onAttempt: (record: AttemptRecord) => {
        attempts.inc({ provider: record.provider, model: record.model, outcome: record.outcome });
        duration.observe({ provider: record.provider, model: record.model }, record.durationMs / 1000);
        for (const [kind, amount] of Object.entries(tokensOf(record)))
          if (amount > 0) tokens.inc({ provider: record.provider, model: record.model, kind }, amount);
      },
      onProviderText: (record, text) =>
        log.warn(
          {
            provider: record.provider,
            model: record.model,
            outcome: record.outcome,
            status: record.status,
            text: text.slice(0, 500),
          },
          'a provider failed',
        ),
    };
  }

  /** For one request: `onAttempt` is told of its attempts, beside the metrics. */
  depsOf(onAttempt: (record: AttemptRecord) => void): FailoverDeps {
    return {
      ...this.deps,
      onAttempt: (record) => {
        this.deps.onAttempt?.(record);
        onAttempt(record);
      },
    };
  }

  /** What others know before the first request comes. */
  async onApplicationBootstrap(): Promise<void> {
    await Promise.all(this.shared.map((board) => board.start()));
  }

  async onApplicationShutdown(): Promise<void> {
    for (const board of this.shared) board.stop();
    await this.transport.close();
    await this.egress.close();
  }
}

function tokensOf({ usage }: AttemptRecord): Record<'prompt' | 'cached' | 'completion', number> {
  return {
    prompt: usage?.prompt_tokens ?? 0,
    cached: usage?.cached_tokens ?? 0,
    completion: usage?.completion_tokens ?? 0,
  };
}
