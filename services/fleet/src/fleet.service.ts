import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { Bus, KvSnapshot } from '@yardmaster/bus';
import { BUCKETS } from '@yardmaster/contracts';
import {
  BUS,
  type FoundProvider,
  HEALTH,
  type Health,
  LOGGER,
  type Logger,
  PlatformConfigFile,
  SERVICE,
  type ServiceContext,
} from '@yardmaster/service-kit';
import { FleetConfig } from './config.js';
import { KubernetesConnection } from './kubernetes/connection.js';
import { EndpointSliceSource } from './kubernetes/endpoint-slice-source.js';
import { WATCH_SETTINGS } from './kubernetes/supervised-watch.js';
import { systemTiming } from './kubernetes/timing.js';
import { electionTimes, LeaderElection } from './leading/leader-election.js';
import { LlamaPods, STALE_MS } from './llama/llama-pods.js';
import { PodCheck } from './llama/pod-check.js';
import { FleetRecord } from './report/fleet-record.js';
import { fleetMetrics } from './report/metrics.js';
import { viewOf } from './report/view.js';
import { BusyPods } from './scaling/busy-pods.js';
import { ExecutorsFile } from './scaling/executors-file.js';
import { ScaleClient } from './scaling/scale-client.js';
import { Scaling } from './scaling/scaling.js';

/** The record is written when something changed, no more often than this, and at the latest after REPORT_MS. */
const REPORT_SOON_MS = 1_000;
const REPORT_MS = 15_000;

/** Wires the fleet together: one replica leads, and only that one looks, writes and scales. */
@Injectable()
export class FleetService implements OnApplicationBootstrap, OnApplicationShutdown {
  record!: FleetRecord;
  private readonly stopping = new AbortController();
  private readonly closers: (() => Promise<void> | void)[] = [];
  private running: Promise<void> | undefined;
  private election!: LeaderElection;
  private pods!: LlamaPods;
  private scaling!: Scaling;
  private reported = '';

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    @Inject(LOGGER) private readonly log: Logger,
    @Inject(HEALTH) private readonly health: Health,
    @Inject(SERVICE) private readonly service: ServiceContext<FleetConfig>,
    private readonly config: FleetConfig,
    private readonly platform: PlatformConfigFile,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const { config, log } = this;
    const kubernetes = KubernetesConnection.fromEnvironment();
    const namespace = config.namespace ?? kubernetes.namespace;
    this.record = await FleetRecord.open(this.bus);
    const stored = await this.bus.watch(
      BUCKETS.providers,
      (bytes) => JSON.parse(new TextDecoder().decode(bytes)) as FoundProvider,
    );
    const timing = systemTiming;
    const problems = new Map<string, number>();
    this.election = new LeaderElection(
      kubernetes.coordination,
      { namespace, name: config.lease, identity: this.service.instance, ...electionTimes(config.leaseMs) },
      timing,
      // Each problem once a minute: an API server that is away is tried every two seconds.
      (problem) => {
        const now = timing.now();
        if (now - (problems.get(problem) ?? -Infinity) < 60_000) return;
        if (problems.size > 100) problems.clear();
        problems.set(problem, now);
        log.warn(problem);
      },
    );
    const mayWrite = () => this.election.isLeader();
    const check = new PodCheck({ timeoutMs: config.checkTimeoutMs });
    this.pods = this.makePods(kubernetes, namespace, check, stored, mayWrite);
    const executors = new ExecutorsFile(config.executorsFile, (problem) => log.warn(problem));
    const busy = config.deletionCost ? new BusyPods() : undefined;
    const metrics = fleetMetrics(this.health, {
      leads: mayWrite,
      pods: () => (mayWrite() ? this.pods.states : []),
      watches: () => (mayWrite() ? this.pods.reports : []),
      executors: () => (mayWrite() ? this.scaling.reports.values() : []),
    });
    this.scaling = new Scaling({
      targets: () => executors.current,
      client: new ScaleClient(kubernetes.apps, kubernetes.core, namespace),
      queue: (stream, consumer) => this.bus.queueState(stream, consumer),
      busy,
      pollMs: config.pollMs,
      mayWrite,
      timing,
      log,
      onDecision: (decision) => metrics.decided(decision),
    });
    this.closers.push(
      () => executors.close(),
      () => check.close(),
      () => busy?.close(),
      () => kubernetes.close(),
    );
    log.info(
      { server: kubernetes.server, namespace, lease: config.lease, executors: executors.current.length },
      'the cluster is known',
    );
    this.running = this.election.run(this.stopping.signal, (signal) => this.lead(signal));
  }

  async onApplicationShutdown(): Promise<void> {
    this.stopping.abort();
    await this.running;
    for (const close of this.closers) await close();
  }

  private makePods(
    kubernetes: KubernetesConnection,
    namespace: string,
    check: PodCheck,
    stored: KvSnapshot<FoundProvider>,
    mayWrite: () => boolean,
  ): LlamaPods {
    const { config } = this;
    const namespaces = config.discovery ? (config.llamaNamespaces?.split(',') ?? [namespace]) : [];
    return new LlamaPods({
      sources: new Map(
        [...new Set(namespaces)].map((name) => [name, new EndpointSliceSource(kubernetes, name, config.llamaSelector)]),
      ),
      ownNamespace: namespace,
      watch: { ...WATCH_SETTINGS, watchMs: config.watchS * 1000, relistMs: config.relistMs },
      check,
      checkMs: config.checkMs,
      config: () => this.platform.current,
      store: this.bus.kv(BUCKETS.providers),
      stored,
      mayWrite,
      timing: systemTiming,
      log: this.log,
    });
  }

  private async lead(signal: AbortSignal): Promise<void> {
    this.log.info('leads from now on');
    await Promise.all([this.pods.run(signal), this.scaling.run(signal), this.report(signal)]);
    this.log.info('leads no longer');
  }

  /** Says what was seen and decided, for `GET /v1/fleet`. */
  private async report(signal: AbortSignal): Promise<void> {
    let writtenAt = -Infinity;
    while (!signal.aborted) {
      await systemTiming.sleep(REPORT_SOON_MS, signal);
      const view = viewOf({
        leader: this.service.instance,
        now: Date.now(),
        executors: this.scaling.reports.values(),
        pods: this.pods.states,
        decisions: this.scaling.decisions,
        watches: this.pods.reports,
        staleMs: STALE_MS,
      });
      const { executors, pods, decisions } = view;
      // Without the times that change at each look.
      const text = JSON.stringify(
        { executors: executors?.map((one) => ({ ...one, decidedMs: 0n })), pods, decisions },
        (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
      );
      const now = systemTiming.now();
      if (text === this.reported && now - writtenAt < REPORT_MS) continue;
      if (!this.election.isLeader()) continue;
      try {
        await this.record.write(view);
        this.reported = text;
        writtenAt = now;
      } catch (error) {
        this.log.warn({ err: error }, 'what the fleet does could not be written for GET /v1/fleet');
      }
    }
  }
}
