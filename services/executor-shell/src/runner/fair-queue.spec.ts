import { describe, expect, it } from 'vitest';
import { FairQueue, QueueFull } from './fair-queue.js';
import { CpuBudget } from './track/cpu-budget.js';
import { JobLog } from './track/job-log.js';

describe('fair queue', () => {
  it('serves tenants in turn, whoever asked more', async () => {
    const queue = new FairQueue(1, 10, 100);
    const order: string[] = [];
    const first = await queue.take('a');
    const all = ['a', 'a', 'a', 'b', 'c'].map(async (tenant) => {
      const release = await queue.take(tenant);
      order.push(tenant);
      release();
    });
    first();
    await Promise.all(all);
    expect(order).toEqual(['a', 'b', 'c', 'a', 'a']);
    expect(queue.running).toBe(0);
  });

  it('gives no tenant more than its share while slots are free', async () => {
    const queue = new FairQueue(4, 2, 100);
    const held = [await queue.take('a'), await queue.take('a')];
    let third = false;
    const waiting = queue.take('a').then((release) => {
      third = true;
      return release;
    });
    held.push(await queue.take('b'));
    expect(third).toBe(false);
    held[0]!();
    (await waiting)();
    for (const release of held) release();
    expect(queue.running).toBe(0);
  });

  it('refuses when too many of a tenant wait, and forgets who gave up', async () => {
    const queue = new FairQueue(1, 1, 1);
    const release = await queue.take('a');
    const abort = new AbortController();
    const waiting = queue.take('a', abort.signal);
    await expect(queue.take('a')).rejects.toBeInstanceOf(QueueFull);
    abort.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    release();
    (await queue.take('a'))();
    const last = await queue.take('b');
    const refused = queue.take('b');
    queue.close();
    await expect(refused).rejects.toBeInstanceOf(QueueFull);
    last();
  });
});

it('CPU time is counted in a sliding window', () => {
  const budget = new CpuBudget(10, 100);
  budget.add('a', 6000, 0);
  budget.add('a', 3000, 50_000);
  expect(budget.left('a', 0, 60_000)).toBe(1000);
  expect(budget.left('a', 2000, 60_000)).toBe(-1000);
  expect(budget.left('a', 0, 101_000)).toBe(7000);
  expect(budget.retryAfterMs('a', 60_000)).toBe(40_000);
  expect(budget.left('b')).toBe(10_000);
});

it('a job log keeps the newest and its offsets never change', () => {
  const log = new JobLog(20);
  log.append('0123456789');
  expect(log.read(0, 100)).toEqual({ output: '0123456789', skipped: 0, next: 10 });
  log.append('abcdefghij');
  log.append('ABCDEFGHIJ');
  expect(log.read(0, 100)).toEqual({ output: 'abcdefghijABCDEFGHIJ', skipped: 10, next: 30 });
  expect(log.read(25, 100)).toEqual({ output: 'FGHIJ', skipped: 0, next: 30 });
  expect(log.read(30, 100)).toEqual({ output: '', skipped: 0, next: 30 });
  expect(log.read(0, 5)).toEqual({ output: 'FGHIJ', skipped: 25, next: 30 });
});
