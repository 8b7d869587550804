import type { FoundProvider, PlatformConfig, PodPhase } from '@yardmaster/service-kit';
import { describe, expect, it } from 'vitest';
import { balanceCandidates } from '../failover/balancing.js';
import { EndpointLoad } from '../failover/endpoint-load.js';
import { isServing, plan, toCandidate } from './candidates.js';
import { providerTable } from './provider-table.js';

const config = (providers: PlatformConfig['providers']): PlatformConfig => ({
  providers,
  routing: {},
  agents: {},
  approvals: {},
  mcpServers: {},
  mcpEgress: [],
  executors: [],
  warnings: [],
});
const pod = (name: string, phase: PodPhase = 'ready', more: Partial<FoundProvider> = {}): FoundProvider => ({
  kind: 'llamacpp',
  base_url: `http://10.0.0.${name.charCodeAt(0)}:8080/v1`,
  slots: 2,
  context: 4096,
  native_tools: true,
  models: ['qwen'],
  ...more,
  found: {
    provider: 'local',
    pod: name,
    namespace: 'yard',
    node: 'n',
    phase,
    reason: phase === 'ready' ? '' : 'because',
    since_ms: 0,
    seen_ms: 0,
  },
});
const local = { kind: 'llamacpp', base_url: 'http://ym-llama:8080/v1' };
const other = { kind: 'custom:http://10.9.9.9:8080/v1' };
const wish = {
  model: 'qwen',
  providers: [],
  modelFallbacks: {},
  toolDispatcher: 'auto' as const,
  needsTools: false,
  needsVision: false,
};
const places = (found: FoundProvider[], providers: PlatformConfig['providers'] = { local, other }, stale = false) =>
  plan(wish, providerTable(config(providers), {}, found), {}, stale).candidates.map(
    ({ entry, standIn, unusable }) =>
      `${entry.pod?.name ?? entry.name}${standIn ? ' (stands in)' : ''}: ${unusable ?? 'ok'}`,
  );

describe('a provider whose pods are known', () => {
  it('is its pods, then the address that stands for all of them, then the others', () => {
    expect(places([pod('a'), pod('b')])).toEqual(['a: ok', 'b: ok', 'local (stands in): ok', 'other: ok']);
  });

  it.each<PodPhase>(['loading', 'draining', 'unhealthy', 'unchecked'])('nothing goes to a pod that is %s', (phase) => {
    const [a, b, ...rest] = places([pod('a', phase), pod('b')]);
    expect(a).toMatch(/^a: (is|has)/);
    expect([b, ...rest]).toEqual(['b: ok', 'local (stands in): ok', 'other: ok']);
  });

  it('is of one kind with them: what was found under the name of another kind gets neither requests nor a key', () => {
    const cloud = { kind: 'anthropic', key_env: 'CLOUD_KEY' };
    const table = providerTable(config({ local: cloud }), { CLOUD_KEY: 'k' }, [pod('a')]);
    expect(table.pods.size).toBe(0);
    expect(table.providers.get('local')?.baseUrl).toContain('anthropic.com');
    expect(table.warnings).toEqual([
      'provider "local" is "anthropic", and a "llamacpp" was found under its name: left out',
    ]);
    for (const kind of ['llama-server', 'llamacpp-completion'])
      expect(providerTable(config({ local: { ...local, kind } }), {}, [pod('a')]).pods.size, kind).toBe(1);
  });

  it('nothing goes to it by its address either while none of its pods is ready', () => {
    expect(places([pod('a', 'loading'), pod('b', 'draining')])).toEqual([
      'a: is loading: because',
      'b: is draining: because',
      'local (stands in): has no pod that is ready',
      'other: ok',
    ]);
  });

  it('when nobody has said anything for long its address is tried again, whatever was said last', () => {
    expect(places([pod('a', 'loading')], { local }, true)).toEqual(['a: is loading: because', 'local (stands in): ok']);
  });

  it('what was planned is served only while it still is: pods as they are now, their common address by all of them', () => {
    const planned = plan(wish, providerTable(config({ local, other }), {}, [pod('a'), pod('b')]), {}).candidates.map(
      (one) => toCandidate(one, {}),
    );
    const serving = (found: FoundProvider[], stale = false) => {
      const now = providerTable(config({ local, other }), {}, found);
      return planned.filter((one) => isServing(one, now, stale)).map((one) => one.pod ?? one.provider);
    };
    expect(serving([pod('a'), pod('b')])).toEqual(['a', 'b', 'local', 'other']);
    expect(serving([pod('a', 'draining'), pod('b')])).toEqual(['b', 'local', 'other']);
    expect(serving([pod('b')])).toEqual(['b', 'local', 'other']);
    expect(serving([pod('a', 'draining'), pod('b', 'loading')])).toEqual(['other']);
    expect(serving([pod('a', 'draining'), pod('b', 'loading')], true)).toEqual(['local', 'other']);
    // Another pod under the same name is another server.
    expect(serving([pod('a', 'ready', { base_url: 'http://10.7.7.7:8080/v1' })])).toEqual(['local', 'other']);
    expect(serving([])).toEqual(['local', 'other']);
  });

  it('needs no entry in the configuration', () => {
    expect(places([pod('a')], {})).toEqual(['a: ok']);
  });

  it('a chain may name it, with or without an entry', () => {
    const table = providerTable(config({}), {}, [pod('a')]);
    expect(plan({ ...wish, providers: ['local', 'nobody'] }, table, {})).toMatchObject({
      candidates: [{ entry: { name: 'local' } }],
      warnings: ['there is no usable provider "nobody"; it is left out'],
    });
  });

  it('its pods take over what people wrote, and what they say of themselves where nobody did', () => {
    const table = providerTable(config({ local: { ...local, native_tools: false, timeout_s: 7, auth: 'none' } }), {}, [
      pod('a'),
    ]);
    const [planned] = plan(wish, table, {}).candidates;
    expect(planned!.entry).toMatchObject({ name: 'local', nativeTools: false, baseUrl: 'http://10.0.0.97:8080/v1' });
    expect(toCandidate(planned!, {})).toMatchObject({
      provider: 'local',
      pod: 'a',
      slots: 2,
      contextTokens: 4096,
      timeouts: { totalMs: 7_000 },
    });
  });
});

