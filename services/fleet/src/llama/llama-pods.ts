import { readFileSync } from 'node:fs';
import type { V1EndpointSlice } from '@kubernetes/client-node';
import type { KeyValues, KvSnapshot } from '@yardmaster/bus';
import type { FoundProvider, Logger, PlatformConfig, ProviderConfig } from '@yardmaster/service-kit';
import type { Timing } from '../kubernetes/timing.js';
import {
  SupervisedWatch,
  type WatchReport,
  type WatchSettings,
  type WatchSource,
} from '../kubernetes/supervised-watch.js';
import { endpointsOf, type LlamaEndpoint, providersByService } from './endpoints.js';
import { foundProvider, providerKey } from './found-provider.js';
import type { PodCheck } from './pod-check.js';
import { newPod, nextState, type PodState } from './pod-state.js';

export interface LlamaPodsOptions {
  /** By namespace. */
  sources: ReadonlyMap<string, WatchSource<V1EndpointSlice>>;
  ownNamespace: string;
  watch: WatchSettings;
  check: PodCheck;
  checkMs: number;
  config: () => PlatformConfig;
  store: Pick<KeyValues, 'put' | 'delete'>;
  /** What is in the store now. */
  stored: Pick<KvSnapshot<FoundProvider>, 'current'>;
  mayWrite: () => boolean;
  timing: Timing;
  log: Logger;
}

/** `/props` is read again after so many checks: a server may be restarted behind the same address. */
const PROPS_EVERY = 12;
/** Without a complete list for longer than this the pods are said to be stale; they are still served from. */
export const STALE_MS = 600_000;

/** Finds llama.cpp servers, asks how they are, and tells the router, for as long as it leads. */
export class LlamaPods {
  private readonly watches = new Map<string, SupervisedWatch<V1EndpointSlice>>();
  private readonly pods = new Map<string, PodState>();
  private readonly checking = new Map<string, Promise<void>>();
  private readonly checks = new Map<string, number>();
  private readonly complained = new Set<string>();
  private stop: AbortSignal = AbortSignal.abort();
  private startedAt = 0;
  private writing: Promise<void> | undefined;
  private writeAgain = false;
  /** What is in the store; ahead of the watch on it, which takes a moment. */
  private written = new Map<string, string>();

