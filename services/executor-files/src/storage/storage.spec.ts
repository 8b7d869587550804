import { randomUUID } from 'node:crypto';
import { linkSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Fixture, makeFixture } from '../fixture.js';
import { Locks } from './locks.js';
import { measure } from './measure.js';

let files: Fixture;
beforeEach(() => (files = makeFixture()));
afterEach(() => files.close());

it('locks are held by one at a time, also when several are taken in different orders', async () => {
  const locks = new Locks();
  const held = new Set<string>();
  const hold = (keys: string[]) =>
    locks.hold(keys, async () => {
      for (const key of keys) expect(held.has(key)).toBe(false);
      keys.forEach((key) => held.add(key));
      await new Promise((resolve) => setImmediate(resolve));
      keys.forEach((key) => held.delete(key));
    });
  await Promise.all(
    Array.from({ length: 50 }, (_, i) => hold(i % 3 === 0 ? ['a', 'b'] : i % 3 === 1 ? ['b', 'a'] : ['b'])),
  );
  await expect(locks.hold(['a'], () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  await hold(['a']);
  expect(locks.size).toBe(0);
});

it('a file with several names counts once, links and folders count as files', async () => {
  mkdirSync(join(files.home, 'folder'));
  writeFileSync(join(files.home, 'a'), 'xxx');
  linkSync(join(files.home, 'a'), join(files.home, 'folder', 'b'));
  const total = { bytes: 0, files: 0 };
  await measure(files.services.root, 'acme', total);
  expect(total).toEqual({ bytes: 3, files: 2 });
  await measure(files.services.root, 'nobody', total);
  expect(total).toEqual({ bytes: 3, files: 2 });
});

it('an entry of the journal that cannot be read counts as none', async () => {
  const runId = randomUUID();
  const args = { path: 'a', content: 'x' };
  await files.call('file_write', args, { runId });
  const folder = join(files.services.root, '.executor-files', 'journal', 'acme', 'main');
  const [name] = readdirSync(folder);
  for (const damaged of ['{"change":', '{}', '', '[]']) {
    writeFileSync(join(folder, name!), damaged);
    // The file itself tells that it is done.
    expect((await files.call('file_write', args, { runId })).verdict).toMatchObject({ already_applied: true });
  }
});

it('a call that was aborted while it waited changes nothing', async () => {
  writeFileSync(join(files.home, 'a'), 'old');
  const abort = new AbortController();
  abort.abort(new Error('time is up'));
  const args = { path: 'a', content: 'new' };
  await expect(files.call('file_write', args, { signal: abort.signal })).rejects.toThrow('time is up');
  expect((await files.call('file_read', { path: 'a' })).output).toContain('old');
});