describe('the order of pods', () => {
  const candidates = (found: FoundProvider[], providers = { local, other }) => {
    const { candidates } = plan(wish, providerTable(config(providers), {}, found), {});
    return candidates.filter(({ unusable }) => unusable === undefined).map((one) => toCandidate(one, {}));
  };
  const order = (sticky: string, load = new EndpointLoad(), how: 'priority' | 'weighted' | 'least_busy' = 'priority') =>
    balanceCandidates(candidates([pod('a'), pod('b'), pod('c')]), how, sticky, load, Math.random).map(
      (one) => one.pod ?? one.provider,
    );

  it('a conversation keeps its pod, and the address that stands for all of them never comes first', () => {
    for (let i = 0; i < 50; i++) {
      const first = order(`c${i}`);
      expect(order(`c${i}`)).toEqual(first);
      expect(first.slice(3)).toEqual(['local', 'other']);
    }
    expect(new Set(Array.from({ length: 50 }, (_, i) => order(`c${i}`)[0]))).toEqual(new Set(['a', 'b', 'c']));
  });

  it('by weight or by load the provider is one place: its pods stay together, and by affinity', () => {
    for (const how of ['weighted', 'least_busy'] as const)
      for (let i = 0; i < 30; i++) {
        const names = order(`c${i}`, new EndpointLoad(), how).filter((name) => name !== 'other');
        expect(names).toEqual(order(`c${i}`).slice(0, 4));
      }
  });

  it('a pod without a free slot comes after those that have one', () => {
    const home = order('c1')[0]!;
    const load = new EndpointLoad();
    const full = candidates([pod('a'), pod('b'), pod('c')]).find((one) => one.pod === home)!;
    for (let i = 0; i < 2; i++) load.enter(`${full.provider} ${full.baseUrl}`);
    expect(order('c1', load)[2]).toBe(home);
  });

  it('ten thousand conversations: a fifth pod takes a fifth, and a lost one gives away only its own', () => {
    const homes = (names: string[]) => {
      const all = candidates(
        names.map((name) => pod(name)),
        {} as never,
      );
      return Array.from(
        { length: 10_000 },
        (_, i) => balanceCandidates(all, 'priority', `c${i}`, new EndpointLoad(), Math.random)[0]!.pod!,
      );
    };
    const four = homes(['a', 'b', 'c', 'd']);
    const five = homes(['a', 'b', 'c', 'd', 'e']);
    const moved = four.filter((home, i) => home !== five[i]).length / four.length;
    expect(moved).toBeGreaterThan(0.17);
    expect(moved).toBeLessThan(0.23);
    expect(five.every((home, i) => home === 'e' || home === four[i])).toBe(true);
  });
});
