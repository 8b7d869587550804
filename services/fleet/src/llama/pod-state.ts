import type { LlamaEndpoint } from './endpoints.js';
import type { CheckResult } from './pod-check.js';
import type { Capabilities } from './props.js';

export type PodPhase = 'unchecked' | 'ready' | 'loading' | 'draining' | 'unhealthy';

/** What the fleet knows of one llama.cpp server. */
export interface PodState {
  endpoint: LlamaEndpoint;
  phase: PodPhase;
  /** Why it is not ready; empty when it is. */
  reason: string;
  /** Failed checks in a row. */
  failures: number;
  capabilities: Capabilities;
  /** Milliseconds since the epoch. */
  since: number;
}

/** What the configuration expects of the pods of a provider. */
export interface Expected {
  context?: number;
  slots?: number;
}

/** Failed checks until nothing more is sent to a pod; one, when nobody listens there. */
export const EJECT_AFTER = 2;

export function newPod(endpoint: LlamaEndpoint, now: number): PodState {
  return { endpoint, phase: 'unchecked', reason: 'not asked yet', failures: 0, capabilities: {}, since: now };
}

/** The state after Kubernetes told something new, or a check ended. Pure. */
export function nextState(
  pod: PodState,
  {
    endpoint = pod.endpoint,
    check,
    expected = {},
    now,
  }: { endpoint?: LlamaEndpoint; check?: CheckResult; expected?: Expected; now: number },
): PodState {
  const failed = check?.health === 'failed';
  const failures = check === undefined ? pod.failures : failed ? pod.failures + 1 : 0;
  const capabilities =
    check?.health === 'ok' && check.capabilities !== undefined ? check.capabilities : pod.capabilities;
  const [phase, reason] = judge(pod, endpoint, check, failures, mismatch(capabilities, expected));
  const changed = phase !== pod.phase || reason !== pod.reason;
  return { endpoint, phase, reason, failures, capabilities, since: changed ? now : pod.since };
}

function judge(
  pod: PodState,
  endpoint: LlamaEndpoint,
  check: CheckResult | undefined,
  failures: number,
  wrong: string | undefined,
): [PodPhase, string] {
  // What Kubernetes says against a pod holds whatever the server answers: it still answers while it ends.
  if (endpoint.terminating) return ['draining', 'the pod is being ended'];
  const [phase, reason] = healthOf(pod, check, failures);
  if (phase === 'ready' && wrong !== undefined) return ['unhealthy', wrong];
  // A pod that loads is not ready for Kubernetes either; its own word says more.
  if (phase === 'ready' && !endpoint.ready) return ['unhealthy', 'Kubernetes says that it is not ready'];
  return [phase, reason];
}

function healthOf(pod: PodState, check: CheckResult | undefined, failures: number): [PodPhase, string] {
  switch (check?.health) {
    case 'ok':
      return ['ready', ''];
    case 'loading':
      return ['loading', 'it loads its model'];
    case 'failed':
      // A server that starts does not listen yet.
      if (pod.phase === 'unchecked' || pod.phase === 'loading')
        return ['loading', `it does not answer yet (${check.reason})`];
      if (check.refused || failures >= EJECT_AFTER) return ['unhealthy', check.reason];
      return [pod.phase, pod.reason];
    case undefined:
      // Only Kubernetes spoke. A pod that it took back in is asked first.
      if (pod.phase === 'draining') return ['unchecked', 'not asked yet'];
      if (pod.endpoint.ready !== true && pod.phase === 'unhealthy' && pod.failures === 0)
        return ['unchecked', 'not asked yet'];
      return [pod.phase, pod.reason];
  }
}

/** A server that is smaller than the configuration says would refuse requests that were made for it. */
function mismatch({ context, slots }: Capabilities, expected: Expected): string | undefined {
  if (expected.context !== undefined && context !== undefined && context < expected.context)
    return `a slot has ${context} tokens of context; the configuration says ${expected.context}`;
  if (expected.slots !== undefined && slots !== undefined && slots < expected.slots)
    return `it has ${slots} slots; the configuration says ${expected.slots}`;
  return undefined;
}