  constructor(private readonly options: LlamaPodsOptions) {}

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { sources, timing, watch: settings, checkMs, log } = this.options;
    this.pods.clear();
    this.checks.clear();
    this.watches.clear();
    this.stop = signal;
    this.startedAt = timing.now();
    for (const [namespace, source] of sources) {
      const problem = (text: string) => log.warn({ namespace }, `llama.cpp servers cannot be followed: ${text}`);
      this.watches.set(namespace, new SupervisedWatch(source, timing, settings, () => this.learn(), problem));
    }
    const running = [...this.watches.values()].map((watch) => watch.run(signal));
    while (!signal.aborted) {
      for (const key of this.pods.keys()) this.check(key);
      // Also what another leader left, or what could not be written before.
      this.written = new Map([...this.options.stored.current].map(([key, entry]) => [key, JSON.stringify(entry)]));
      this.write();
      await timing.sleep(checkMs * (0.9 + 0.2 * timing.random()), signal);
    }
    await Promise.all([...running, ...this.checking.values(), this.writing]);
  }

  get states(): PodState[] {
    return [...this.pods.values()];
  }

  /** `ageMs`: of the last complete list, if there is one; `unheardMs`: since then, or since this replica leads. */
  get reports(): { namespace: string; report: WatchReport; ageMs: number | undefined; unheardMs: number }[] {
    const now = this.options.timing.now();
    return [...this.watches].map(([namespace, { report }]) => ({
      namespace,
      report,
      ageMs: report.listedAt === undefined ? undefined : now - report.listedAt,
      unheardMs: now - (report.listedAt ?? this.startedAt),
    }));
  }

  /** Kubernetes said something new. */
  private learn(): void {
    if (this.stop.aborted) return;
    const { config, ownNamespace } = this.options;
    const slices = [...this.watches.values()].flatMap((watch) => [...watch.current.values()]);
    const names = providersByService(config().providers, ownNamespace);
    const found = endpointsOf(slices, names, (problem) => this.complain(problem));
    const keys = new Set<string>();
    for (const endpoint of found) {
      const key = providerKey(endpoint);
      keys.add(key);
      const known = this.pods.get(key);
      // Another address under the same name is another server.
      const isSame = known?.endpoint.address === endpoint.address;
      if (isSame) this.change(key, { endpoint });
      else this.pods.set(key, nextState(this.inherited(key, endpoint), { endpoint, now: Date.now() }));
      if (!isSame || known?.phase === 'draining') this.checks.delete(key);
      if (!isSame || this.pods.get(key)?.phase === 'unchecked') this.check(key);
    }
    for (const key of this.pods.keys())
      if (!keys.has(key)) {
        this.pods.delete(key);
        this.checks.delete(key);
      }
    this.write();
  }

  /** A pod that another leader served from stays served from until this one has asked it. */
  private inherited(key: string, endpoint: LlamaEndpoint): PodState {
    const pod = newPod(endpoint, Date.now());
    const before = this.options.stored.current.get(key);
    if (before?.found?.phase !== 'ready' || before.base_url !== `http://${endpoint.address}/v1`) return pod;
    const { slots, context, native_tools: nativeTools, vision, models } = before;
    const capabilities: PodState['capabilities'] = {
      ...(slots === undefined ? {} : { slots }),
      ...(context === undefined ? {} : { context }),
      ...(nativeTools === undefined ? {} : { nativeTools }),
      ...(vision === undefined ? {} : { vision }),
      ...(models?.[0] === undefined ? {} : { model: models[0] }),
    };
    return { ...pod, phase: 'ready', reason: '', capabilities, since: before.found.since_ms };
  }

  private change(key: string, news: Omit<Parameters<typeof nextState>[1], 'now'>): void {
    const pod = this.pods.get(key);
    if (pod === undefined) return;
    const next = nextState(pod, { ...news, expected: this.configOf(pod.endpoint) ?? {}, now: Date.now() });
    this.pods.set(key, next);
    if (next.phase === pod.phase && next.reason === pod.reason) return;
    const { provider, pod: name, address } = next.endpoint;
    this.options.log.info(
      { provider, pod: name, address, phase: next.phase, reason: next.reason },
      'a llama.cpp server changed',
    );
  }

  private check(key: string): void {
    const pod = this.pods.get(key);
    if (pod === undefined || this.checking.has(key) || this.stop.aborted) return;
    const { address } = pod.endpoint;
    const done = this.checks.get(key) ?? 0;
    // Its capabilities may be another server's after it was away.
    const withProps = done % PROPS_EVERY === 0 || pod.phase !== 'ready';
    const asking = this.options.check
      .check(address, withProps, keyOf(this.configOf(pod.endpoint)), this.stop)
      .then((check) => {
        if (this.stop.aborted || this.pods.get(key)?.endpoint.address !== address) return;
        if (check.health === 'ok') {
          this.checks.set(key, done + 1);
          if (check.propsProblem !== undefined)
            this.complain(`what a llama.cpp server can do is not known: ${pod.endpoint.pod}: ${check.propsProblem}`);
        }
        this.change(key, { check });
        this.write();
      })
      .finally(() => this.checking.delete(key));
    this.checking.set(key, asking);
  }

  private configOf({ provider }: LlamaEndpoint): ProviderConfig | undefined {
    return this.options.config().providers[provider];
  }

  private complain(text: string): void {
    if (this.complained.has(text)) return;
    // Names of pods come and go for ever.
    if (this.complained.size > 1000) this.complained.clear();
    this.complained.add(text);
    this.options.log.warn(text);
  }

  /** Brings the store to what is known. One at a time; asked again meanwhile, it goes once more. */
  private write(): void {
    this.writeAgain = true;
    this.writing ??= (async () => {
      while (this.writeAgain && !this.stop.aborted) {
        this.writeAgain = false;
        await this.writeOnce();
      }
    })().finally(() => (this.writing = undefined));
  }

  /**
   * Of what is not found: once its namespace has been read, or is not looked at any more. A namespace that cannot be read
   * keeps its own entries and no others. What somebody else wrote is not ours to take.
   */
  private isGone({ found }: Partial<FoundProvider>): boolean {
    if (found === undefined) return false;
    const watch = this.watches.get(found.namespace);
    return watch === undefined || watch.report.lists > 0;
  }

  private async writeOnce(): Promise<void> {
    const { store, mayWrite, log } = this.options;
    const wanted = new Map([...this.pods].map(([key, pod]) => [key, JSON.stringify(foundProvider(pod, Date.now()))]));
    try {
      for (const [key, text] of wanted) {
        if (this.written.get(key) === text) continue;
        if (!mayWrite()) return;
        await store.put(key, text);
        this.written.set(key, text);
      }
      for (const [key, text] of this.written) {
        if (wanted.has(key) || !this.isGone(JSON.parse(text) as Partial<FoundProvider>)) continue;
        if (!mayWrite()) return;
        await store.delete(key);
        this.written.delete(key);
      }
    } catch (error) {
      log.warn({ err: error }, 'what is known of llama.cpp servers could not be written; it is tried again');
    }
  }
}

/** The key that the provider's entry names. Read each time: it may be rotated. */
function keyOf(entry: ProviderConfig | undefined): string | undefined {
  const reference = entry?.keys?.[0] ?? { env: entry?.key_env, file: entry?.key_file };
  try {
    if (reference.file !== undefined) return readFileSync(reference.file, 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
  return reference.env === undefined ? undefined : keyFromEnvironment(reference.env);
}

// The only way to a variable whose name stands in a configuration file.
const keyFromEnvironment = (name: string): string | undefined => process.env[name]?.trim() || undefined;
