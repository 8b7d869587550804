import { afterEach, beforeEach, expect, it } from 'vitest';
import { V1MicroTime } from '@kubernetes/client-node';
import { FakeApiServer } from '../fake-api-server.js';
import { KubernetesConnection } from '../kubernetes/connection.js';
import { systemTiming, type Timing } from '../kubernetes/timing.js';
import { electionTimes, LeaderElection } from './leader-election.js';

let server: FakeApiServer;
const stops: AbortController[] = [];
const runs: Promise<void>[] = [];
const connections: KubernetesConnection[] = [];
const problems: string[] = [];

beforeEach(async () => {
  server = await new FakeApiServer().start();
});
afterEach(async () => {
  for (const stop of stops) stop.abort();
  await Promise.all(runs);
  for (const connection of connections.splice(0)) await connection.close();
  await server.stop();
});

interface Candidate {
  election: LeaderElection;
  stop: AbortController;
  /** Time spans of leading. */
  spans: { from: number; to: number | undefined }[];
  run: Promise<void>;
}

function candidate(identity: string, leaseMs = 1_000, timing: Timing = systemTiming): Candidate {
  const kubernetes = new KubernetesConnection(server.kubeConfig());
  connections.push(kubernetes);
  const election = new LeaderElection(
    kubernetes.coordination,
    { namespace: 'yard', name: 'fleet', identity, ...electionTimes(leaseMs) },
    timing,
    (problem) => problems.push(`${identity}: ${problem}`),
  );
  const stop = new AbortController();
  const spans: Candidate['spans'] = [];
  const run = election.run(stop.signal, async (signal) => {
    const span: Candidate['spans'][number] = { from: performance.now(), to: undefined };
    spans.push(span);
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    span.to = performance.now();
  });
  stops.push(stop);
  runs.push(run);
  return { election, stop, spans, run };
}
const leads = ({ election }: Candidate) => election.isLeader();

it('one of many leads, and gives the Lease back when it ends', async () => {
  const all = ['a', 'b', 'c'].map((name) => candidate(name, 15_000));
  await expect.poll(() => all.filter(leads).length, { timeout: 10_000 }).toBe(1);
  const [first] = all.filter(leads);
  const lease = server.leases.get('fleet')!;
  expect(lease.spec).toMatchObject({
    holderIdentity: expect.stringMatching(/^[abc]$/) as string,
    leaseDurationSeconds: 15,
  });
  first!.stop.abort();
  await first!.run;
  // Given back, not waited for.
  expect(problems).toEqual([]);
  await expect.poll(() => all.filter((one) => one !== first && leads(one)).length, { timeout: 12_000 }).toBe(1);
});

it('a leader that is cut off stops before another begins', async () => {
  const a = candidate('a', 1_500);
  await expect.poll(() => leads(a), { timeout: 10_000 }).toBe(true);
  const b = candidate('b', 1_500);
  server.intercept = ({ method, body }) =>
    method === 'PUT' && (body as { spec: { holderIdentity: string } }).spec.holderIdentity === 'a' ? 500 : undefined;
  await expect.poll(() => leads(b), { timeout: 10_000 }).toBe(true);
  expect(leads(a)).toBe(false);
  expect(a.spans[0]!.to).toBeLessThan(b.spans[0]!.from);
});

it('a server that does not answer at all ends the leading too, in its time', async () => {
  const a = candidate('a', 1_500);
  await expect.poll(() => leads(a), { timeout: 10_000 }).toBe(true);
  let release = (): void => undefined;
  const held = new Promise<undefined>((resolve) => (release = () => resolve(undefined)));
  server.intercept = () => held;
  await expect.poll(() => a.spans[0]!.to, { timeout: 5_000 }).toBeDefined();
  expect(a.spans[0]!.to! - a.spans[0]!.from).toBeLessThan(1_500 + 1_000);
  release();
  server.intercept = () => undefined;
  await expect.poll(() => leads(a), { timeout: 10_000 }).toBe(true);
  expect(a.spans).toHaveLength(2);
});

it('of two that write at once one gets the conflict and does not lead', async () => {
  // Both have read before either writes.
  let reads = 0;
  let bothRead = (): void => undefined;
  const both = new Promise<undefined>((resolve) => (bothRead = () => resolve(undefined)));
  server.intercept = ({ method, path }) => {
    if (method !== 'GET' || !path.endsWith('/fleet') || reads >= 2) return undefined;
    if (++reads === 2) bothRead();
    return both;
  };
  const all = [candidate('a'), candidate('b')];
  await expect.poll(() => all.filter(leads).length, { timeout: 10_000 }).toBe(1);
  for (let i = 0; i < 20; i++) {
    expect(all.filter(leads).length).toBeLessThanOrEqual(1);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
});

it('clocks of others are not believed: a Lease counts as lapsed when it stood still for its time', async () => {
  const old = new V1MicroTime(Date.now() - 3_600_000);
  const future = new V1MicroTime(Date.now() + 3_600_000);
  for (const renewTime of [old, future]) {
    server.leases.set('fleet', {
      metadata: { name: 'fleet', namespace: 'yard', resourceVersion: '7' },
      spec: { holderIdentity: 'gone', leaseDurationSeconds: 1, renewTime, acquireTime: renewTime, leaseTransitions: 3 },
    });
    const startedAt = performance.now();
    const a = candidate('a');
    await expect.poll(() => leads(a), { timeout: 5_000 }).toBe(true);
    expect(a.spans[0]!.from - startedAt).toBeGreaterThanOrEqual(1_000);
    expect(server.leases.get('fleet')!.spec!.leaseTransitions).toBe(4);
    a.stop.abort();
    await a.run;
  }
});

it('a leading that fails begins anew', async () => {
  const kubernetes = new KubernetesConnection(server.kubeConfig());
  connections.push(kubernetes);
  const problems: string[] = [];
  const election = new LeaderElection(
    kubernetes.coordination,
    { namespace: 'yard', name: 'fleet', identity: 'a', ...electionTimes(1_000) },
    systemTiming,
    (problem) => problems.push(problem),
  );
  const stop = new AbortController();
  stops.push(stop);
  let begun = 0;
  runs.push(
    election.run(stop.signal, (signal) => {
      if (++begun === 1) return Promise.reject(new Error('it broke'));
      return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    }),
  );
  await expect.poll(() => begun, { timeout: 5_000 }).toBe(2);
  expect(problems).toEqual(['leading failed: it broke']);
  expect(election.isLeader()).toBe(true);
});
