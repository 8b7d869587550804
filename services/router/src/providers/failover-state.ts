import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
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
import { Egress } from './egress.js';
import { UndiciTransport } from './undici-transport.js';

/** What this process has learnt about its providers: cooling keys, open circuits, routes that do not exist. */
@Injectable()
export class FailoverState implements OnApplicationShutdown {
  readonly deps: FailoverDeps;
  readonly keys = new DeadlineBoard();
  readonly breakers: CircuitBreakers;
  readonly load = new EndpointLoad();
  private readonly egress: Egress;
  private readonly transport: UndiciTransport;

  constructor(@Inject(LOGGER) log: Logger, @Inject(HEALTH) health: Health, config: RouterConfig) {
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
    this.egress = new Egress(config.connections);
    this.transport = new UndiciTransport({ dispatcherFor: (...args) => this.egress.dispatcherFor(...args) });
    this.breakers = new CircuitBreakers(systemClock);
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

  async onApplicationShutdown(): Promise<void> {
    await this.transport.close();
    await this.egress.close();
  }
}
