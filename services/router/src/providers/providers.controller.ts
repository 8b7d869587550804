import type { MessageInitShape } from '@bufbuild/protobuf';
import { Controller } from '@nestjs/common';
import { Serves } from '@yardmaster/bus/nest';
import { type PlanRequest, type PlanResponseSchema, type ProvidersResponseSchema, Router } from '@yardmaster/contracts';
import { endpointOf } from '../failover/candidate.js';
import { keyBoardId } from '../failover/key-pool.js';
import { toCandidate } from '../routing/candidates.js';
import type { ProviderEntry } from '../routing/provider-table.js';
import { FailoverState } from './failover-state.js';
import { ProviderDirectory } from './provider-directory.js';

@Controller()
export class ProvidersController {
  constructor(
    private readonly directory: ProviderDirectory,
    private readonly failover: FailoverState,
  ) {}

  @Serves(Router.plan)
  plan(request: PlanRequest): MessageInitShape<typeof PlanResponseSchema> {
    const planned = this.directory.plan({
      model: request.model,
      providers: request.providers,
      modelFallbacks: Object.fromEntries(
        Object.entries(request.modelFallbacks).map(([model, list]) => [model, list.models]),
      ),
      toolDispatcher:
        request.toolDispatcher === 'native' || request.toolDispatcher === 'xml' ? request.toolDispatcher : 'auto',
      needsTools: request.tools.length > 0,
      needsVision: request.images,
    });
    return {
      candidates: planned.candidates.map((candidate) => {
        const { entry, model, dialect, unusable } = candidate;
        const health = this.healthOf(entry);
        return {
          provider: entry.name,
          model,
          dialect,
          usable: unusable === undefined,
          reason:
            unusable ??
            (health.health === 'up' ? '' : `${health.health} until ${new Date(health.untilMs).toISOString()}`),
          origin: new URL(entry.baseUrl).origin,
        };
      }),
      warnings: planned.warnings,
    };
  }

  @Serves(Router.providers)
  providers(): MessageInitShape<typeof ProvidersResponseSchema> {
    const { entries } = this.directory;
    return {
      defaultModel: this.directory.routing.default_model ?? '',
      providers: entries.map((entry) => {
        const { health, untilMs } = this.healthOf(entry);
        return {
          name: entry.name,
          kind: entry.kind.kind,
          baseUrl: entry.baseUrl,
          demo: entry.demo,
          nativeTools: entry.nativeTools,
          vision: entry.vision,
          embeddings: entry.embeddings,
          health,
          untilMs: BigInt(untilMs),
          models: [...(entry.models ?? [])],
          pod: entry.pod?.name ?? '',
          keys: entry.keys.map((key) => {
            const cooling = this.failover.keys.active(keyBoardId(this.candidateOf(entry), key), Date.now());
            return {
              hash: key.id,
              health: cooling === undefined ? 'up' : 'cooling',
              untilMs: BigInt(Math.round(cooling?.until ?? 0)),
            };
          }),
        };
      }),
    };
  }

  private healthOf(entry: ProviderEntry): { health: string; untilMs: number } {
    const { pod } = entry;
    if (pod !== undefined && pod.phase !== 'ready')
      return { health: pod.phase === 'unchecked' ? 'loading' : pod.phase, untilMs: 0 };
    const endpoint = endpointOf(this.candidateOf(entry));
    const state = this.failover.breakers.state(endpoint);
    if (state !== 'closed') return { health: state, untilMs: Math.round(this.failover.breakers.readyAt(endpoint)) };
    if (entry.keys.length === 0) {
      const cooling = this.failover.keys.active(keyBoardId(this.candidateOf(entry), undefined), Date.now());
      if (cooling !== undefined) return { health: 'cooling', untilMs: Math.round(cooling.until) };
    }
    return { health: 'up', untilMs: 0 };
  }

  private candidateOf(entry: ProviderEntry) {
    return toCandidate(
      { entry, model: entry.models?.[0] ?? '', dialect: 'native', unusable: undefined },
      this.directory.routing,
    );
  }
}
