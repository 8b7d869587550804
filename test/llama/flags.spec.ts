import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { serverEnv } from './find-server.ts';
import { chartArgs, SERVER } from './llama-server.ts';

const template = readFileSync(
  fileURLToPath(new URL('../../charts/llama/templates/server.yaml', import.meta.url)),
  'utf8',
);
const passed = [...template.matchAll(/^ +- (--[a-z-]+)$/gm)].map(([, flag]) => flag!);

it('knows every flag that charts/llama passes', () => {
  expect(passed.length).toBeGreaterThan(10);
  const help = execFileSync(SERVER, ['--help'], { encoding: 'utf8', env: serverEnv(SERVER), maxBuffer: 16 << 20 });
  const known = new Set(help.match(/(?<![\w-])--[a-z][a-z0-9-]*/g));
  expect(passed.filter((flag) => !known.has(flag))).toEqual([]);
});

it('the servers of these tests are started as the chart starts them', () => {
  const own = chartArgs(1, '/key', {}).filter((arg) => arg.startsWith('--'));
  expect(own.sort()).toEqual([...passed].sort());
});
