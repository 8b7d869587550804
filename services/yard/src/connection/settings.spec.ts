import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { writeContexts } from './contexts.js';
import { NoAddress, resolveSettings } from './settings.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'yardmaster-settings-'));
  vi.stubEnv('YM_STATE', folder);
  vi.stubEnv('YM_CONTEXTS', join(folder, 'contexts.json'));
  for (const name of ['YM_API_URL', 'YM_API_KEY', 'YM_API_KEY_FILE', 'YM_CONTEXT']) vi.stubEnv(name, '');
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const stack = (fields: object = {}) =>
  writeFileSync(
    join(folder, 'dev.json'),
    JSON.stringify({ pid: process.pid, api_url: 'http://127.0.0.1:4400', api_key: 'ym_demo_a_local', ...fields }),
    { mode: 0o600 },
  );

it('takes flag, environment, context and stack in this order', () => {
  stack();
  expect(resolveSettings({})).toMatchObject({ apiUrl: 'http://127.0.0.1:4400', apiKey: 'ym_demo_a_local' });
  writeContexts({ current: 'prod', contexts: { prod: { api_url: 'https://prod.example/ym', key: 'ym_p_a_b' } } });
  expect(resolveSettings({})).toMatchObject({ apiUrl: 'https://prod.example/ym', source: 'context "prod"' });
  vi.stubEnv('YM_API_URL', 'http://env.example');
  vi.stubEnv('YM_API_KEY', 'ym_e_a_b');
  expect(resolveSettings({})).toMatchObject({ apiUrl: 'http://env.example', apiKey: 'ym_e_a_b', source: 'YM_API_URL' });
  expect(resolveSettings({ context: 'prod' })).toMatchObject({ apiKey: 'ym_p_a_b' });
  expect(resolveSettings({ context: 'local' })).toMatchObject({ apiKey: 'ym_demo_a_local' });
  expect(resolveSettings({ apiUrl: 'http://flag.example' })).toMatchObject({ apiUrl: 'http://flag.example' });
});

it('sends a key to no address that came from elsewhere', () => {
  stack();
  writeContexts({ current: 'prod', contexts: { prod: { api_url: 'https://prod.example', key: 'ym_p_a_b' } } });
  expect(() => resolveSettings({ apiUrl: 'http://evil.example' })).toThrow(/no key for http:\/\/evil\.example/);
  expect(() => resolveSettings({ apiUrl: 'http://127.0.0.1:4401' })).toThrow(/no key for/);
  expect(resolveSettings({ apiUrl: 'http://127.0.0.1:4400/' })).toMatchObject({ apiKey: 'ym_demo_a_local' });
});

it('does not trust a stack file that others can read, or that leads elsewhere', () => {
  stack({ api_url: 'http://evil.example' });
  expect(() => resolveSettings({})).toThrow(/not on this machine/);
  stack();
  chmodSync(join(folder, 'dev.json'), 0o644);
  expect(() => resolveSettings({})).toThrow(/mode 0600/);
});

it('says where it looked when there is no address', () => {
  expect(() => resolveSettings({})).toThrow(NoAddress);
  expect(() => resolveSettings({})).toThrow(/start one with: npm start/);
  writeFileSync(join(folder, 'last.json'), '{"api_url":"http://127.0.0.1:4402","stopped_at":"18:02"}');
  expect(() => resolveSettings({})).toThrow(/127\.0\.0\.1:4402.*stopped at 18:02/);
});

it('takes no address with credentials, or that is none', () => {
  vi.stubEnv('YM_API_KEY', 'ym_e_a_b');
  expect(() => resolveSettings({ apiUrl: 'http://u:p@x.example' })).toThrow(/user or password/);
  expect(() => resolveSettings({ apiUrl: 'localhost:4400' })).toThrow(/http or https/);
});
