import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { keptPasswords, startNatsAsBefore } from './kept-nats.js';

let state: string;
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'yardmaster-kept-'));
  mkdirSync(join(state, 'secrets'));
});
afterEach(() => rmSync(state, { recursive: true, force: true }));

it('nats-server has the port of the time before, and another one, which is said, when that is in use', async () => {
  const said: string[] = [];
  const start = async () => {
    const nats = await startNatsAsBefore(state, (words) => said.push(words), {});
    await nats.stop();
    return nats.port;
  };
  const port = await start();
  expect(await start()).toBe(port);
  expect(said).toEqual([]);
  const other = createServer().listen(port, '127.0.0.1');
  await once(other, 'listening');
  const next = await start();
  other.close();
  expect(next).not.toBe(port);
  expect(said).toHaveLength(1);
  expect(said[0]).toContain(`${port} is in use`);
  expect(said[0]).toContain(`YM_NATS_URL=nats://127.0.0.1:${next}`);
  expect(await start()).toBe(next);
});

it('a port that nobody could have is passed over', async () => {
  writeFileSync(join(state, 'nats-port'), 'none');
  const nats = await startNatsAsBefore(state, () => {}, {});
  await nats.stop();
  expect(readFileSync(join(state, 'nats-port'), 'utf8')).toBe(`${nats.port}\n`);
});

it('passwords are kept for executors that others run, and for nobody else', () => {
  for (const name of ['nats-executor-weather', 'nats-executor-shell', 'nats-setup', 'redis-api'])
    writeFileSync(join(state, 'secrets', name), `${name}\n`);
  writeFileSync(join(state, 'secrets', 'nats-executor-empty'), '');
  expect(keptPasswords(state)).toEqual({ 'executor-weather': 'nats-executor-weather' });
});
