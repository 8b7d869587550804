import { expect, it } from 'vitest';
import { soak } from './soak.js';

// In CI three minutes of it, because that is what it takes to see a slow leak. Elsewhere a few seconds, and half an hour by
// command:   YM_FLEET_SOAK="1800 10" npm test -- services/fleet/src/kubernetes/soak.spec.ts
const asked = process.env['YM_FLEET_SOAK'] ?? (process.env['CI'] ? '180 1' : '12 0.5');
const [seconds, every] = asked.split(' ').map(Number) as [number, number];

it(
  `${Math.floor(seconds / every)} cuts, one each ${every} s: no deletion is lost, sockets and heap stay as they are`,
  { timeout: (seconds + 120) * 1000 },
  async () => {
    const result = await soak(seconds, every);
    console.log(JSON.stringify(result));
    expect(result.cuts).toBe(Math.floor(seconds / every));
    expect(result.lost).toBe(0);
    expect(result.worstMs).toBeLessThanOrEqual(1_000);
    expect(result.mostConnections).toBeLessThanOrEqual(3);
    // What varies without a leak is a fraction of this; a leak of 10 kB a cut would be more.
    expect(result.heapAfter - result.heapBefore).toBeLessThan(1_000_000);
  },
);
