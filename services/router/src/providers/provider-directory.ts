import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { type Bus, type KvSnapshot } from '@yardmaster/bus';
import { BUCKETS, YardError } from '@yardmaster/contracts';
import {
  BUS,
  type FoundProvider,
  LOGGER,
  type Logger,
  PlatformConfigFile,
  type ProviderConfig,
  type RoutingConfig,
} from '@yardmaster/service-kit';
import type { Candidate } from '../failover/candidate.js';
import { isServing, notServing, plan, type PlannedCandidate, type RouteWish } from '../routing/candidates.js';
import { isFound, type ProviderEntry, type ProviderTable, providerTable } from '../routing/provider-table.js';

/** The fleet says each minute that its pods are still there: silence for so long, and it is gone. */
const STALE_MS = 180_000;
const BALANCING = { priority: 'priority', weighted: 'weighted', 'least-busy': 'least_busy' } as const;

/** The providers as they are configured now: the file of YM_CONFIG, and what the fleet writes about pods. */
@Injectable()
export class ProviderDirectory implements OnApplicationBootstrap {
  private snapshot: KvSnapshot<ProviderConfig | FoundProvider> | undefined;
  private current: ProviderTable = { providers: new Map(), pods: new Map(), warnings: [] };
  private warned = new Set<string>();
  private heardAt = performance.now();

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    private readonly platform: PlatformConfigFile,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    this.snapshot = await this.bus.watch(
      BUCKETS.providers,
      (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as ProviderConfig | FoundProvider,
    );
    this.snapshot.onChange(() => {
      this.heardAt = performance.now();
      this.rebuild();
    });
    this.platform.onChange(() => this.rebuild());
    this.rebuild();
  }

  get table(): ProviderTable {
    return this.current;
  }

  /** Every provider, and every pod of those whose pods are known. */
  get entries(): ProviderEntry[] {
    const { providers, pods } = this.current;
    return [...providers.values(), ...[...pods.values()].flat()];
  }

  get routing(): RoutingConfig {
    return this.platform.current.routing;
  }

  /** The model for vectors where a request names none: the configured one, else the only model of a provider that has them. */
  get embeddingModel(): string | undefined {
    const { embedding_model: configured, providers } = this.routing;
    if (configured !== undefined) return configured;
    const names = providers ?? [...this.current.providers.keys()];
    const entries = names.flatMap((name) => this.current.providers.get(name) ?? []);
    return entries.find(({ embeddings, models }) => embeddings && models?.length === 1)?.models?.[0];
  }

  /** How the providers of one model share its requests. */
  get balancing(): (typeof BALANCING)[keyof typeof BALANCING] {
    return BALANCING[this.routing.strategy ?? 'priority'];
  }

  /** Where a request would go, in order, and why not elsewhere. */
  plan(wish: RouteWish): { candidates: PlannedCandidate[]; usable: PlannedCandidate[]; warnings: string[] } {
    const { candidates, warnings } = plan(wish, this.current, this.routing, this.podsAreStale);
    return {
      candidates,
      usable: candidates.filter((candidate) => candidate.unusable === undefined),
      warnings: [...this.current.warnings, ...warnings],
    };
  }

  /** Whether a candidate of an earlier plan may still be sent something. */
  isServing(candidate: Candidate): boolean {
    return isServing(candidate, this.current, this.podsAreStale);
  }

  private get podsAreStale(): boolean {
    return performance.now() - this.heardAt > STALE_MS;
  }

  /** The error for a request that no configured provider can take: what was asked, and what there is. */
  nothingUsable(candidates: readonly PlannedCandidate[], model: string): YardError {
    const details = {
      model,
      providers: candidates.map(({ entry, model: tried, unusable }) => ({
        provider: entry.name,
        model: tried,
        reason: unusable,
      })),
      known_models: [...new Set(this.entries.flatMap((entry) => entry.models ?? []))],
    };
    if (candidates.length === 0)
      return new YardError(
        'INVALID',
        'YM-LLM-NO-PROVIDER',
        'No provider is configured that could serve a model: see YM_CONFIG, or set the key of a provider.',
        { details },
      );
    const vision = candidates.every((candidate) => candidate.unusable === 'cannot see images');
    if (vision)
      return new YardError(
        'INVALID',
        'YM-LLM-NO-VISION',
        'The request has images, and no provider in its chain can see them. Nothing was sent.',
        { details },
      );
    const waiting = candidates.find(({ entry, unusable }) => entry.pod !== undefined && unusable === notServing(entry));
    // A model that loads is there soon: not the caller's mistake.
    if (waiting !== undefined && candidates.every(({ unusable }) => unusable !== undefined))
      return new YardError(
        'UNAVAILABLE',
        'YM-LLM-NOT-READY',
        `No pod that could answer is ready: ${waiting.entry.pod?.name} ${waiting.unusable}.`,
        { details, retryAfterMs: 10_000 },
      );
    const unknown = candidates.every((candidate) => candidate.unusable?.startsWith('does not serve'));
    return unknown
      ? new YardError('NOT_FOUND', 'YM-MODEL-UNKNOWN', `No configured provider serves the model "${model}".`, {
          details,
        })
      : new YardError(
          'INVALID',
          'YM-LLM-NO-CANDIDATE',
          `No provider can take this request: ${candidates[0]!.entry.name} ${candidates[0]!.unusable}.`,
          { details },
        );
  }

  private rebuild(): void {
    const { current } = this.platform;
    const written = [...(this.snapshot?.current ?? [])];
    // Whole providers in the bucket come behind what people configured under the same name.
    const others = Object.fromEntries(written.filter(([, entry]) => !isFound(entry)));
    const found = written.flatMap(([, entry]) => (isFound(entry) ? [entry] : []));
    this.current = providerTable({ ...current, providers: { ...others, ...current.providers } }, process.env, found);
    for (const warning of this.current.warnings)
      if (!this.warned.has(warning)) {
        this.warned.add(warning);
        this.log.warn(warning);
      }
  }
}
