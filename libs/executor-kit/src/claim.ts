import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bus } from '@yardmaster/bus';
import { ClaimSchema, type Effect, STREAMS, subjects, YardError } from '@yardmaster/contracts';
import type { CallIdentity } from './identify.js';

/** A call that may run again is tried this often. */
export const MAX_ATTEMPTS = 4;
const CLAIM_TRIES = 5;

export type ClaimVerdict =
  /** Ours: run it. */
  | { is: 'mine'; attempt: number }
  /** Former attempts died, and it may not (or not again) be tried. */
  | { is: 'given-up'; attempts: number }
  /** Another message carries the same call, and is worked on or was: this one is superfluous. */
  | { is: 'duplicate' }
  /** The former attempt has not been heard of, but could not have been: look again later. */
  | { is: 'in-doubt' };

/** One delivery of a work message, as the claims name it. */
export interface ClaimDelivery {
  /** This process, unique. */
  executor: string;
  streamSequence: number;
  deliverySequence: number;
  deliveryCount: number;
  /** The server was away just now, so that beats of a living executor may have been lost. */
  afterOutage: boolean;
}

/**
 * Claims the next attempt of a call. The server lets one claimant win each attempt, so an unsafe call starts at most
 * once. A lost claim means one of two things. Made for an earlier delivery of the same message: its ack wait has passed
 * without a beat, so that attempt is dead. Made for another message: the call was published twice (a dispatcher resumed
 * its run), and the other message sees to it. After an outage of the server a silent attempt gets one more chance: a
 * message handed back with a delay stays hidden for as long as its living holder beats.
 */
export async function claim(
  bus: Bus,
  call: CallIdentity,
  effect: Effect,
  delivery: ClaimDelivery,
): Promise<ClaimVerdict> {
  const nonceHash = hash('sha256', call.nonce, 'hex').slice(0, 16);
  const { executor, streamSequence, deliverySequence, deliveryCount } = delivery;
  const me = `${executor}#${streamSequence}.${deliverySequence}.${deliveryCount}`;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const subject = subjects.claim(call.tenant, call.runId, call.callId, nonceHash, attempt);
    if ((await claimOnce(bus, subject, attempt, me)) === 'stored') return { is: 'mine', attempt };
    const holder = await holderOf(bus, subject);
    // Our own publish whose answer was lost.
    if (holder === me) return { is: 'mine', attempt };
    const [ofMessage, , ofDelivery = 0] = /#(\d+)\.(\d+)\.(\d+)$/.exec(holder)?.slice(1).map(Number) ?? [];
    const dead = ofMessage === undefined ? deliveryCount > 1 : ofMessage === streamSequence;
    if (!dead) return { is: 'duplicate' };
    if (delivery.afterOutage && deliveryCount < ofDelivery + 2) return { is: 'in-doubt' };
    if (effect === 'unsafe') return { is: 'given-up', attempts: attempt };
  }
  return { is: 'given-up', attempts: MAX_ATTEMPTS };
}

/** An answer that got lost is asked for again: nothing has started yet, so waiting is safe and giving up is not. */
async function claimOnce(bus: Bus, subject: string, attempt: number, me: string): Promise<'stored' | 'exists'> {
  for (let tries = 1; ; tries++) {
    try {
      return await bus.publishOnce(subject, ClaimSchema, { attempt, executor: me, atMs: BigInt(Date.now()) });
    } catch (error) {
      const passing = YardError.is(error) && (error.class === 'TIMEOUT' || error.class === 'UNAVAILABLE');
      if (!passing || tries === CLAIM_TRIES || bus.isClosed()) throw error;
      await sleep(200 * tries);
    }
  }
}

async function holderOf(bus: Bus, subject: string): Promise<string> {
  const found = await bus.getStored(STREAMS.claims.name, subject, ClaimSchema);
  // The server has just said that it exists; gone again means that claims were deleted by hand.
  return found?.message.executor ?? '';
}
