import { readFileSync } from 'node:fs';

/** What the API server notes of one request of the fleet (audit.k8s.io/v1), as far as it is looked at. */
interface Event {
  verb: string;
  user: { extra?: Record<string, string[]> };
  objectRef: { resource: string; subresource?: string; name: string };
  responseStatus: { code: number };
  requestObject?: any; // eslint-disable-line @typescript-eslint/no-explicit-any
  stageTimestamp: string;
}

/** A number that was written to a Deployment, and who held the Lease then. Writers are known by the token they use. */
export interface ScaleWrite {
  deployment: string;
  pods: number;
  writer: string;
  /** The token of whoever wrote the Lease last; undefined when that was to give it back. */
  holder: string | undefined;
  /** How long before this the Lease was written. */
  leaseAgeMs: number;
}

/** Notes what a service account does to Leases and to the scale of Deployments, and nothing else. */
export const auditPolicy = (user: string) => ({
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    {
      level: 'Request',
      users: [user],
      verbs: ['create', 'update', 'patch'],
      resources: [
        { group: 'coordination.k8s.io', resources: ['leases'] },
        { group: 'apps', resources: ['deployments/scale'] },
      ],
    },
    { level: 'None' },
  ],
});

/** The id of a service account's token, by which the API server's notes name it. */
export const tokenId = (token: string): string => {
  const { jti } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as { jti: string };
  return `JTI=${jti}`;
};

/** Every change of a Deployment's number that the API server took, in order, out of its log. */
export function scaleWrites(log: string): ScaleWrite[] {
  const events = readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Event)
    .filter(({ responseStatus }) => responseStatus.code < 300)
    .sort((a, b) => (a.stageTimestamp < b.stageTimestamp ? -1 : 1));
  const writes: ScaleWrite[] = [];
  let holder: string | undefined;
  let heldAt = 0;
  for (const { user, objectRef, requestObject, stageTimestamp } of events) {
    const [writer = 'unknown'] = user.extra?.['authentication.kubernetes.io/credential-id'] ?? [];
    const at = Date.parse(stageTimestamp);
    if (objectRef.resource === 'leases') {
      holder = requestObject.spec.holderIdentity === '' ? undefined : writer;
      heldAt = at;
    } else
      writes.push({
        deployment: objectRef.name,
        pods: requestObject.spec.replicas,
        writer,
        holder,
        leaseAgeMs: at - heldAt,
      });
  }
  return writes;
}
