import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, get, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RegistryProxy } from '../../registry-proxy/registry-proxy.js';
import { type LocalRunner, startRunner } from '../../runner-client/start-runner.js';
import { readInstallPolicy } from './install-stage.js';

const ENTRY = new URL('../../../dist/runner/main.js', import.meta.url).pathname;
const hasNpm = ((): boolean => {
  try {
    execFileSync('/usr/bin/env', ['-i', 'PATH=/usr/local/bin:/usr/bin:/bin', 'npm', '--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

let dir = '';
let registry: Server;
let proxy: RegistryProxy;
let runner: LocalRunner;
const asked: string[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'yardmaster-install-'));
  // A package with an install script, which must not run.
  mkdirSync(join(dir, 'package'));
  writeFileSync(
    join(dir, 'package', 'package.json'),
    JSON.stringify({
      name: 'lodash',
      version: '1.0.0',
      main: 'index.js',
      scripts: { postinstall: 'touch /workspace/script-ran' },
    }),
  );
  writeFileSync(join(dir, 'package', 'index.js'), 'module.exports = { hello: "from lodash" };');
  execFileSync('tar', ['czf', join(dir, 'lodash.tgz'), '-C', dir, 'package']);
  const tarball = readFileSync(join(dir, 'lodash.tgz'));
  registry = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const base = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
    if (request.url === '/lodash')
      response.end(
        JSON.stringify({
          name: 'lodash',
          'dist-tags': { latest: '1.0.0' },
          versions: {
            '1.0.0': {
              name: 'lodash',
              version: '1.0.0',
              hasInstallScript: true,
              dist: { tarball: `${base}/lodash.tgz`, shasum: createHash('sha1').update(tarball).digest('hex') },
            },
          },
        }),
      );
    else if (request.url === '/lodash.tgz') response.end(tarball);
    else response.writeHead(404).end('{}');
  });
  await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', () => resolve()));
  const url = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  proxy = new RegistryProxy(join(dir, 'proxy.sock'), [url]);
  await proxy.listen();
  const policy = {
    import_to_package: {},
    program_to_package: {},
    allow_list: { pip: ['requests'], npm: ['lodash'], apt: ['jq'] },
    registries: { npm: url, pip: `${url}/simple` },
  };
  writeFileSync(join(dir, 'policy.json'), JSON.stringify(policy));
  mkdirSync(join(dir, 'workspaces'));
  runner = await startRunner(
    {
      YM_EXECUTOR_SHELL_SOCKET: join(dir, 'runner.sock'),
      YM_WORKSPACES: join(dir, 'workspaces'),
      YM_EXECUTOR_SHELL_INSTALL: 'true',
      YM_EXECUTOR_SHELL_INSTALL_RUN_AGAIN: 'true',
      YM_EXECUTOR_SHELL_INSTALL_POLICY_FILE: join(dir, 'policy.json'),
      YM_EXECUTOR_SHELL_INSTALL_PROXY_SOCKET: join(dir, 'proxy.sock'),
    },
    { entry: ENTRY },
  );
});
afterAll(async () => {
  await runner?.stop();
  await proxy?.close();
  registry?.close();
  rmSync(dir, { recursive: true, force: true });
});

const run = (workspace: string, command: string): ReturnType<LocalRunner['client']['run']> =>
  runner.client.run({ tenant: 't', workspace, command, limits: { timeout_ms: 60_000 } });

describe('dependency install', () => {
  it.skipIf(!hasNpm)(
    'installs an allowed package in a sandbox of its own, without its scripts, and runs the command once more',
    async () => {
      const { stdout, verdict } = await run(
        'npm',
        'echo run >> runs; cat > a.cjs <<"E"\nconsole.log(require("lodash").hello)\nE\nnode a.cjs',
      );
      expect(verdict.install).toEqual({ manager: 'npm', package: 'lodash', outcome: 'installed' });
      expect(stdout).toBe('from lodash\n');
      expect(verdict).toMatchObject({ status: 'ok', exit_code: 0, stage: 'install' });
      expect((await run('npm', 'cat runs; ls')).stdout).toBe('run\nrun\na.cjs\nnode_modules\nruns\n');
      // The command itself still has no way out.
      expect((await run('npm', 'ls /run; (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null && echo open')).stdout).toBe(
        'command\nlimits\n',
      );
    },
  );

  it('asks nobody for a package that is not on the list, and never runs a command a third time', async () => {
    const before = asked.length;
    const { verdict } = await run('typo', 'echo run >> runs; echo "Error: Cannot find module \'lodahs\'" >&2; exit 1');
    expect(verdict.install).toBeUndefined();
    expect(asked.length).toBe(before);
    const again = await run('again', 'echo run >> runs; echo "Error: Cannot find module \'lodash\'" >&2; exit 1');
    expect(again.verdict.exit_code).toBe(1);
    expect((await run('again', 'wc -l < runs')).stdout.trim()).toMatch(/^[12]$/);
  });

  it('only reports system packages, and what is needed first', async () => {
    expect((await run('apt', 'echo "bash: jq: command not found" >&2; exit 127')).verdict.install).toEqual({
      manager: 'apt',
      package: 'jq',
      outcome: 'reported',
    });
    const { install } = (await run('pip', 'echo "ModuleNotFoundError: No module named \'requests\'" >&2; exit 1'))
      .verdict;
    expect(install).toMatchObject({
      manager: 'pip',
      package: 'requests',
      outcome: 'failed',
      detail: expect.stringContaining('python3 -m venv') as string,
    });
  });
});

describe('registry proxy', () => {
  it('reaches the registries of the policy and nobody else', async () => {
    const tunnel = (target: string): Promise<string> =>
      new Promise((resolve) => {
        const socket = connect(join(dir, 'proxy.sock'), () =>
          socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`),
        );
        socket.once('data', (chunk) => {
          socket.destroy();
          resolve(chunk.toString().split('\r\n')[0]!);
        });
        socket.once('error', () => resolve('error'));
      });
    const port = (registry.address() as AddressInfo).port;
    expect(await tunnel(`127.0.0.1:${port}`)).toContain('200');
    for (const target of [
      '127.0.0.1:22',
      `localhost:${port}`,
      '169.254.169.254:80',
      'example.invalid:443',
      `127.0.0.1:${port}@x:1`,
    ])
      expect(await tunnel(target)).toContain('403');
    const plain = (path: string): Promise<number> =>
      new Promise((resolve) => {
        get({ socketPath: join(dir, 'proxy.sock'), path }, (response) => {
          response.resume();
          resolve(response.statusCode!);
        });
      });
    expect(await plain(`http://127.0.0.1:${port}/lodash`)).toBe(200);
    expect(await plain('http://169.254.169.254/latest/meta-data')).toBe(403);
    expect(await plain('/lodash')).toBe(403);
  });
});

it('a policy says what is wrong with it', () => {
  const path = join(dir, 'bad.json');
  writeFileSync(path, '{}');
  expect(() => readInstallPolicy(path)).toThrow(/needs an "allow_list"/);
  writeFileSync(path, JSON.stringify({ allow_list: { npm: [] }, registries: { npm: "http://x/';touch y;'" } }));
  expect(() => readInstallPolicy(path)).toThrow(/no http\(s\) address/);
});
