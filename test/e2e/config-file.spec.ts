import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { stringify } from 'yaml';
import { stackIn } from '../../services/yard/src/stack/checkout.js';

const YARD = fileURLToPath(new URL('../../services/yard/bin/yard.mjs', import.meta.url));

const config = (...names: string[]) =>
  stringify({
    providers: Object.fromEntries(
      names.map((name) => [name, { kind: 'openai', base_url: 'http://127.0.0.1:9/v1', auth: 'none' }]),
    ),
    routing: { default_model: 'm', providers: names },
  });

it('changes of the file that "dev up --config" names count while the stack runs', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'yardmaster-config-'));
  const file = join(folder, 'my.yaml');
  const state = join(folder, 'state');
  writeFileSync(file, config('one'));
  const child = spawn(process.execPath, [YARD, 'dev', 'up', '--port', '0', '--config', 'my.yaml'], {
    cwd: folder,
    env: { ...process.env, YM_STATE: state },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said += String(chunk)));
  try {
    const stack = () => stackIn(join(state, 'dev.json'));
    await expect.poll(() => (child.exitCode === null ? stack()?.ready : said), { timeout: 60_000 }).toBe(true);
    const { api_url: url, api_key: key } = stack()!;
    const names = async () => {
      const response = await fetch(`${url}/v1/providers`, { headers: { authorization: `Bearer ${key}` } });
      const { items } = (await response.json()) as { items: { name: string }[] };
      return items.map(({ name }) => name).sort();
    };
    expect(await names()).toEqual(['one']);
    writeFileSync(file, config('one', 'two'));
    await expect.poll(names, { timeout: 20_000 }).toEqual(['one', 'two']);
    writeFileSync(file, 'providers: [');
    const log = () => readFileSync(join(state, 'logs', 'router.log'), 'utf8');
    await expect.poll(log, { timeout: 20_000 }).toMatch(/the configuration stays as it was: [^"]*my\.yaml/);
    expect(await names()).toEqual(['one', 'two']);
  } finally {
    if (child.exitCode === null) {
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
    rmSync(folder, { recursive: true, force: true });
  }
}, 120_000);
