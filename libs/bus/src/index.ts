export { argsHash, canonicalJson, matchesArgsHash } from './args-hash.js';
export { backoffMs } from './backoff.js';
export { Bus, type BusOptions, type BusStatus, type RequestOptions } from './bus.js';
export { type Delivery, parseDelivery } from './delivery.js';
export { failpoint, failpointArmed } from './failpoint.js';
export { type KeyValues, type KvItem } from './key-values.js';
export { type KvListener, type KvSnapshot } from './kv-watch.js';
export { type Log, stderrLog } from './log.js';
export { Encoded } from './payload.js';
export { type Answer, type ServeContext, type Served } from './rpc-server.js';
export { type StoredAck } from './stored.js';
export { BEAT_MS, MISSED_BEATS, type StreamOptions } from './stream-reader.js';
export { type StreamContext } from './stream-server.js';
export { ensureTopology, type TopologyOptions, type TopologyReport } from './topology.js';
export { childTrace, isTrace, newTrace } from './trace.js';
export { OLDEST_SERVER, versionAtLeast } from './version.js';
export { decodeError, encodeError, fromWireError, toWireError } from './wire-error.js';
export {
  Abandon,
  type DeadLetter,
  HandBack,
  type WorkContext,
  Worker,
  type WorkerCounts,
  type WorkOptions,
} from './work.js';
