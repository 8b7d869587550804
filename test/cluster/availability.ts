/* eslint-disable @typescript-eslint/no-explicit-any */
import type { ControlPlane } from './control-plane.ts';
import { componentOf, isReady, ownedBy, type PodObject } from './nodes.ts';

export interface Budget {
  component: string;
  /** Ready pods that it keeps. */
  least: number;
  /** Pods that there should be. */
  expected: number;
  /** Pods that may be evicted now. */
  allowed: number;
}

/**
 * Counts, at every change of a pod in a namespace, the pods of each component that serve: ready, and not on their way out.
 * Fed by a watch, so that no moment is missed, however short.
 */
export class Availability {
  private readonly pods = new Map<string, PodObject>();
  private readonly least = new Map<string, number>();
  private unfollow: () => Promise<void> = () => Promise.resolve();

  private constructor(
    private readonly plane: ControlPlane,
    private readonly namespace: string,
  ) {}

  static async start(plane: ControlPlane, namespace: string): Promise<Availability> {
    const watched = new Availability(plane, namespace);
    watched.unfollow = await plane.follow<PodObject>(`/api/v1/namespaces/${namespace}/pods`, (change, pod) => {
      if (ownedBy(pod, 'Job')) return;
      if (change === 'DELETED') watched.pods.delete(pod.metadata.uid);
      else watched.pods.set(pod.metadata.uid, pod);
      const component = componentOf(pod);
      const now = watched.serving(component).length;
      watched.least.set(component, Math.min(now, watched.least.get(component) ?? Infinity));
    });
    watched.begin();
    return watched;
  }

  /** From now on; what was before does not count. */
  begin(): void {
    this.least.clear();
    for (const { component, count } of this.counts()) this.least.set(component, count);
  }

  /** The fewest at any moment since `begin`, by component. */
  get fewest(): Record<string, number> {
    return Object.fromEntries([...this.least].sort());
  }

  serving(component: string): PodObject[] {
    return [...this.pods.values()].filter(
      (pod) => componentOf(pod) === component && isReady(pod) && pod.metadata.deletionTimestamp === undefined,
    );
  }

  private counts() {
    const components = new Set([...this.pods.values()].map(componentOf));
    return [...components].map((component) => ({ component, count: this.serving(component).length }));
  }

  /** The budgets of the namespace as their controller sees them. */
  async budgets(): Promise<Budget[]> {
    const { items } = await this.plane.must('GET', `/apis/policy/v1/namespaces/${this.namespace}/poddisruptionbudgets`);
    return items.map(({ metadata, status }: any) => ({
      component: metadata.labels['app.kubernetes.io/component'],
      least: status.desiredHealthy,
      expected: status.expectedPods,
      allowed: status.disruptionsAllowed,
    }));
  }

  stop(): Promise<void> {
    return this.unfollow();
  }
}
