import { Bus } from '@yardmaster/bus';
import { STREAMS } from '@yardmaster/contracts';

/** A stream as `yard queue list` and `yard doctor` see it. */
export interface StreamState {
  name: string;
  kind: 'queue' | 'bucket' | 'dead letters' | 'stream';
  subjects: string[];
  messages: number;
  bytes: number;
  oldest_at: string | null;
  /** Not delivered yet; null where nobody works on it. */
  waiting: number | null;
  /** Delivered and not done. */
  working: number | null;
  /** Requests for a message that are open: workers that are there and have nothing to do; null where nobody works on it. */
  pulling: number | null;
}

interface StreamInfo {
  config: { name: string; subjects?: string[]; retention: string };
  state: { messages: number; bytes: number; first_ts: string; consumer_count: number };
}

interface ConsumerInfo {
  num_pending: number;
  num_ack_pending: number;
  num_waiting: number;
}

export interface JetStream {
  serverVersion: string;
  jetstream: boolean;
  streams(): Promise<StreamState[]>;
  close(): Promise<void>;
}

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** NATS of the local stack with its set-up login, which is in the address. Throws the bus's errors. */
export async function openJetStream(natsUrl: string): Promise<JetStream> {
  const url = new URL(natsUrl);
  const [user, pass] = [decodeURIComponent(url.username), decodeURIComponent(url.password)];
  url.username = '';
  url.password = '';
  const bus = await Bus.connect({ url: `nats://${url.host}`, user, pass, log: silent });
  const ask = async <T>(subject: string, body: object = {}): Promise<T> => {
    const answer = await bus.nc.request(`$JS.API.${subject}`, JSON.stringify(body), { timeout: 5_000 });
    const value = answer.json<T & { error?: { description: string } }>();
    if (value.error !== undefined) throw new Error(value.error.description);
    return value;
  };
  return {
    serverVersion: bus.nc.info?.version ?? '',
    jetstream: bus.nc.info?.jetstream ?? false,
    async streams() {
      const found: StreamInfo[] = [];
      for (let total = 1; found.length < total;) {
        const page = await ask<{ total: number; streams: StreamInfo[] | null }>('STREAM.LIST', {
          offset: found.length,
        });
        if (page.streams === null || page.streams.length === 0) break;
        found.push(...page.streams);
        ({ total } = page);
      }
      const states = await Promise.all(
        found.map(async ({ config, state }): Promise<StreamState> => {
          const queue = config.retention === 'workqueue';
          const workers = queue
            ? ((await ask<{ consumers: ConsumerInfo[] | null }>(`CONSUMER.LIST.${config.name}`)).consumers ?? [])
            : undefined;
          const sum = (of: (info: ConsumerInfo) => number) =>
            workers === undefined ? null : workers.reduce((total, info) => total + of(info), 0);
          return {
            name: config.name,
            kind: queue
              ? 'queue'
              : config.name.startsWith('KV_')
                ? 'bucket'
                : config.name === STREAMS.deadLetters.name
                  ? 'dead letters'
                  : 'stream',
            subjects: config.subjects ?? [],
            messages: state.messages,
            bytes: state.bytes,
            oldest_at: state.messages === 0 ? null : state.first_ts,
            waiting: sum((info) => info.num_pending),
            working: sum((info) => info.num_ack_pending),
            pulling: sum((info) => info.num_waiting),
          };
        }),
      );
      const order = ['queue', 'dead letters', 'stream', 'bucket'];
      return states.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || (a.name < b.name ? -1 : 1));
    },
    close: () => bus.close(),
  };
}
