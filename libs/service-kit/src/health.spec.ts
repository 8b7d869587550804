import { afterEach, expect, it } from 'vitest';
import { Health } from './health.js';

let health: Health;
afterEach(() => health.close());

async function start() {
  health = new Health('test');
  const ports = await health.listen('127.0.0.1', 0, 0);
  const get = (port: number, path: string) => fetch(`http://127.0.0.1:${port}${path}`);
  return { ...ports, get };
}

it('is ready while every condition holds, and says what does not', async () => {
  const { healthPort, get } = await start();
  const problem: { words?: string } = {};
  health.addReadiness('redis', () => problem.words);
  expect((await get(healthPort, '/readyz')).status).toBe(200);
  problem.words = 'away';
  const response = await get(healthPort, '/readyz');
  expect(response.status).toBe(503);
  expect(await response.json()).toEqual({ status: 'not ready', failed: { redis: 'away' } });
  expect((await get(healthPort, '/livez')).status).toBe(200);
});

it('a condition that throws does not hold', async () => {
  const { healthPort, get } = await start();
  health.addReadiness('nats', () => Promise.reject(new Error('no')));
  expect((await (await get(healthPort, '/readyz')).json()) as unknown).toMatchObject({ failed: { nats: 'no' } });
});

it('a service that drains is not ready, but alive', async () => {
  const { healthPort, get } = await start();
  health.drain();
  expect((await get(healthPort, '/readyz')).status).toBe(503);
  expect((await get(healthPort, '/livez')).status).toBe(200);
});

it('metrics are on a port of their own', async () => {
  const { healthPort, metricsPort, get } = await start();
  expect(await (await get(metricsPort, '/metrics')).text()).toContain('process_cpu_user_seconds_total');
  expect((await get(healthPort, '/metrics')).status).toBe(404);
  expect((await get(metricsPort, '/readyz')).status).toBe(404);
});
