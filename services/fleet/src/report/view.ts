import type { MessageInitShape } from '@bufbuild/protobuf';
import type { FleetViewResponseSchema } from '@yardmaster/contracts';
import type { WatchReport } from '../kubernetes/supervised-watch.js';
import type { PodState } from '../llama/pod-state.js';
import type { DecisionReport, ExecutorReport } from '../scaling/scaling.js';

export interface FleetFacts {
  leader: string;
  /** Milliseconds since the epoch. */
  now: number;
  executors: Iterable<ExecutorReport>;
  pods: Iterable<PodState>;
  decisions: readonly DecisionReport[];
  watches: readonly { namespace: string; report: WatchReport; ageMs: number | undefined }[];
  staleMs: number;
}

/** What `GET /v1/fleet` is made of. Pure. */
export function viewOf(facts: FleetFacts): MessageInitShape<typeof FleetViewResponseSchema> {
  return {
    leader: facts.leader,
    writtenMs: BigInt(facts.now),
    executors: [...facts.executors].map(({ target, current, need, verdict, at }) => ({
      name: target.name,
      deployment: target.deployment,
      kinds: target.kinds,
      min: target.min,
      max: target.max,
      callsPerPod: target.callsPerPod,
      ...(current === undefined ? {} : { current }),
      ...(verdict.desired === undefined ? {} : { desired: verdict.desired }),
      ...(need === undefined ? {} : { need: BigInt(need) }),
      state: verdict.action === 'hold' ? 'hold' : 'ok',
      reason: verdict.reason,
      decidedMs: BigInt(at),
    })),
    pods: [...facts.pods].map(({ endpoint, phase, reason, capabilities, since }) => ({
      provider: endpoint.provider,
      name: endpoint.pod,
      namespace: endpoint.namespace,
      address: endpoint.address,
      state: phase,
      reason,
      ...(capabilities.slots === undefined ? {} : { slots: capabilities.slots }),
      ...(capabilities.context === undefined ? {} : { context: capabilities.context }),
      ...(capabilities.nativeTools === undefined ? {} : { nativeTools: capabilities.nativeTools }),
      ...(capabilities.vision === undefined ? {} : { vision: capabilities.vision }),
      model: capabilities.model ?? '',
      node: endpoint.node,
      sinceMs: BigInt(since),
    })),
    decisions: facts.decisions.map(({ at, executor, action, from, to, reason }) => ({
      atMs: BigInt(at),
      executor,
      action,
      ...(from === undefined ? {} : { from }),
      ...(to === undefined ? {} : { to }),
      reason,
    })),
    discovery: {
      watches: facts.watches.map(({ namespace, report, ageMs }) => ({
        namespace,
        state: report.phase,
        listedMs: BigInt(ageMs === undefined ? 0 : Math.round(facts.now - ageMs)),
        stale: ageMs === undefined || ageMs > facts.staleMs,
        problem: report.problem ?? '',
      })),
    },
  };
}
