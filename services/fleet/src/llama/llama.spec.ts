import type { V1EndpointSlice } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { endpointsOf, providersByService } from './endpoints.js';
import type { CheckResult } from './pod-check.js';
import { newPod, nextState, type PodState } from './pod-state.js';
import { readProps } from './props.js';

const slice = (
  service: string,
  endpoints: NonNullable<V1EndpointSlice['endpoints']>,
  more: Partial<V1EndpointSlice> = {},
  labels: Record<string, string> = {},
): V1EndpointSlice => ({
  addressType: 'IPv4',
  ports: [{ name: 'http', port: 8080 }],
  endpoints,
  ...more,
  metadata: { name: `${service}-x1`, namespace: 'yard', labels: { 'kubernetes.io/service-name': service, ...labels } },
});
const at = (ip: string, conditions = {}, pod = `pod-${ip.at(-1)}`) => ({
  addresses: [ip],
  conditions,
  targetRef: { kind: 'Pod', name: pod },
});
const noConfig = { of: () => undefined, isForeign: () => false };

describe('EndpointSlices', () => {
  it('what is not said counts as ready; what ends is said to end', () => {
    const [a, b, c] = endpointsOf(
      [
        slice('llama', [
          at('10.0.0.1'),
          at('10.0.0.2', { ready: false }),
          at('10.0.0.3', { ready: false, serving: true, terminating: true }),
        ]),
      ],
      noConfig,
    );
    expect([a, b, c]).toMatchObject([
      { ready: true, terminating: false, address: '10.0.0.1:8080', pod: 'pod-1', provider: 'llama' },
      { ready: false, terminating: false },
      { ready: false, terminating: true },
    ]);
  });

  it('an address in two slices is one pod, and what either says against it counts', () => {
    for (const order of [0, 1]) {
      const two = [
        slice('llama', [at('10.0.0.1', { ready: true })]),
        slice('llama', [at('10.0.0.1', { ready: false })]),
      ];
      const found = endpointsOf(order === 0 ? two : two.reverse(), noConfig);
      expect(found).toMatchObject([{ ready: false }]);
    }
  });

  it('a pod with an address of each family is one pod, the same one whatever the order', () => {
    const two = [
      slice('llama', [at('fd00::1', { ready: true }, 'pod-1'), at('fd00::2', { ready: true }, 'pod-2')], {
        addressType: 'IPv6',
      }),
      slice('llama', [at('10.0.0.1', { ready: true }), at('10.0.0.2', { ready: false })]),
    ];
    for (const slices of [two, [...two].reverse()])
      expect(endpointsOf(slices, noConfig)).toMatchObject([
        { pod: 'pod-1', address: '10.0.0.1:8080', ready: true },
        { pod: 'pod-2', address: '10.0.0.2:8080', ready: false },
      ]);
  });

  it("no Service becomes a provider of another kind, by its name or a label: it would get that provider's keys", () => {
    const names = providersByService({ claude: { kind: 'anthropic' }, local: { kind: 'llama-server' } }, 'yard');
    const problems: string[] = [];
    const found = endpointsOf(
      [
        slice('claude', [at('10.0.0.1')]),
        slice('mine', [at('10.0.0.2')], {}, { 'yardmaster.dev/provider': 'claude' }),
        slice('other', [at('10.0.0.3')], {}, { 'yardmaster.dev/provider': 'local' }),
        slice('constructor', [at('10.0.0.4')]),
      ],
      names,
      (problem) => problems.push(problem),
    );
    expect(found.map(({ provider }) => provider)).toEqual(['local', 'constructor']);
    expect(problems).toEqual([
      expect.stringContaining('Service yard/claude would be the provider "claude"'),
      expect.stringContaining('Service yard/mine would be the provider "claude"'),
    ]);
  });

  it('of two Services with the same pods the one that the configuration names counts, in whatever order', () => {
    const named = { ...noConfig, of: (_: string, service: string) => (service === 'z-main' ? 'local' : undefined) };
    const two = [slice('a-pods', [at('10.0.0.1')]), slice('z-main', [at('10.0.0.1')])];
    for (const slices of [two, [...two].reverse()])
      expect(endpointsOf(slices, named)).toMatchObject([{ provider: 'local' }]);
  });

  it('IPv6 addresses are written as URLs have them; names are not followed; without a port there is nobody', () => {
    expect(endpointsOf([slice('l', [at('fd00::1')], { addressType: 'IPv6' })], noConfig)[0]!.address).toBe(
      '[fd00::1]:8080',
    );
    expect(endpointsOf([slice('l', [at('x.example.com')], { addressType: 'FQDN' })], noConfig)).toEqual([]);
    expect(endpointsOf([slice('l', [at('10.0.0.1')], { ports: [] })], noConfig)).toEqual([]);
    const two = [
      { name: 'metrics', port: 9090 },
      { name: 'grpc', port: 1 },
    ];
    expect(endpointsOf([slice('l', [at('10.0.0.1')], { ports: two })], noConfig)).toEqual([]);
  });

  it('a Service is the provider whose base_url names it, in its namespace; a label wins', () => {
    const of = providersByService(
      {
        near: { kind: 'llamacpp', base_url: 'http://ym-llama:8080/v1' },
        far: { kind: 'llama.cpp', base_url: 'http://ym-llama.gpu.svc:8080/v1' },
        cloud: { kind: 'openai', base_url: 'http://other:8080/v1' },
      },
      'yard',
    );
    const services = [
      ['yard', 'ym-llama'],
      ['gpu', 'ym-llama'],
      ['elsewhere', 'ym-llama'],
      ['yard', 'other'],
    ] as const;
    expect(services.map(([namespace, service]) => of.of(namespace, service))).toEqual([
      'near',
      'far',
      undefined,
      undefined,
    ]);
    const labelled = slice('ym-llama', [at('10.0.0.1')], {}, { 'yardmaster.dev/provider': 'qwen' });
    expect(endpointsOf([labelled], of)).toMatchObject([{ provider: 'qwen' }]);
    const wrong = slice('ym-llama', [at('10.0.0.1')], {}, { 'yardmaster.dev/provider': 'No Name' });
    expect(endpointsOf([wrong], of)).toMatchObject([{ provider: 'near' }]);
  });
});

