import type { Clock } from './clock.js';

export interface BreakerSettings {
  /** Consecutive transient failures that open it. */
  failures: number;
  /** How long it stays open, and the least time between two probes. */
  openMs: number;
}

export const DEFAULT_BREAKER: BreakerSettings = { failures: 5, openMs: 5_000 };

/** Other replicas: what one of them found out about an endpoint spares the others the same failures. */
export interface BreakerSharing {
  opened(endpoint: string, until: number): void;
  closed(endpoint: string): void;
}

export type BreakerState = 'closed' | 'open' | 'half_open';

interface Circuit {
  failures: number;
  /** Next probe at; 0 while closed. */
  probeAt: number;
  probing: boolean;
}

/**
 * One circuit per endpoint (provider and pod): after some failures in a row nothing is sent there but one request every
 * few seconds, and the first that succeeds closes it again.
 */
export class CircuitBreakers {
  private readonly circuits = new Map<string, Circuit>();
  private readonly clock: Clock;
  private readonly settings: BreakerSettings;
  private readonly sharing: BreakerSharing | undefined;

  constructor(clock: Clock, settings: BreakerSettings = DEFAULT_BREAKER, sharing?: BreakerSharing) {
    this.clock = clock;
    this.settings = settings;
    this.sharing = sharing;
  }

  state(endpoint: string): BreakerState {
    const circuit = this.circuits.get(endpoint);
    if (circuit === undefined || circuit.probeAt === 0) return 'closed';
    return circuit.probing || circuit.probeAt <= this.clock.now() ? 'half_open' : 'open';
  }

  /** When a request may be sent there: now or earlier if at once. */
  readyAt(endpoint: string): number {
    const circuit = this.circuits.get(endpoint);
    if (circuit === undefined || circuit.probeAt === 0) return 0;
    // While a probe is under way nobody knows; ask again soon.
    return circuit.probing ? this.clock.now() + 100 : circuit.probeAt;
  }

  /** Call just before sending; true if this request is the probe of an open circuit. */
  enter(endpoint: string): boolean {
    const circuit = this.circuits.get(endpoint);
    if (circuit === undefined || circuit.probeAt === 0) return false;
    circuit.probing = true;
    circuit.probeAt = this.clock.now() + this.settings.openMs;
    // One probe for all replicas, not one from each.
    this.sharing?.opened(endpoint, circuit.probeAt);
    return true;
  }

  succeeded(endpoint: string): void {
    const wasOpen = (this.circuits.get(endpoint)?.probeAt ?? 0) !== 0;
    this.circuits.delete(endpoint);
    if (wasOpen) this.sharing?.closed(endpoint);
  }

  /** A transient failure, and how many in a row open this one. True if it opened the circuit. */
  failed(endpoint: string, failures = this.settings.failures): boolean {
    const circuit = this.circuits.get(endpoint) ?? { failures: 0, probeAt: 0, probing: false };
    this.circuits.set(endpoint, circuit);
    circuit.failures++;
    const wasOpen = circuit.probeAt !== 0;
    if (circuit.probing || (!wasOpen && circuit.failures >= failures)) {
      circuit.probing = false;
      circuit.probeAt = this.clock.now() + this.settings.openMs;
      this.sharing?.opened(endpoint, circuit.probeAt);
    }
    return !wasOpen && circuit.probeAt !== 0;
  }

  /** The request ended without saying anything about the endpoint (cancelled, or cut by the deadline). */
  abandoned(endpoint: string): void {
    const circuit = this.circuits.get(endpoint);
    if (circuit !== undefined) circuit.probing = false;
  }

  /** Another replica's probe succeeded. */
  closedElsewhere(endpoint: string): void {
    if (this.circuits.get(endpoint)?.probing === false) this.circuits.delete(endpoint);
  }

  /** Another replica opened it, or probes it. */
  openUntil(endpoint: string, until: number): void {
    if (until <= this.clock.now()) return;
    const circuit = this.circuits.get(endpoint) ?? { failures: this.settings.failures, probeAt: 0, probing: false };
    this.circuits.set(endpoint, circuit);
    circuit.probeAt = Math.max(circuit.probeAt, until);
  }
}
