import { type AppsV1Api, type CoreV1Api, PatchStrategy, setHeaderOptions } from '@kubernetes/client-node';
import { ApiFailure, inWords, statusOf } from '../kubernetes/connection.js';

export interface ScaleReading {
  pods: number;
  /** Goes along with the change, so that nobody else's change in between is overwritten. */
  version: string;
  /** Which pods are its own: a label selector. */
  selector: string;
}

/** A pod of an executor, as far as choosing which one goes first needs. */
export interface PodReading {
  name: string;
  address: string;
  cost: string | undefined;
}

const DELETION_COST = 'controller.kubernetes.io/pod-deletion-cost';
// Without it the library sends a JSON patch, which the server refuses for a body like ours.
const MERGE = setHeaderOptions('Content-Type', PatchStrategy.MergePatch);

/** The number of pods of Deployments: the scale subresource and nothing else of them. */
export class ScaleClient {
  constructor(
    private readonly apps: Pick<AppsV1Api, 'readNamespacedDeploymentScale' | 'patchNamespacedDeploymentScale'>,
    private readonly core: Pick<CoreV1Api, 'listNamespacedPod' | 'patchNamespacedPod'>,
    private readonly namespace: string,
  ) {}

  /** Throws ApiFailure with words for people. */
  async read(deployment: string): Promise<ScaleReading> {
    const scale = await told(
      this.apps.readNamespacedDeploymentScale({ name: deployment, namespace: this.namespace }),
      `Deployment ${deployment}`,
    );
    return {
      pods: scale.spec?.replicas ?? 0,
      version: scale.metadata?.resourceVersion ?? '',
      selector: scale.status?.selector ?? '',
    };
  }

  /** Throws ApiFailure; 409 when somebody else changed the Deployment since it was read. */
  async write(deployment: string, pods: number, { version }: ScaleReading): Promise<void> {
    const body = { ...(version === '' ? {} : { metadata: { resourceVersion: version } }), spec: { replicas: pods } };
    await told(
      this.apps.patchNamespacedDeploymentScale({ name: deployment, namespace: this.namespace, body }, MERGE),
      `Deployment ${deployment}`,
    );
  }

  /** The running pods that a selector takes. */
  async pods(selector: string): Promise<PodReading[]> {
    const list = await told(
      this.core.listNamespacedPod({ namespace: this.namespace, labelSelector: selector, limit: 500 }),
      'the pods',
    );
    return list.items.flatMap(({ metadata, status }) =>
      metadata?.name === undefined || metadata.deletionTimestamp !== undefined || status?.podIP === undefined
        ? []
        : [{ name: metadata.name, address: status.podIP, cost: metadata.annotations?.[DELETION_COST] }],
    );
  }

  /** The higher the cost, the later a pod goes. */
  async setCost(pod: string, cost: number): Promise<void> {
    const body = { metadata: { annotations: { [DELETION_COST]: String(cost) } } };
    await told(this.core.patchNamespacedPod({ name: pod, namespace: this.namespace, body }, MERGE), `pod ${pod}`);
  }
}

async function told<T>(asking: Promise<T>, what: string): Promise<T> {
  try {
    return await asking;
  } catch (error) {
    const status = statusOf(error);
    const hint = status === 403 ? ' (the Role of the fleet must name it)' : '';
    throw new ApiFailure(status, `${what}: ${inWords(error)}${hint}`, { cause: error });
  }
}