describe('/props', () => {
  it('reads slots, context of a slot, tools, vision and the alias', () => {
    expect(
      readProps({
        total_slots: 4,
        default_generation_settings: { n_ctx: 8192 },
        chat_template_caps: { supports_tools: true, supports_tool_calls: true },
        modalities: { vision: true },
        model_alias: 'qwen3',
        model_path: '/m/q.gguf',
      }),
    ).toEqual({ slots: 4, context: 8192, nativeTools: true, vision: true, model: 'qwen3' });
  });
  it.each([
    [{ supports_tools: true, supports_tool_calls: false }, false],
    [{ supports_tools: false }, false],
    [{}, undefined],
  ])('caps %o: %s', (caps, tools) => expect(readProps({ chat_template_caps: caps }).nativeTools).toBe(tools));
  it('a file is no alias, and nonsense is nothing', () => {
    expect(readProps({ model_alias: '/m/q.gguf', model_path: '/m/q.gguf' })).toEqual({});
    for (const nonsense of [null, [], 'x', 7, { total_slots: -1, default_generation_settings: { n_ctx: '8' } }])
      expect(readProps(nonsense)).toEqual({});
  });
  it('what cannot be written down is nothing: numbers beyond 32 bits, half a surrogate, line breaks', () => {
    for (const model_alias of ['a\ud800', 'a\nb', 'a\u0085b', 'x'.repeat(201)])
      expect(readProps({ model_alias, total_slots: 2 ** 32, default_generation_settings: { n_ctx: 1e15 } })).toEqual(
        {},
      );
    expect(readProps({ model_alias: '큰-모델', total_slots: 2 ** 31 - 1 })).toEqual({
      model: '큰-모델',
      slots: 2 ** 31 - 1,
    });
  });
});

describe('the state of a pod', () => {
  const endpoint = (more = {}) => ({
    provider: 'local',
    namespace: 'yard',
    service: 'l',
    pod: 'p',
    node: '',
    address: '10.0.0.1:8080',
    ready: true,
    terminating: false,
    ...more,
  });
  const ok: CheckResult = { health: 'ok', capabilities: { slots: 2, context: 4096 } };
  const slow: CheckResult = { health: 'failed', refused: false, reason: 'no answer in time' };
  const gone: CheckResult = { health: 'failed', refused: true, reason: 'ECONNREFUSED' };
  const after = (news: (CheckResult | { endpoint: object })[], expected = {}): PodState =>
    news.reduce<PodState>(
      (pod, one) =>
        nextState(
          pod,
          'endpoint' in one ? { endpoint: endpoint(one.endpoint), expected, now: 1 } : { check: one, expected, now: 1 },
        ),
      newPod(endpoint(), 0),
    );
  it.each<[string, (CheckResult | { endpoint: object })[], string]>([
    ['at first nobody knows', [], 'unchecked'],
    ['503 is loading', [{ health: 'loading' }], 'loading'],
    ['not listening yet is loading', [gone, gone, gone], 'loading'],
    ['200 is ready', [gone, { health: 'loading' }, ok], 'ready'],
    ['one slow answer is bad luck', [ok, slow], 'ready'],
    ['two in a row are not', [ok, slow, slow], 'unhealthy'],
    ['nobody there: at once', [ok, gone], 'unhealthy'],
    ['it answers again', [ok, gone, ok], 'ready'],
    ['ready, slow, ready, slow', [ok, slow, ok, slow], 'ready'],
    ['Kubernetes ends it, whatever it answers', [ok, { endpoint: { terminating: true } }, ok], 'draining'],
    ['Kubernetes takes it out', [ok, { endpoint: { ready: false } }, ok], 'unhealthy'],
    ['and back in: asked first', [ok, { endpoint: { ready: false } }, { endpoint: {} }, ok], 'ready'],
    ['a model that is loaded anew', [ok, { health: 'loading' }], 'loading'],
  ])('%s', (_, news, phase) => expect(after(news).phase).toBe(phase));
  it('less than the configuration says is unhealthy, in words', () => {
    expect(after([ok], { context: 8192 })).toMatchObject({
      phase: 'unhealthy',
      reason: 'a slot has 4096 tokens of context; the configuration says 8192',
    });
    expect(after([ok], { slots: 4 }).reason).toBe('it has 2 slots; the configuration says 4');
    expect(after([ok], { context: 4096, slots: 2 }).phase).toBe('ready');
  });
});
