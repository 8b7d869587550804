import { getHeapSpaceStatistics } from 'node:v8';
import { expect, it } from 'vitest';
import { boundNewSpace } from './heap-bounds.js';

const newSpace = () => getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')!.space_size;

it('the space for new objects stays near its bound, however much is allocated', async () => {
  const most = 16 * 1024 * 1024;
  const end = boundNewSpace(most);
  let living: unknown[] = [];
  for (let turn = 0; turn < 60; turn++) {
    for (let i = 0; i < 20_000; i++) living.push({ turn, text: `piece ${i}`, list: [i] });
    if (living.length > 60_000) living = living.slice(40_000);
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
  end();
  // It doubles at a time and is looked at now and then; without the bound this load makes it 128 MiB.
  expect(newSpace()).toBeLessThanOrEqual(4 * most);
});
