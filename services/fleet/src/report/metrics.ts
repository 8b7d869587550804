import type { Health } from '@yardmaster/service-kit';
import { Counter, Gauge } from 'prom-client';
import type { WatchReport } from '../kubernetes/supervised-watch.js';
import type { PodState } from '../llama/pod-state.js';
import type { DecisionReport, ExecutorReport } from '../scaling/scaling.js';

export interface Seen {
  leads(): boolean;
  pods(): readonly PodState[];
  watches(): readonly { namespace: string; report: WatchReport; unheardMs: number }[];
  executors(): Iterable<ExecutorReport>;
}

/** What on-call looks at; read when it is asked for. Only the leader sees anything. */
export function fleetMetrics(
  { metrics }: Health,
  seen: Seen,
): { decided(decision: Pick<DecisionReport, 'executor' | 'action'>): void } {
  const gauge = (name: string, help: string, labelNames: string[], collect: (gauge: Gauge) => void) =>
    new Gauge({
      name: `yardmaster_fleet_${name}`,
      help,
      labelNames,
      registers: [metrics],
      collect() {
        // What is gone must not stay on the page.
        this.reset();
        collect(this);
      },
    });
  gauge('leader', '1 in the replica that leads.', [], (self) => self.set(seen.leads() ? 1 : 0));
  gauge('llama_pods', 'llama.cpp servers by provider and state.', ['provider', 'state'], (self) => {
    for (const { endpoint, phase } of seen.pods()) self.inc({ provider: endpoint.provider, state: phase });
  });
  const age = 'Age of the last complete list of EndpointSlices; without one, of the leading.';
  gauge('list_age_seconds', age, ['namespace'], (self) => {
    for (const { namespace, unheardMs } of seen.watches()) self.set({ namespace }, unheardMs / 1000);
  });
  gauge('watches', 'Watches opened since this replica began to lead.', ['namespace'], (self) => {
    for (const { namespace, report } of seen.watches()) self.set({ namespace }, report.watches);
  });
  gauge('watch_failures', 'Lists and watches that failed since this replica began to lead.', ['namespace'], (self) => {
    for (const { namespace, report } of seen.watches()) self.set({ namespace }, report.failures);
  });
  gauge('executor_pods', 'Pods that an executor is to have.', ['executor'], (self) => {
    for (const { target, current } of seen.executors())
      if (current !== undefined) self.set({ executor: target.name }, current);
  });
  gauge('executor_pods_wanted', 'Pods that an executor should have.', ['executor'], (self) => {
    for (const { target, verdict } of seen.executors())
      if (verdict.desired !== undefined) self.set({ executor: target.name }, verdict.desired);
  });
  gauge('executor_calls_per_pod', 'Calls that a pod of an executor should have.', ['executor'], (self) => {
    for (const { target } of seen.executors()) self.set({ executor: target.name }, target.callsPerPod);
  });
  gauge('executor_calls', 'Waiting and running calls of an executor.', ['executor'], (self) => {
    for (const { target, need } of seen.executors()) if (need !== undefined) self.set({ executor: target.name }, need);
  });
  gauge('executor_held', '1 while something is missing and the number of pods stays.', ['executor'], (self) => {
    for (const { target, verdict } of seen.executors())
      self.set({ executor: target.name }, verdict.action === 'hold' ? 1 : 0);
  });
  const decisions = new Counter({
    name: 'yardmaster_fleet_decisions_total',
    help: 'Changes of numbers of pods, and what kept them from changing.',
    labelNames: ['executor', 'action'],
    registers: [metrics],
  });
  return { decided: ({ executor, action }) => decisions.inc({ executor, action }) };
}
