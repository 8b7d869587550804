import { connect } from '@nats-io/transport-node';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Servers, startServers } from './servers.js';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers.stop());

test('a spec gets a message bus and a store of its own', async () => {
  const nc = await connect({ servers: servers.natsUrl });
  const redis = new Redis(servers.redisUrl);
  const [message] = await Promise.all([
    new Promise<string>((resolve) => nc.subscribe('hello', { callback: (_, m) => resolve(m.string()), max: 1 })),
    nc.flush().then(() => nc.publish('hello', 'world')),
  ]);
  expect(message).toBe('world');
  expect(await redis.ping()).toBe('PONG');
  redis.disconnect();
  await nc.close();
});

test('with executors declared, both servers have the logins of a real installation', async () => {
  const secured = await startServers({ executors: ['shell'], persistence: 'off' });
  await expect(connect({ servers: secured.natsUrl, reconnect: false })).rejects.toThrow(/authorization/i);
  const router = await connect({ servers: secured.natsUrl, ...secured.nats.login('router') });
  const redis = new Redis(secured.redis.urlFor('router'));
  await expect(redis.set('ym:h:x', '1')).rejects.toThrow(/NOPERM/);
  redis.disconnect();
  await router.close();
  await secured.stop();
});
