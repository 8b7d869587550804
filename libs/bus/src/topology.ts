import { type ConsumerConfig, jetstreamManager, JetStreamApiError, type StreamConfig } from '@nats-io/jetstream';
import { nanos, type NatsConnection } from '@nats-io/transport-node';
import {
  BUCKETS,
  DEFAULT_TENANT_SHARE,
  MCP_KIND,
  Runs,
  STREAMS,
  type StreamSpec,
  toolStreamSpec,
  toolWork,
  YardError,
} from '@yardmaster/contracts';

export interface TopologyOptions {
  /** Executor kinds; each has a work queue of its own, and so have the calls of MCP servers. */
  kinds: readonly string[];
  /** Queued and running messages of one tenant in one queue. */
  share?: number;
  /** How long a work message may go without a beat before it is delivered again, in milliseconds. */
  ackWaitMs?: number;
  replicas?: number;
}

export interface TopologyReport {
  created: string[];
  updated: string[];
  /** What differs and cannot be changed in place, in words; the stream or consumer must be made anew by hand. */
  problems: string[];
}

const STREAM_NOT_FOUND = 10059;
const CONSUMER_NOT_FOUND = 10014;

/**
 * Creates the streams, consumers and buckets of the catalogue, changes what differs, and says what it could not change.
 * Needs the set-up login; running it again does nothing.
 */
export async function ensureTopology(
  server: NatsConnection | { nc: NatsConnection },
  { kinds, share = DEFAULT_TENANT_SHARE, ackWaitMs = 30_000, replicas = 1 }: TopologyOptions,
): Promise<TopologyReport> {
  const jsm = await jetstreamManager('nc' in server ? server.nc : server);
  const report: TopologyReport = { created: [], updated: [], problems: [] };

  const ensure = async <C extends object>(
    name: string,
    wanted: Partial<C>,
    find: () => Promise<{ config: C }>,
    create: () => Promise<unknown>,
    update: (config: C) => Promise<unknown>,
  ) => {
    const found = await find().catch((error: unknown) => {
      if (
        error instanceof JetStreamApiError &&
        [STREAM_NOT_FOUND, CONSUMER_NOT_FOUND].includes(error.apiError().err_code)
      )
        return undefined;
      throw error;
    });
    if (found === undefined) {
      await create();
      report.created.push(name);
      return;
    }
    const differing = (Object.keys(wanted) as (keyof C)[]).filter((key) => !same(found.config[key], wanted[key]));
    if (differing.length === 0) return;
    try {
      await update({ ...found.config, ...wanted });
      report.updated.push(`${name} (${differing.join(', ')})`);
    } catch (error) {
      report.problems.push(
        `${name}: ${differing.map((key) => `${String(key)} is ${JSON.stringify(found.config[key])}, not ${JSON.stringify(wanted[key])}`).join('; ')}: ${(error as Error).message}`,
      );
    }
  };
  const stream = (config: Partial<StreamConfig> & { name: string }) =>
    ensure<StreamConfig>(
      config.name,
      config,
      () => jsm.streams.info(config.name),
      () => jsm.streams.add(config),
      (changed) => jsm.streams.update(config.name, changed),
    );
  const consumer = (streamName: string, name: string) => {
    // No max_deliver: giving up is the workers' decision. No filter: one consumer sees the whole queue.
    const config: Partial<ConsumerConfig> = {
      durable_name: name,
      ack_policy: 'explicit',
      ack_wait: nanos(ackWaitMs),
      max_ack_pending: -1,
    };
    return ensure<ConsumerConfig>(
      `${streamName}.${name}`,
      config,
      () => jsm.consumers.info(streamName, name),
      () => jsm.consumers.add(streamName, config),
      (changed) => jsm.consumers.update(streamName, name, changed),
    );
  };

  try {
    for (const spec of Object.values<StreamSpec>(STREAMS))
      await stream(streamConfig(spec === STREAMS.runs ? { ...spec, maxMsgsPerSubject: share } : spec, replicas));
    await consumer(Runs.work.stream, Runs.work.consumer);
    for (const kind of new Set([...kinds, MCP_KIND])) {
      await stream(streamConfig(toolStreamSpec(kind, share), replicas));
      await consumer(toolWork(kind).stream, toolWork(kind).consumer);
    }
    for (const bucket of Object.values(BUCKETS)) await stream(bucketConfig(bucket, replicas));
  } catch (cause) {
    if (YardError.is(cause)) throw cause;
    throw new YardError('UNAVAILABLE', 'YM-TOPOLOGY', `Streams cannot be set up: ${(cause as Error).message}`, {
      cause,
    });
  }
  return report;
}

function streamConfig(spec: StreamSpec, replicas: number): Partial<StreamConfig> & { name: string } {
  return {
    name: spec.name,
    subjects: spec.subjects,
    retention: spec.retention,
    storage: 'file',
    num_replicas: replicas,
    max_age: nanos(spec.maxAgeS * 1000),
    max_msgs_per_subject: spec.maxMsgsPerSubject ?? -1,
    discard: spec.discardNewPerSubject ? 'new' : 'old',
    discard_new_per_subject: spec.discardNewPerSubject ?? false,
    allow_direct: spec.allowDirect ?? false,
    ...(spec.appendOnly === true && { deny_delete: true, deny_purge: true }),
    max_bytes: spec.maxBytes ?? -1,
    ...(spec.duplicateWindowS !== undefined && { duplicate_window: nanos(spec.duplicateWindowS * 1000) }),
  };
}

/**
 * A bucket as every NATS client makes it, so that `nats kv` and others read it, but for `deny_delete`: the marks of
 * deleted keys are removed one by one. A bucket that has it keeps it, and them; the server does not take it back.
 */
function bucketConfig(bucket: string, replicas: number): Partial<StreamConfig> & { name: string } {
  return {
    name: `KV_${bucket}`,
    subjects: [`$KV.${bucket}.>`],
    retention: 'limits',
    storage: 'file',
    num_replicas: replicas,
    max_msgs_per_subject: 1,
    discard: 'new',
    allow_direct: true,
    allow_rollup_hdrs: true,
  };
}

/** The server leaves out what is false or empty. */
function same(has: unknown, wanted: unknown): boolean {
  if (wanted === false && has === undefined) return true;
  return JSON.stringify(has) === JSON.stringify(wanted);
}
