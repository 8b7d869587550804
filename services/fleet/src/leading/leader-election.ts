import { type CoordinationV1Api, type V1Lease, V1MicroTime } from '@kubernetes/client-node';
import { inWords, statusOf } from '../kubernetes/connection.js';
import type { Timing } from '../kubernetes/timing.js';

/** What of the API the election uses: three calls on one object. */
export type LeaseApi = Pick<
  CoordinationV1Api,
  'readNamespacedLease' | 'createNamespacedLease' | 'replaceNamespacedLease'
>;

export interface ElectionSettings {
  namespace: string;
  name: string;
  /** This candidate; another one after every start. */
  identity: string;
  /** How long others wait after the last renewal that they saw. */
  leaseMs: number;
  /** Whoever could not renew for so long stops leading: before others may begin. */
  renewMs: number;
  /** Between two tries. */
  retryMs: number;
}

/** The usual proportions: 15 s, 10 s, 2 s. */
export const electionTimes = (leaseMs: number) => ({
  leaseMs,
  renewMs: (leaseMs * 2) / 3,
  retryMs: (leaseMs * 2) / 15,
});

/**
 * Leads while it holds a Lease. As client-go does: writes go against the version that was read, so of two candidates one
 * gets a conflict; another's Lease counts as lapsed only when it did not change for its whole duration by the clock of
 * this process, never by the times in it; and one's own ends for oneself earlier than for others.
 */
export class LeaderElection {
  /** Who holds the Lease, as far as this candidate knows. */
  holder = '';
  private seen: { version: string; at: number } | undefined;
  private renewedAt = 0;
  private led: AbortController | undefined;
  private guarded: AbortController | undefined;

  constructor(
    private readonly api: LeaseApi,
    private readonly settings: ElectionSettings,
    private readonly timing: Timing,
    private readonly onProblem: (problem: string) => void = () => undefined,
  ) {}

  /** True while this process may write. Asked before every write, because a timer may fire late. */
  isLeader(): boolean {
    return this.led !== undefined && this.isFresh();
  }

  private isFresh(): boolean {
    return this.timing.now() - this.renewedAt < this.settings.renewMs;
  }

  /**
   * Runs until the signal is aborted. `lead` is called each time that this process begins to lead, with a signal that is
   * aborted when it no longer does; the next candidacy waits until it has ended. Gives the Lease back at the end.
   */
  async run(signal: AbortSignal, lead: (signal: AbortSignal) => Promise<void>): Promise<void> {
    let leading: Promise<void> | undefined;
    while (!signal.aborted) {
      const askedAt = this.timing.now();
      const holds = await this.tryOnce();
      if (holds) {
        // The time of the question: the server's answer may have been on its way for long.
        this.renewedAt = askedAt;
        this.guard();
        if (this.led === undefined && leading === undefined && this.isFresh() && !signal.aborted) {
          const led = (this.led = new AbortController());
          leading = lead(AbortSignal.any([signal, led.signal]))
            .catch((error: unknown) => this.onProblem(`leading failed: ${inWords(error)}`))
            .finally(() => {
              leading = undefined;
              // Whatever ended it, it begins anew with the next renewal.
              if (this.led === led) this.stepDown();
            });
        }
      } else if (this.led !== undefined && this.holder !== this.settings.identity) this.stepDown();
      await this.timing.sleep(this.settings.retryMs * (1 + 0.2 * this.timing.random()), signal);
    }
    this.guarded?.abort();
    this.stepDown();
    await leading;
    // Asked of the Lease, not of `led`: what it leads may have ended before this line, by the same signal.
    if (this.holder === this.settings.identity) await this.release();
  }

  /** Ends the leading when its time is over, even while a question to the server hangs. */
  private guard(): void {
    this.guarded?.abort();
    const guarded = (this.guarded = new AbortController());
    const left = this.renewedAt + this.settings.renewMs - this.timing.now();
    void this.timing.sleep(left, guarded.signal).then(() => {
      if (!guarded.signal.aborted) this.stepDown();
    });
  }

  private stepDown(): void {
    this.led?.abort();
    this.led = undefined;
  }

  /** True when the Lease is ours, newly or still. Every failure is a no. */
  private async tryOnce(): Promise<boolean> {
    const { namespace, name, identity } = this.settings;
    try {
      const lease = await this.read();
      if (lease === undefined) {
        const made = await this.api.createNamespacedLease({
          namespace,
          body: { metadata: { name }, spec: this.spec(0) },
        });
        return this.remember(made);
      }
      const { holderIdentity = '', leaseTransitions = 0 } = lease.spec ?? {};
      const version = lease.metadata?.resourceVersion ?? '';
      const now = this.timing.now();
      if (this.seen?.version !== version) this.seen = { version, at: now };
      this.holder = holderIdentity;
      const theirs = (lease.spec?.leaseDurationSeconds ?? 0) * 1000;
      if (holderIdentity !== '' && holderIdentity !== identity && now - this.seen.at < theirs) return false;
      const transitions = holderIdentity === identity ? leaseTransitions : leaseTransitions + 1;
      const spec = this.spec(transitions, holderIdentity === identity ? lease.spec : undefined);
      // The version that was read goes along: if anybody wrote in between, the server refuses.
      return this.remember(await this.api.replaceNamespacedLease({ name, namespace, body: { ...lease, spec } }));
    } catch (error) {
      // Somebody was faster: who, the next look will say.
      if (statusOf(error) !== 409) this.onProblem(`the Lease ${namespace}/${name}: ${inWords(error)}`);
      return false;
    }
  }

  private async read(): Promise<V1Lease | undefined> {
    const { namespace, name } = this.settings;
    try {
      return await this.api.readNamespacedLease({ name, namespace });
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  private remember(lease: V1Lease): true {
    this.holder = this.settings.identity;
    this.seen = { version: lease.metadata?.resourceVersion ?? '', at: this.timing.now() };
    return true;
  }

  private spec(leaseTransitions: number, mine?: V1Lease['spec']): NonNullable<V1Lease['spec']> {
    const now = new V1MicroTime();
    return {
      holderIdentity: this.settings.identity,
      leaseDurationSeconds: Math.max(1, Math.ceil(this.settings.leaseMs / 1000)),
      acquireTime: mine?.acquireTime ?? now,
      renewTime: now,
      leaseTransitions,
    };
  }

  /** So that the next one need not wait. */
  private async release(): Promise<void> {
    const { namespace, name, identity } = this.settings;
    try {
      const lease = await this.read();
      if (lease?.spec?.holderIdentity !== identity) return;
      const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1 };
      await this.api.replaceNamespacedLease({ name, namespace, body: { ...lease, spec } });
      this.holder = '';
    } catch (error) {
      this.onProblem(`the Lease ${namespace}/${name} could not be given back: ${inWords(error)}`);
    }
  }
}
