import type { FoundProvider, PlatformConfig } from '@yardmaster/service-kit';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ProviderDirectory } from './provider-directory.js';

const MINUTE = 60_000;
const config: PlatformConfig = {
  providers: { local: { kind: 'llamacpp', base_url: 'http://ym-llama:8080/v1' } },
  routing: { default_model: 'qwen' },
  agents: {},
  approvals: {},
  mcpServers: {},
  mcpEgress: [],
  executors: [],
  warnings: [],
};
const pod = (phase: FoundProvider['found']['phase']): FoundProvider => ({
  kind: 'llamacpp',
  base_url: 'http://10.0.0.1:8080/v1',
  models: ['qwen'],
  found: { provider: 'local', pod: 'a', namespace: 'yard', node: 'n', phase, reason: '', since_ms: 0, seen_ms: 0 },
});
const wish = {
  model: 'qwen',
  providers: [],
  modelFallbacks: {},
  toolDispatcher: 'auto' as const,
  needsTools: false,
  needsVision: false,
};

/** The bucket of the fleet, as far as the directory sees it. */
class Bucket {
  current = new Map<string, FoundProvider>();
  private readonly listeners: (() => void)[] = [];
  readonly watch = () => Promise.resolve(this);
  readonly onChange = (listener: () => void) => this.listeners.push(listener);
  put(found: FoundProvider): void {
    this.current.set('local/yard/a', found);
    for (const listener of this.listeners) listener();
  }
}

beforeEach(() => vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => vi.useRealTimers());

it('when the fleet has said nothing for three minutes the address of a provider stands in for its pods', async () => {
  const bucket = new Bucket();
  const directory = new ProviderDirectory(
    bucket as never,
    { warn: () => undefined } as never,
    { current: config, onChange: () => undefined } as never,
  );
  await directory.onApplicationBootstrap();
  const usable = () => directory.plan(wish).usable.map(({ entry }) => entry.pod?.name ?? entry.name);
  bucket.put(pod('loading'));
  expect(usable()).toEqual([]);
  vi.advanceTimersByTime(2.9 * MINUTE);
  expect(usable()).toEqual([]);
  // Each minute the fleet says the same again.
  bucket.put(pod('loading'));
  vi.advanceTimersByTime(2.9 * MINUTE);
  expect(usable()).toEqual([]);
  vi.advanceTimersByTime(0.2 * MINUTE);
  expect(usable()).toEqual(['local']);
  bucket.put(pod('ready'));
  expect(usable()).toEqual(['a', 'local']);
});
