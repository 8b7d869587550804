import fc from 'fast-check';
import { expect, test } from 'vitest';
import { render, renderText } from './helm.ts';
import { ofKind, pods, selects, workloads } from './manifest.ts';
import { parseExecutors } from '../../services/fleet/src/scaling/executors-file.ts';
import { problemsOf } from './strict-types.ts';

const scaler = fc.record({ mode: fc.constantFrom('auto', 'none', 'keda', 'hpa'), min: fc.integer({ min: 1, max: 3 }) });
const service = fc.record(
  {
    replicas: fc.integer({ min: 0, max: 3 }),
    autoscaling: fc.record({ enabled: fc.boolean() }),
    drainSeconds: fc.integer({ min: 0, max: 900 }),
    preStopSeconds: fc.integer({ min: 0, max: 20 }),
    networkPolicy: fc.record({ enabled: fc.boolean() }),
    env: fc.dictionary(fc.constantFrom('A', 'YM_LOG_LEVEL', 'NODE_OPTIONS'), fc.constantFrom('x', 'y'), { maxKeys: 3 }),
  },
  { requiredKeys: [] },
);
const values = fc.record(
  {
    nameOverride: fc.constantFrom('', 'other'),
    api: service,
    dispatcher: service,
    router: service,
    registry: service,
    fleet: fc.record(
      {
        enabled: fc.boolean(),
        replicas: fc.integer({ min: 0, max: 3 }),
        deletionCost: fc.record({ enabled: fc.boolean() }),
      },
      { requiredKeys: [] },
    ),
    llamaReleases: fc.constantFrom({}, { enabled: true }, { enabled: true, namespaces: ['gpu', 'yard'] }),
    executors: fc.record(
      {
        shell: fc.record({
          sandbox: fc.record({ mode: fc.constantFrom('auto', 'bwrap', 'pod') }),
          slots: fc.integer({ min: 1, max: 16 }),
        }),
        python: fc.record({
          image: fc.constant({ repository: 'team/python', tag: '1' }),
          scaler,
          replicas: fc.integer({ min: 1, max: 3 }),
        }),
      },
      { requiredKeys: [] },
    ),
    workspaces: fc.constantFrom(
      {},
      { shared: { colocate: true } },
      { shared: { accessMode: 'ReadWriteOnce' } },
      { shared: { existingClaim: 'c' } },
    ),
    nats: fc.record({ replicas: fc.constantFrom(1, 3) }),
    redis: fc.record({ auth: fc.record({ existingSecret: fc.constantFrom('', 'r') }) }),
    podDisruptionBudget: fc.record({ enabled: fc.boolean() }),
    networkPolicy: fc.record({ defaultDeny: fc.boolean() }),
    llama: fc.constantFrom({}, { enabled: true, model: { existingClaim: 'm' } }),
    global: fc.record({ imageRegistry: fc.constantFrom('', 'mirror.example.com') }),
  },
  { requiredKeys: [] },
);

test(
  'whatever is switched on and off, the objects are valid, unique, restricted and end in time',
  { timeout: 300_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(values, fc.constantFrom('ym', 'a-long-release-name'.padEnd(53, 'x')), async (set, release) => {
        const manifests = render({ values: set, release });
        expect(renderText({ values: set, release, helm: 'helm3' })).toBe(renderText({ values: set, release }));
        expect((await Promise.all(manifests.map(problemsOf))).flat()).toEqual([]);
        const keys = manifests.map(({ kind, metadata }) => `${kind} ${metadata.namespace} ${metadata.name}`);
        expect(new Set(keys).size).toBe(keys.length);
        for (const { owner, spec, all, component } of pods(manifests)) {
          expect(spec.automountServiceAccountToken).toBe(component === 'fleet');
          for (const { name, securityContext, env = [] } of all) {
            expect(securityContext, name).toMatchObject({
              allowPrivilegeEscalation: false,
              readOnlyRootFilesystem: true,
              capabilities: { drop: ['ALL'] },
            });
            const names = env.map((one) => one.name);
            expect(new Set(names).size).toBe(names.length);
            const drain = Number(env.find((one) => one.name === 'YM_DRAIN_MS')?.value ?? 0) / 1000;
            if (owner.kind === 'Deployment')
              expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(drain + 5);
          }
        }
        const file = ofKind(manifests, 'ConfigMap').find(({ data }) => data?.['executors.yaml'] !== undefined);
        const scaled = [
          ...ofKind(manifests, 'ScaledObject', 'HorizontalPodAutoscaler').map(({ spec }) => spec.scaleTargetRef.name),
          ...parseExecutors(file?.data?.['executors.yaml'] ?? '').map(({ deployment }) => deployment),
        ];
        expect(new Set(scaled).size).toBe(scaled.length);
        for (const { metadata, spec } of workloads(manifests))
          expect(spec.replicas === undefined).toBe(scaled.includes(metadata.name));
        for (const { spec } of ofKind(manifests, 'PodDisruptionBudget')) {
          const [of] = workloads(manifests).filter((one) =>
            selects(spec.selector.matchLabels, one.spec.template.metadata.labels),
          );
          expect(of!.spec.replicas ?? 2).toBeGreaterThan(1);
        }
      }),
      { numRuns: 30 },
    );
  },
);
