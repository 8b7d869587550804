import { FromEnv, ServiceConfig } from '@yardmaster/service-kit';
import { IsBoolean, IsInt, IsOptional, IsString, Matches, Max, Min } from 'class-validator';

/** The fleet's variables; the shared ones are in ServiceConfig. How the cluster is reached: KUBECONFIG, or the pod's own token. */
export class FleetConfig extends ServiceConfig {
  /** The YAML file with the providers: their names, and the keys of llama.cpp servers. */
  @FromEnv('YM_CONFIG')
  @IsOptional()
  @IsString()
  platformConfig: string | undefined = undefined;

  /** The YAML file with the executors to scale; without it none is. */
  @FromEnv('YM_FLEET_EXECUTORS')
  @IsOptional()
  @IsString()
  executorsFile: string | undefined = undefined;

  /** Where the Lease and the executors are; the namespace of this pod, or of the kubeconfig, when empty. */
  @FromEnv('YM_FLEET_NAMESPACE')
  @IsOptional()
  @Matches(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, { message: 'it must be the name of a namespace' })
  namespace: string | undefined = undefined;

  /** Namespaces of llama.cpp servers, comma-separated; its own when empty. */
  @FromEnv('YM_FLEET_LLAMA_NAMESPACES')
  @IsOptional()
  @Matches(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(,[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/, {
    message: 'it must be names of namespaces with commas between them',
  })
  llamaNamespaces: string | undefined = undefined;

  /** Which EndpointSlices are llama.cpp servers: a label selector. */
  @FromEnv('YM_FLEET_LLAMA_SELECTOR')
  @IsString()
  llamaSelector: string = 'app.kubernetes.io/name=llama';

  /** Look for llama.cpp servers at all? */
  @FromEnv('YM_FLEET_DISCOVERY')
  @IsBoolean({ message: 'it must be true or false' })
  discovery: boolean = true;

  /** The Lease that says which replica leads. */
  @FromEnv('YM_FLEET_LEASE')
  @Matches(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, { message: 'it must be the name of a Lease' })
  lease: string = 'yardmaster-fleet';

  /** How long a Lease holds without renewal, in milliseconds. */
  @FromEnv('YM_FLEET_LEASE_MS')
  @IsInt()
  @Min(1_000)
  @Max(300_000)
  leaseMs: number = 15_000;

  /** Time between two looks at the queues, in milliseconds. */
  @FromEnv('YM_FLEET_POLL_MS')
  @IsInt()
  @Min(100)
  @Max(300_000)
  pollMs: number = 5_000;

  /** Time between two checks of one llama.cpp server, in milliseconds. */
  @FromEnv('YM_FLEET_CHECK_MS')
  @IsInt()
  @Min(100)
  @Max(300_000)
  checkMs: number = 5_000;

  /** How long one check may take, in milliseconds. */
  @FromEnv('YM_FLEET_CHECK_TIMEOUT_MS')
  @IsInt()
  @Min(50)
  @Max(60_000)
  checkTimeoutMs: number = 2_000;

  /** The least age of a list of EndpointSlices at which it is read anew, in milliseconds. */
  @FromEnv('YM_FLEET_RELIST_MS')
  @IsInt()
  @Min(1_000)
  @Max(120_000)
  relistMs: number = 120_000;

  /** How long one watch lasts, in seconds, 25 % more or less; a hung one is found so long after its start. */
  @FromEnv('YM_FLEET_WATCH_S')
  @IsInt()
  @Min(1)
  @Max(120)
  watchS: number = 120;

  /** Mark the busiest pods before pods are taken away, so that idle ones go first; needs `patch` on pods. */
  @FromEnv('YM_FLEET_DELETION_COST')
  @IsBoolean({ message: 'it must be true or false' })
  deletionCost: boolean = false;
}
