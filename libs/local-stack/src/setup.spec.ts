import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

/*
 * The set-up scripts in a checkout of their own, on a machine of their own: a PATH that holds nothing but what each test
 * puts there, so that no package manager and no server of this machine is touched.
 */
let checkout: string;
let bin: string;
let said: string;

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'yardmaster-setup-'));
  bin = join(checkout, 'machine', 'bin');
  said = join(checkout, 'said');
  mkdirSync(bin, { recursive: true });
  for (const name of ['sh', 'env', 'mkdir', 'cat', 'true']) {
    const file = ['/bin', '/usr/bin'].map((folder) => join(folder, name)).find((path) => existsSync(path))!;
    symlinkSync(file, join(bin, name));
  }
  symlinkSync(process.execPath, join(bin, 'node'));
  cpSync(new URL('../setup', import.meta.url).pathname, join(checkout, 'libs/local-stack/setup'), { recursive: true });
  write('package.json', { scripts: { start: '', test: '' }, devDependencies: { node: process.versions.node } });
  write('package-lock.json', lock('1.0.0'));
});
afterEach(() => rmSync(checkout, { recursive: true }));

function write(name: string, content: unknown): void {
  mkdirSync(dirname(join(checkout, name)), { recursive: true });
  writeFileSync(join(checkout, name), typeof content === 'string' ? content : JSON.stringify(content));
}

const lock = (version: string) => ({
  packages: { '': {}, 'node_modules/a': { version }, 'node_modules/b': { version, optional: true } },
});

function program(name: string, script: string, folder = bin): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, name), 0o755);
}

const server = (name: string, version: string, folder?: string) => program(name, `echo "${name}: v${version}"`, folder);

/** Says what it was called with, and "installs" the files that `creates` writes. */
const installer = (name: string, creates = '') => program(name, `echo "${name} $*" >> ${said}\n${creates}`);

/** Whoever runs the tests, the set-up takes them for an ordinary user. */
const NOT_ROOT = { NODE_OPTIONS: '--import=data:text/javascript,process.getuid=()=>1000' };

function run(task: string, env: Record<string, string> = {}) {
  const result = spawnSync(process.execPath, ['libs/local-stack/setup/run.mjs', task], {
    cwd: checkout,
    env: { PATH: bin, ...env },
    encoding: 'utf8',
  });
  return {
    code: result.status,
    text: `${result.stdout}${result.stderr}`,
    said: existsSync(said) ? readFileSync(said, 'utf8').trim().split('\n') : [],
  };
}

/** `npm ci` as far as the set-up can tell. */
const npmInstalls = `mkdir -p node_modules/node/bin node_modules/.bin
  cat package-lock.json > node_modules/.package-lock.json
  printf '#!/bin/sh\\necho v${process.versions.node}\\n' > node_modules/node/bin/node`;

describe('servers', () => {
  const all = () => {
    server('nats-server', '2.10.1');
    server('redis-server', '7.2.0');
    server('bwrap', '0.8.0');
    installer('npm', 'exit 9');
  };

  test('that are on PATH are used, and nothing is installed', () => {
    all();
    installer('apt-get');
    expect(run('start')).toMatchObject({ said: ['npm ci --no-audit --no-fund --no-progress --loglevel=error'] });
  });

  test('are looked for in sbin too, where users of Debian do not look', () => {
    all();
    rmSync(join(bin, 'nats-server'));
    server('nats-server', '2.9.10', join(checkout, 'machine', 'sbin'));
    expect(run('start').text).not.toContain('nats-server');
  });

  test('Valkey will do for Redis', () => {
    all();
    rmSync(join(bin, 'redis-server'));
    server('valkey-server', '8.0.1');
    expect(run('start').text).not.toContain('redis');
  });

  test('that are missing and cannot be installed end with one message and code 7, before anything else is done', () => {
    const { code, text, said: done } = run('start');
    expect(code).toBe(7);
    for (const word of [
      'nats-server',
      'redis-server',
      'bwrap',
      'apt-get install nats-server redis-server bubblewrap',
      'dnf install',
      'pacman -S',
      'brew install nats-server redis\n',
      'docker compose -f deploy/compose.yaml up',
      'YM_NATS_SERVER=',
      'YM_REDIS_SERVER=',
      'YM_BWRAP=',
    ])
      expect(text).toContain(word);
    expect(text).not.toContain('    at ');
    expect(done).toEqual([]);
  });

  test('that are too old are named with their version', () => {
    all();
    server('nats-server', '2.9.9');
    expect(run('start')).toMatchObject({ code: 7 });
    expect(run('start').text).toMatch(/nats-server is 2\.9\.9, 2\.9\.10 or newer is needed/);
  });

  test('may be named by a variable, which must be right', () => {
    all();
    rmSync(join(bin, 'nats-server'));
    server('nats-server', '2.11.0', join(checkout, 'elsewhere'));
    expect(run('start', { YM_NATS_SERVER: join(checkout, 'elsewhere/nats-server') }).text).not.toContain('nats-server');
    expect(run('start', { YM_NATS_SERVER: '/nowhere/nats-server' }).text).toMatch(
      /YM_NATS_SERVER names \/nowhere\/nats-server, which is not/,
    );
  });

  test("are installed from Debian's packages, lists first, when no password is needed", () => {
    all();
    rmSync(join(bin, 'nats-server'));
    program('sudo', 'shift; exec "$@"');
    installer(
      'apt-get',
      `case "$*" in *install*) printf '#!/bin/sh\\necho v2.9.10\\n' > ${bin}/nats-server; /bin/chmod 755 ${bin}/nats-server;; esac`,
    );
    const { said: done, text } = run('start', NOT_ROOT);
    expect(done.slice(0, 2)).toEqual([
      'apt-get -q update',
      'apt-get -q install -y --no-install-recommends nats-server',
    ]);
    expect(text).not.toContain('not found');
  });

  test('are not installed when sudo wants a password', () => {
    program('sudo', 'exit 1');
    installer('apt-get');
    expect(run('start', NOT_ROOT)).toMatchObject({ code: 7, said: [] });
  });

  test('are no concern of tasks that do not use them', () => {
    installer('npm', 'exit 9');
    expect(run('lint').text).toContain('npm ci failed with code 9');
  });
});

