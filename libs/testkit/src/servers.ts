import { redisUsers } from '@yardmaster/contracts';
import { type NatsServer, natsTable, type RedisServer, startNats, startRedis } from '@yardmaster/local-stack';

export interface ServersOptions {
  /** Executor kinds: with them both servers have the logins of a real installation; without, they are open to all. */
  executors?: readonly string[];
  /** Whether Redis keeps an append-only file; `off` loses everything at `kill`. */
  persistence?: 'everysec' | 'always' | 'off';
}

export interface Servers {
  nats: NatsServer;
  redis: RedisServer;
  natsUrl: string;
  redisUrl: string;
  stop(): Promise<void>;
}

/**
 * A real nats-server (with JetStream) and redis-server of this test file's own, in well under a second. They end with
 * the process even when `stop` is never called. Use: `beforeAll(async () => { servers = await startServers(); })`.
 */
export async function startServers(options: ServersOptions = {}): Promise<Servers> {
  const secured = options.executors !== undefined;
  const [nats, redis] = await Promise.all([
    startNats(secured ? { accounts: natsTable(options.executors ?? []) } : {}),
    startRedis({
      ...(secured && { users: redisUsers() }),
      ...(options.persistence !== undefined && { persistence: options.persistence }),
    }),
  ]);
  return {
    nats,
    redis,
    natsUrl: nats.url,
    redisUrl: redis.url,
    async stop() {
      await Promise.all([nats.stop(), redis.stop()]);
    },
  };
}
