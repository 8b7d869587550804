import { connectRedis } from '@yardmaster/conversation';
import { type Servers, startServers, until } from '@yardmaster/testkit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CircuitBreakers } from '../failover/circuit-breaker.js';
import { systemClock } from '../failover/clock.js';
import { DeadlineBoard } from '../failover/deadline-board.js';
import { SharedDeadlines } from './shared-deadlines.js';

let servers: Servers;
const redis: ReturnType<typeof connectRedis>[] = [];

beforeAll(async () => {
  servers = await startServers({ executors: [] });
});
afterAll(() => servers.stop());

/** One router: a login with the rights of the real one. */
async function replica() {
  const connection = connectRedis({ url: servers.redis.urlFor('router') });
  redis.push(connection);
  await until(() => connection.status === 'ready');
  const shared = new SharedDeadlines(connection, 'ym:key:all', { merge: (entry) => board.merge(entry) });
  const board = new DeadlineBoard(shared);
  const circuits = new SharedDeadlines(connection, 'ym:brk:all', {
    merge: ({ id, until: end }) => breakers.openUntil(id, end),
    withdrawn: (id) => breakers.closedElsewhere(id),
  });
  const breakers = new CircuitBreakers(systemClock, undefined, {
    opened: (id, end) => circuits.publish({ id, until: end, reason: 'open' }),
    closed: (id) => circuits.withdraw(id, 'open'),
  });
  return { connection, shared, board, circuits, breakers };
}

let one: Awaited<ReturnType<typeof replica>>;
let two: typeof one;

beforeEach(async () => {
  [one, two] = await Promise.all([replica(), replica()]);
});
afterEach(async () => {
  for (const connection of redis.splice(0)) {
    await connection.del('ym:key:all', 'ym:brk:all');
    connection.disconnect();
  }
});

describe('deadlines that replicas share', () => {
  it('a cool-down that one learns reaches the other, which takes the later of two', async () => {
    const now = Date.now();
    one.board.extend('key a 1', now + 20_000, 'throttled');
    two.board.extend('key a 1', now + 40_000, 'throttled');
    await one.shared.sync();
    await two.shared.sync();
    await one.shared.sync();
    for (const { board } of [one, two]) expect(board.active('key a 1', now)?.until).toBe(now + 40_000);
  });

  it('an earlier end does not shorten one that is known', async () => {
    const now = Date.now();
    one.board.extend('key a 1', now + 40_000, 'throttled');
    await one.shared.sync();
    two.board.extend('key a 1', now + 5_000, 'throttled');
    await two.shared.sync();
    await one.shared.sync();
    expect(one.board.active('key a 1', now)?.until).toBe(now + 40_000);
    expect(two.board.active('key a 1', now)?.until).toBe(now + 40_000);
  });

  it('a replica that starts later knows what the others know', async () => {
    one.board.extend('key a 1', Date.now() + 20_000, 'throttled');
    await one.shared.sync();
    const three = await replica();
    await three.shared.start();
    three.shared.stop();
    expect(three.board.active('key a 1', Date.now())).toMatchObject({ reason: 'throttled' });
  });

  it('what is over leaves Redis', async () => {
    one.shared.publish({ id: 'key a 1', until: Date.now() + 30, reason: 'throttled' });
    await one.shared.sync();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await two.shared.sync();
    expect(await one.connection.zrange('ym:key:all', '0', '-1')).toEqual([]);
  });

  it('an open circuit opens in the other replica, a probe counts for both, and its success closes both', async () => {
    for (let i = 0; i < 5; i++) one.breakers.failed('p http://down');
    await one.circuits.sync();
    await two.circuits.sync();
    expect(two.breakers.state('p http://down')).toBe('open');
    const probeAt = two.breakers.readyAt('p http://down');
    one.breakers.enter('p http://down');
    await one.circuits.sync();
    await two.circuits.sync();
    expect(two.breakers.readyAt('p http://down')).toBeGreaterThanOrEqual(probeAt);
    one.breakers.succeeded('p http://down');
    await one.circuits.sync();
    await two.circuits.sync();
    expect(two.breakers.state('p http://down')).toBe('closed');
  });

  it('without Redis the local copy goes on, and what was learnt meanwhile is told when it is back', async () => {
    one.connection.disconnect();
    await until(() => one.connection.status === 'end');
    const end = Date.now() + 30_000;
    one.board.extend('key a 1', end, 'throttled');
    expect(one.board.active('key a 1', Date.now())?.until).toBe(end);
    await two.shared.sync();
    expect(two.board.active('key a 1', Date.now())).toBeUndefined();
    await one.connection.connect();
    await one.shared.sync();
    await two.shared.sync();
    expect(two.board.active('key a 1', Date.now())?.until).toBe(end);
  });
});
