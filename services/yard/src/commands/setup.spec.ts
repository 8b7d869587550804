import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Invocation } from '../cli/invocation.js';
import { files } from './setup.js';

let folder: string;
let said: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'yardmaster-setup-'));
  said = '';
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    said += String(text);
    return true;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

const setup = (flags: Record<string, string | true>) =>
  files({
    text: (name: string) => (typeof flags[name] === 'string' ? flags[name] : undefined),
    on: (name: string) => flags[name] === true,
  } as unknown as Invocation);
const modes = (at: string) =>
  Object.fromEntries(
    ['', ...readdirSync(at, { recursive: true, encoding: 'utf8' })].map((name) => [
      name,
      (statSync(join(at, name)).mode & 0o777).toString(8),
    ]),
  );

it('what has passwords in it is for the caller alone, unless others are to read it', async () => {
  const out = join(folder, 'out');
  expect(await setup({ out })).toBe(0);
  expect(said).toBe(`wrote nats.conf, users.acl, secrets/ in ${out}\n`);
  const mine = modes(out);
  expect(Object.keys(mine).length).toBeGreaterThan(10);
  expect(mine).toMatchObject({ '': '700', secrets: '700', 'nats.conf': '600', 'users.acl': '600' });
  expect(mine['secrets/nats-setup']).toBe('600');
  expect(new Set(Object.values(mine))).toEqual(new Set(['700', '600']));
  const password = readFileSync(join(out, 'secrets/nats-setup'), 'utf8');

  expect(await setup({ out, 'readable-by-others': true })).toBe(0);
  const { '': top, ...rest } = modes(out);
  expect(top).toBe('700'); // it was there
  expect(new Set(Object.values(rest))).toEqual(new Set(['755', '644']));
  expect(readFileSync(join(out, 'secrets/nats-setup'), 'utf8')).toBe(password);

  expect(await setup({ out })).toBe(0);
  expect(modes(out)).toEqual(mine);
});

it('a folder that was made before keeps its mode, and given passwords are only read', async () => {
  const out = join(folder, 'out');
  const secrets = join(folder, 'out', 'secrets');
  await setup({ out });
  chmodSync(secrets, 0o550);
  const other = mkdtempSync(join(folder, 'other-'));
  chmodSync(other, 0o755);
  said = '';
  expect(await setup({ out: other, secrets })).toBe(0);
  expect(said).toBe(`wrote nats.conf, users.acl in ${other}\n`);
  expect(modes(secrets)['']).toBe('550');
  expect(statSync(other).mode & 0o777).toBe(0o755);
  chmodSync(secrets, 0o700);
});
