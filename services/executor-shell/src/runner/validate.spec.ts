import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readRunnerConfig } from './config.js';
import { allowedEnvironment, clampLimits, Refusal, resolveCwd, validateRequest } from './validate.js';

let root = '';
let workspace = '';
beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'yardmaster-validate-')));
  workspace = join(root, 't', 'w');
  mkdirSync(join(workspace, 'a', 'b'), { recursive: true });
  mkdirSync(join(root, 't', 'w-2'));
  writeFileSync(join(workspace, 'file'), '');
  symlinkSync('a/b', join(workspace, 'in'));
  symlinkSync('/workspace/a', join(workspace, 'absolute'));
  symlinkSync('/', join(workspace, 'out'));
  symlinkSync('../w-2', join(workspace, 'sibling'));
  symlinkSync('loop', join(workspace, 'loop'));
  symlinkSync('/elsewhere', join(root, 't', 'linked'));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
const config = (): ReturnType<typeof readRunnerConfig> =>
  readRunnerConfig({ YM_EXECUTOR_SHELL_SOCKET: '/run/x.sock', YM_WORKSPACES: root });

describe('working directory', () => {
  it.each([
    [undefined, '/workspace'],
    ['a/b', '/workspace/a/b'],
    ['./a/../a//b/', '/workspace/a/b'],
    ['/workspace/a', '/workspace/a'],
    ['in', '/workspace/a/b'],
    ['absolute/b', '/workspace/a/b'],
    ['in/..', '/workspace/a'],
  ])('%s is %s', async (asked, expected) => {
    expect(await resolveCwd(workspace, asked)).toBe(expected);
  });

  it.each([
    '..',
    '../w-2',
    'a/../../w',
    '/',
    '/etc',
    '/workspace-2',
    '/workspace/..',
    'out',
    'out/etc',
    'sibling',
    'loop',
    'file',
    'missing',
    'a\0b',
    '/workspace/a/../../etc',
  ])('%s is refused', async (asked) => {
    await expect(resolveCwd(workspace, asked)).rejects.toBeInstanceOf(Refusal);
  });

  it('takes the path of the workspace on the machine, but not that of a sibling with the same beginning', async () => {
    expect(await resolveCwd(workspace, join(workspace, 'a'))).toBe('/workspace/a');
    await expect(resolveCwd(workspace, `${workspace}-2`)).rejects.toThrow(/outside the workspace/);
  });
});

describe('request', () => {
  it.each([
    [{ tenant: '../x' }, 'tenant'],
    [{ tenant: 'T' }, 'tenant'],
    [{ workspace: '..' }, 'workspace'],
    [{ workspace: 'a/b' }, 'workspace'],
    [{ workspace: '.hidden' }, 'workspace'],
    [{ workspace: 'linked' }, 'workspace'],
  ])('%j is refused for its %s', async (change, rule) => {
    await expect(
      validateRequest({ tenant: 't', workspace: 'w', command: 'true', ...change }, config()),
    ).rejects.toMatchObject({ rule });
  });

  it('drops what changes how programs start, and says so', () => {
    const names = [
      'LD_PRELOAD',
      'BASH_ENV',
      'ENV',
      'BASH_FUNC_ls%%',
      'GIT_SSH_COMMAND',
      'NODE_OPTIONS',
      'PYTHONSTARTUP',
      'PROMPT_COMMAND',
      'PATH',
      'IFS',
      'HTTP_PROXY',
      'PERL5OPT',
      'YM_NATS_URL',
      'a b',
      '1x',
    ];
    const { env, dropped } = allowedEnvironment({
      ...Object.fromEntries(names.map((name) => [name, 'x'])),
      CI: '1',
      MY_VALUE: 'y',
      FN: '() { :; }',
      NUL: 'a\0b',
    });
    expect(env).toEqual({ CI: '1', MY_VALUE: 'y' });
    expect(dropped.toSorted()).toEqual([...names, 'FN', 'NUL'].toSorted());
  });

  it('clamps limits to what is configured', () => {
    const { timeoutMs } = config();
    for (const value of [-1, 0, Number.NaN, Number.POSITIVE_INFINITY])
      expect(clampLimits({ timeout_ms: value }, config()).timeoutMs).toBe(timeoutMs.default);
    expect(clampLimits({ timeout_ms: 1e12 }, config()).timeoutMs).toBe(timeoutMs.max);
    expect(clampLimits({ timeout_ms: 1 }, config()).timeoutMs).toBe(100);
  });

  it('names the variable and the rule of a bad setting', () => {
    expect(() => readRunnerConfig({ YM_EXECUTOR_SHELL_SOCKET: '/x', YM_WORKSPACES: 'relative' })).toThrow(
      'YM_WORKSPACES must be an absolute path.',
    );
    expect(() =>
      readRunnerConfig({ YM_EXECUTOR_SHELL_SOCKET: '/x', YM_WORKSPACES: '/w', YM_EXECUTOR_SHELL_PIDS: 'many' }),
    ).toThrow(/YM_EXECUTOR_SHELL_PIDS must be a number/);
    expect(() =>
      readRunnerConfig({ YM_EXECUTOR_SHELL_SOCKET: '/x', YM_WORKSPACES: '/w', YM_EXECUTOR_SHELL_MODE: 'none' }),
    ).toThrow(/auto, bwrap or pod/);
  });
});
