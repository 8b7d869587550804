import { Gauge } from 'prom-client';
import type { Health } from './health.js';

/**
 * What an executor says of its slots in `/metrics`. The fleet reads the first one, so that pods with the fewest calls go
 * first.
 */
export function runningCallsMetrics({ metrics }: Health, counts: () => { slots: number; running: number }): void {
  new Gauge({
    name: 'yardmaster_executor_running_calls',
    help: 'Calls that run now.',
    registers: [metrics],
    collect() {
      this.set(counts().running);
    },
  });
  new Gauge({
    name: 'yardmaster_executor_slots',
    help: 'Calls that may run at once.',
    registers: [metrics],
    collect() {
      this.set(counts().slots);
    },
  });
}
