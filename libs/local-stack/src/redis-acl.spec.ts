import { redisUsers } from '@yardmaster/contracts';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RedisServer, startRedis } from './redis-server.js';

let server: RedisServer;
const clients = new Map<string, Redis>();
const as = (user: string) => {
  if (!clients.has(user)) {
    // A login may not ask for what the client's ready check wants to know.
    const client = new Redis(server.urlFor(user), { enableReadyCheck: false, maxRetriesPerRequest: 1 });
    client.on('error', () => {});
    clients.set(user, client);
  }
  return clients.get(user)!;
};

beforeAll(async () => {
  server = await startRedis({ users: redisUsers() });
});
afterAll(async () => {
  for (const client of clients.values()) client.disconnect();
  await server.stop();
});

const SERVICES = redisUsers()
  .map(({ user }) => user)
  .filter((user) => user !== 'bootstrap');

/** Commands that look at, change or stop what belongs to all, or bring code. */
const FORBIDDEN = [
  'KEYS *',
  'SCAN 0',
  'CONFIG GET *',
  'CONFIG SET maxmemory 1',
  'MONITOR',
  'EVAL return(1) 0',
  'EVALSHA 0000000000000000000000000000000000000000 0',
  'SCRIPT LOAD return(1)',
  'FUNCTION LOAD #!lua',
  'FUNCTION DELETE ym',
  'FUNCTION FLUSH',
  'CLIENT LIST',
  'CLIENT KILL ID 1',
  'FLUSHALL',
  'FLUSHDB',
  'DEBUG SLEEP 0',
  'ACL LIST',
  'ACL SETUSER x on',
  'SAVE',
  'BGSAVE',
  'BGREWRITEAOF',
  'SHUTDOWN NOSAVE',
  'REPLICAOF 127.0.0.1 1',
  'MODULE LIST',
  'SWAPDB 0 1',
  'MIGRATE 127.0.0.1 1 k 0 1',
  'SUBSCRIBE x',
  'PUBLISH x y',
  'RANDOMKEY',
  'DBSIZE',
];

const answer = (client: Redis, command: string): Promise<string> => {
  const [name = '', ...args] = command.split(' ');
  return client.call(name, ...args).then(
    (value) => `answered ${String(value)}`,
    (error: Error) => error.message,
  );
};

describe.each(SERVICES)('the Redis login of %s', (user) => {
  test.each(FORBIDDEN)('may not %s', async (command) => {
    expect(await answer(as(user), command)).toMatch(/^NOPERM|DEBUG command not allowed/);
  });

  test('may not touch a key outside its families, nor through a function', async () => {
    await as('bootstrap').call(
      'FUNCTION',
      'LOAD',
      'REPLACE',
      `#!lua name=probe
       redis.register_function('probe_write', function(keys, args) return redis.call('SET', args[1], 'x') end)`,
    );
    for (const key of ['foreign', 'ym:secret:x', 'ymx:h:a']) {
      expect(await answer(as(user), `SET ${key} 1`)).toMatch(/^NOPERM/);
      expect(await answer(as(user), `GET ${key}`)).toMatch(/^NOPERM/);
      // The key is not declared: the function runs with its caller's rights all the same.
      expect(await answer(as(user), `FCALL probe_write 0 ${key}`)).toMatch(
        /NOPERM|can't access|not allowed|ACL failure/,
      );
    }
  });
});

test('the router reads histories and writes none', async () => {
  expect(await answer(as('router'), 'XADD ym:h:{a:b} 1-0 m x')).toMatch(/^NOPERM/);
  expect(await answer(as('router'), 'XLEN ym:h:{a:b}')).toBe('answered 0');
  expect(await answer(as('router'), 'HSET ym:m:{a:b} seq 1')).toMatch(/^NOPERM/);
  expect(await answer(as('router'), 'GET ym:r:{a:b}:c')).toMatch(/^NOPERM/);
});

test('bootstrap loads functions and touches no key', async () => {
  expect(await answer(as('bootstrap'), 'FUNCTION LIST')).toMatch(/^answered/);
  expect(await answer(as('bootstrap'), 'GET ym:h:{a:b}')).toMatch(/^NOPERM/);
  expect(await answer(as('bootstrap'), 'FCALL probe_write 0 ym:h:x')).toMatch(/^NOPERM/);
});

test('bootstrap can have a snapshot written, and learns when it is there', async () => {
  const before = await as('bootstrap').lastsave();
  expect(await as('bootstrap').call('BGSAVE', 'SCHEDULE')).toMatch(/Background saving/);
  expect(before).toBeGreaterThan(0);
});

test('nobody gets in without a login', async () => {
  const stranger = new Redis(server.url, { enableReadyCheck: false });
  stranger.on('error', () => {});
  expect(await answer(stranger, 'PING')).toMatch(/^NOAUTH/);
  stranger.disconnect();
});

test('what a function wrote outlives a kill: Redis may read its own append-only file', async () => {
  // `always`: with `everysec` Redis holds a write back while the disk is slow, and a kill in that moment loses it rightly.
  const own = await startRedis({ users: redisUsers(), persistence: 'always' });
  const bootstrap = new Redis(own.urlFor('bootstrap'), { enableReadyCheck: false });
  const dispatcher = new Redis(own.urlFor('dispatcher'), { enableReadyCheck: false });
  const nobody = new Redis({ port: own.port, enableReadyCheck: false, lazyConnect: true });
  for (const client of [bootstrap, dispatcher, nobody]) client.on('error', () => {});
  try {
    const two = "redis.call('SET', k[1], 'a') return redis.call('SET', k[2], 'b')";
    await bootstrap.function('LOAD', `#!lua name=two\nredis.register_function('two', function(k) ${two} end)`);
    await dispatcher.fcall('two', 2, 'ym:ix:{1}a', 'ym:ix:{1}b');
    await own.kill();
    await own.startAgain();
    expect(await dispatcher.get('ym:ix:{1}b')).toBe('b');
    await expect(nobody.ping()).rejects.toThrow('NOAUTH');
  } finally {
    for (const client of [bootstrap, dispatcher, nobody]) client.disconnect();
    await own.stop();
  }
});