describe('npm packages', () => {
  beforeEach(() => {
    installer('npm', `case "$1" in ci) ${npmInstalls}; /bin/chmod 755 node_modules/node/bin/node;; esac`);
  });
  const count = (task = 'lint') => run(task).said.filter((line) => line.startsWith('npm ci')).length;

  test('are installed once, and again when the lockfile changes', () => {
    expect(count()).toBe(1);
    expect(count()).toBe(1);
    write('package-lock.json', lock('1.0.1'));
    expect(count()).toBe(2);
    expect(count()).toBe(2);
  });

  test("are left alone when someone's own npm install brought what the lockfile says", () => {
    expect(count()).toBe(1);
    rmSync(join(checkout, 'node_modules/.yardmaster-lock'));
    write('node_modules/.package-lock.json', { packages: { 'node_modules/a': { version: '1.0.0' } } }); // b is optional
    expect(count()).toBe(1);
    rmSync(join(checkout, 'node_modules/.yardmaster-lock'));
    write('node_modules/.package-lock.json', { packages: { 'node_modules/a': { version: '0.9.0' } } });
    expect(count()).toBe(2);
  });

  test('an install that fails is tried again the next time', () => {
    installer('npm', 'exit 3');
    expect(run('lint')).toMatchObject({ code: 1 });
    expect(run('lint').said).toHaveLength(2);
  });
});

describe('the pinned Node', () => {
  test('is fetched when ignore-scripts left it out, and refused when it is another', () => {
    const nothing = `mkdir -p node_modules; cat package-lock.json > node_modules/.package-lock.json`;
    installer(
      'npm',
      `case "$1" in ci) ${nothing};; rebuild) ${npmInstalls}; /bin/chmod 755 node_modules/node/bin/node;; esac`,
    );
    const first = run('lint');
    expect(first.said).toEqual([
      'npm ci --no-audit --no-fund --no-progress --loglevel=error',
      'npm rebuild node --ignore-scripts=false --no-progress --loglevel=error',
    ]);
    expect(first.text).not.toContain('the pinned Node');
    program('node', 'echo v20.0.0', join(checkout, 'node_modules/node/bin'));
    const other = run('lint');
    expect(other.code).toBe(1);
    expect(other.text).toMatch(/the pinned Node .* is not what would run \(found v20\.0\.0\)\. Run "npm rebuild node/);
  });

  test('that cannot be had is one clear message', () => {
    installer('npm', `case "$1" in ci) mkdir -p node_modules;; esac`);
    expect(run('lint')).toMatchObject({ code: 1 });
    expect(run('lint').text).toMatch(/node_modules\/node\/bin\/node is missing or does not start/);
  });
});

test('an unknown task lists the ones there are', () => {
  expect(run('strat')).toMatchObject({
    code: 2,
    text: expect.stringMatching(/no task "strat"; there are: start, test/) as string,
  });
});
