import { Bus, ensureTopology } from '@yardmaster/bus';
import { connectRedis } from '@yardmaster/conversation';
import { natsTable, type RedisServer, startNats, startRedis } from '@yardmaster/local-stack';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openJetStream } from '../stack/stack-servers.js';
import { CHECKS } from './checks.js';
import { Finding, type Patient } from './examine.js';

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis({});
});
afterAll(() => redis?.stop());

describe('the doctor', () => {
  // Each look asks Redis anew: the database number makes it another address.
  let asked = 0;
  const look = (id: string) => {
    const patient = { localStack: async () => ({ redis_url: `${redis.url}/${asked++}` }) } as unknown as Patient;
    const check = CHECKS(patient).find((candidate) => candidate.id === id)!;
    return Promise.resolve(check.look(patient)).catch((error: unknown) => error);
  };

  it('says what would be lost when Redis may evict, and the setting to change', async () => {
    expect(await look('redis.eviction')).toBe('maxmemory-policy noeviction');
    const client = connectRedis({ url: redis.url });
    await client.config('SET', 'maxmemory-policy', 'allkeys-lru');
    client.disconnect();
    const finding = (await look('redis.eviction')) as Finding;
    expect(finding).toBeInstanceOf(Finding);
    expect(finding.message).toMatch(/allkeys-lru.*runs and conversations/);
    expect(finding.remedy).toContain('maxmemory-policy noeviction');
    expect(await look('redis.persistence')).toContain('appendonly yes');
  });

  it('names the kind whose calls nobody asks for, and not one whose executor is busy', async () => {
    const quiet = { debug() {}, info() {}, warn() {}, error() {} };
    const nats = await startNats({ accounts: natsTable(['weather', 'crm']) });
    const connect = (user: string) => Bus.connect({ url: nats.url, ...nats.login(user), log: quiet });
    const [setup, dispatcher, executor] = await Promise.all(['setup', 'dispatcher', 'executor-weather'].map(connect));
    const jetStream = await openJetStream(nats.urlFor('setup'));
    const patient = { jetStream: async () => jetStream, streams: () => jetStream.streams() } as unknown as Patient;
    const check = CHECKS(patient).find(({ id }) => id === 'executors.serving')!;
    try {
      await ensureTopology(setup!, { kinds: ['weather', 'crm'] });
      expect(await check.look(patient)).toBe('no call waits for one');
      for (let n = 0; n < 2; n++) await dispatcher!.nc.request('ym.tool.weather.demo', '{}');
      const finding: unknown = await Promise.resolve(check.look(patient)).catch((error: unknown) => error);
      expect(finding).toBeInstanceOf(Finding);
      expect((finding as Finding).message).toBe('2 calls of kind weather wait and no executor serves it');
      expect((finding as Finding).remedy).toMatch(/start the executor of weather/);
      const inbox = executor!.nc.subscribe('_INBOX_executor_weather.one', { max: 1 });
      executor!.nc.publish('$JS.API.CONSUMER.MSG.NEXT.YM_TOOL_WEATHER.work', '{"batch":1}', {
        reply: inbox.getSubject(),
      });
      for await (const { subject } of inbox) expect(subject).toBe('ym.tool.weather.demo');
      expect(await check.look(patient)).toBe('no call waits for one that is not busy');
    } finally {
      await Promise.all([jetStream, setup!, dispatcher!, executor!].map((one) => one.close()));
      await nats.stop();
    }
  });

  it('has a stable, distinct id for each of at least twelve checks', () => {
    const ids = CHECKS({} as Patient).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThanOrEqual(12);
    for (const id of ids) expect(id).toMatch(/^[a-z]+\.[a-z_]+$/);
  });
});
