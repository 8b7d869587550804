import { connectRedis } from '@yardmaster/conversation';
import { type RedisServer, startRedis } from '@yardmaster/local-stack';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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

  it('has a stable, distinct id for each of at least twelve checks', () => {
    const ids = CHECKS({} as Patient).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThanOrEqual(12);
    for (const id of ids) expect(id).toMatch(/^[a-z]+\.[a-z_]+$/);
  });
});
