import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { FairQueue } from './fair-queue.js';
import { gateSchema } from './index.js';

it('one party after the other has a turn, and the jobs of one keep their order', async () => {
  const queue = new FairQueue();
  const done: string[] = [];
  let running = 0;
  const job = (party: string, name: string) =>
    queue.run(party, async () => {
      expect(++running, 'one at a time').toBe(1);
      await setImmediate();
      running--;
      done.push(name);
      return name;
    });
  const flood = ['a1', 'a2', 'a3', 'a4'].map((name) => job('a', name));
  expect(await job('b', 'b1')).toBe('b1');
  await Promise.all([...flood, job('c', 'c1'), job('b', 'b2')]);
  expect(done).toEqual(['a1', 'b1', 'a2', 'c1', 'b2', 'a3', 'a4']);
});

it('a job that fails holds up nobody', async () => {
  const queue = new FairQueue();
  const failed = queue.run('a', () => Promise.reject(new Error('no')));
  const next = queue.run('a', () => Promise.resolve('done'));
  await expect(failed).rejects.toThrow('no');
  expect(await next).toBe('done');
});

it('whoever floods the gate with slow schemas delays another by one of them', async () => {
  const allOf = Array.from({ length: 250 }, (_, index) => ({ properties: { [`q${index}`]: { type: 'string' } } }));
  const slow = { type: 'object', allOf, unevaluatedProperties: false };
  const done: string[] = [];
  const flood = Array.from({ length: 20 }, () => gateSchema(slow, { party: 'flood' }).then(() => done.push('slow')));
  const good = await gateSchema({ type: 'object' }, { party: 'other' });
  expect(good.accepted).toBe(true);
  expect(done.length, 'only what was being decided already').toBeLessThanOrEqual(1);
  await Promise.all(flood);
  expect(done).toHaveLength(20);
});
