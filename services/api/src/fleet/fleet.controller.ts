import { Controller, Get, Inject } from '@nestjs/common';
import { ApiBearerAuth, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Bus } from '@yardmaster/bus';
import { BUCKETS, Fleet, type FleetViewResponse, YardError } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { Needs } from '../auth/roles.guard.js';
import { ApiConfig } from '../config.js';
import { type Caller, CurrentCaller } from '../http/request.js';

/** The leader writes each quarter of a minute: a picture older than this is one of before. */
const STALE_MS = 60_000;

/** Executors, llama.cpp pods, scaling decisions. */
@ApiTags('fleet')
@ApiBearerAuth()
@Controller('v1/fleet')
export class FleetController {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
  ) {}

  @Get()
  @Needs('runs:read')
  @ApiOperation({
    summary: 'Executors, llama.cpp pods, and what was decided about them and why',
    description:
      'Written by the leader of the fleet, in Kubernetes. Where no fleet has ever been at work (`mode: none`) executors have a fixed number and providers come from the configuration.',
  })
  @ApiOkResponse({ schema: { $ref: '#/components/schemas/Fleet' } })
  async view(@CurrentCaller() caller: Caller) {
    let view: FleetViewResponse;
    try {
      view = await this.bus.request(Fleet.view, caller.tenant, {}, { timeoutMs: this.config.rpcTimeoutMs });
    } catch (error) {
      if (!YardError.is(error) || error.class !== 'UNAVAILABLE') throw error;
      if ((await this.bus.kv(BUCKETS.fleet).get('state')) === undefined) return NO_FLEET;
      throw new YardError(
        'UNAVAILABLE',
        'YM-FLEET-AWAY',
        'No fleet service answers. Models and executors go on as they are; nothing is scaled and no pod is found until it is back.',
        { cause: error, retryAfterMs: 5_000 },
      );
    }
    return shown(view, Date.now());
  }
}

const NO_FLEET = {
  mode: 'none',
  leader: null,
  written_at: null,
  stale: false,
  note: 'No fleet service is at work here: executors have a fixed number, and providers come from the configuration.',
  executors: [],
  pods: [],
  decisions: [],
  watches: [],
};

function shown(view: FleetViewResponse, now: number) {
  const stale = now - Number(view.writtenMs) > STALE_MS;
  return {
    mode: 'kubernetes',
    leader: view.leader || null,
    written_at: time(view.writtenMs),
    stale,
    note: stale ? 'No replica of the fleet leads: this is how it was.' : null,
    executors: view.executors.map((one) => ({
      name: one.name,
      deployment: one.deployment,
      kinds: one.kinds,
      min: one.min,
      max: one.max,
      calls_per_pod: one.callsPerPod,
      current: one.current ?? null,
      desired: one.desired ?? null,
      need: one.need === undefined ? null : Number(one.need),
      state: one.state,
      reason: one.reason,
      decided_at: time(one.decidedMs),
    })),
    pods: view.pods.map((one) => ({
      provider: one.provider,
      name: one.name,
      namespace: one.namespace,
      node: one.node || null,
      address: one.address,
      state: one.state,
      reason: one.reason || null,
      slots: one.slots ?? null,
      context: one.context ?? null,
      native_tools: one.nativeTools ?? null,
      vision: one.vision ?? null,
      model: one.model || null,
      since: time(one.sinceMs),
    })),
    decisions: view.decisions.map((one) => ({
      at: time(one.atMs),
      executor: one.executor,
      action: one.action,
      from: one.from ?? null,
      to: one.to ?? null,
      reason: one.reason,
    })),
    watches: (view.discovery?.watches ?? []).map((one) => ({
      namespace: one.namespace,
      state: one.state,
      listed_at: time(one.listedMs),
      stale: one.stale,
      problem: one.problem || null,
    })),
  };
}

const time = (ms: bigint) => (ms > 0n ? new Date(Number(ms)).toISOString() : null);
