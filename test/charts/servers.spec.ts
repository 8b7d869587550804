import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { render, root } from './helm.ts';
import { type Container, find, pods } from './manifest.ts';

// What the chart's containers run, run here: init containers, NATS, Redis and the bootstrap Job, with real servers.
const NATS = process.env['YM_NATS_SERVER'] ?? 'nats-server';
const REDIS = process.env['YM_REDIS_SERVER'] ?? 'redis-server';
const missing = [NATS, REDIS].filter((file) => spawnSync(file, ['--version']).status !== 0);

const freePort = () =>
  new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });

/** Runs a container of the yard image with paths of this machine in place of its mounts. */
function yard({ command = [], args = [] }: Container, paths: Record<string, string>, more: string[] = [], env = {}) {
  const here = (text: string) => Object.entries(paths).reduce((all, [from, to]) => all.replaceAll(from, to), text);
  const [program, entry, ...words] = [...command, ...args];
  expect([program, entry]).toEqual(['node', 'services/yard/dist/main.js']);
  const { status, stderr } = spawnSync(process.execPath, [entry!, ...words.map(here), ...more], {
    cwd: root,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { status, stderr };
}

describe.skipIf(missing.length > 0)(`the servers as the chart configures them`, () => {
  const dir = mkdtempSync(join(tmpdir(), 'yardmaster-servers-'));
  const at = (...names: string[]) => join(dir, ...names);
  const started: ChildProcess[] = [];
  const KEY = `ym_acme_${'a'.repeat(12)}_${'0'.repeat(64)}`;

  beforeAll(() => {
    for (const folder of ['nats', 'generated', 'secrets/nats', 'secrets/redis', 'run', 'data', 'redis-data'])
      mkdirSync(at(folder), { recursive: true });
    for (const login of [
      'api',
      'dispatcher',
      'router',
      'registry',
      'fleet',
      'setup',
      'routes',
      'executor-shell',
      'executor-files',
    ])
      writeFileSync(at('secrets/nats', `nats-${login}`), `123-${login}`);
    for (const login of ['api', 'dispatcher', 'router', 'bootstrap'])
      writeFileSync(at('secrets/redis', `redis-${login}`), `456-${login}`);
    writeFileSync(at('api-key'), `${KEY}\n`);
  });
  afterAll(async () => {
    for (const child of started) child.kill('SIGKILL');
    await sleep(100);
    rmSync(dir, { recursive: true, force: true });
  });

  const files = (component: string, values: object = {}, more: string[] = []) => {
    const pod = pods(render({ values })).find((one) => one.component === component)!;
    return yard(pod.initContainers[0]!, { '/generated': at('generated'), '/run/secrets': at('secrets') }, more);
  };
  const mainConf = (values: object = {}) =>
    find(render({ values }), 'ConfigMap', 'nats').data!['main.conf']!.replaceAll('/run/nats', at('run'));
  const check = () =>
    spawnSync(NATS, ['-t', '-c', at('nats/main.conf')], {
      encoding: 'utf8',
      env: { ...process.env, SERVER_NAME: 's-x-0' },
    });

  test('a password that is missing in the Secret is named, and nothing is written', () => {
    const { status, stderr } = files('nats', { executors: { python: { image: { repository: 'p', tag: '1' } } } });
    expect(status).toBe(3);
    expect(stderr).toContain('nats-executor-python');
  });

  test('a cluster of three has a configuration that nats-server accepts', () => {
    const values = { nats: { replicas: 3 } };
    expect(files('nats', values)).toMatchObject({ status: 0 });
    writeFileSync(at('nats/main.conf'), mainConf(values));
    expect(check().stderr).toContain('is valid');
  });

  test('NATS, Redis and the bootstrap Job work together', { timeout: 60_000 }, async () => {
    const [nats, http, redis] = [await freePort(), await freePort(), await freePort()];
    expect(files('nats', {}, ['--listen', `127.0.0.1:${nats}`, '--store-dir', at('data')])).toMatchObject({
      status: 0,
    });
    expect(files('redis')).toMatchObject({ status: 0 });
    writeFileSync(at('nats/main.conf'), mainConf().replace('0.0.0.0:8222', `127.0.0.1:${http}`));
    started.push(
      spawn(NATS, ['-c', at('nats/main.conf')], { stdio: 'ignore', env: { ...process.env, SERVER_NAME: 's-x-0' } }),
    );
    const [, ...args] = find(render(), 'StatefulSet', 'redis').spec.template.spec.containers[0].command as string[];
    const here = args.map((arg) => arg.replace('/generated', at('generated')).replace(/^\/data$/, at('redis-data')));
    started.push(spawn(REDIS, ['--port', String(redis), '--bind', '127.0.0.1', ...here], { stdio: 'ignore' }));
    await expect
      .poll(
        () =>
          fetch(`http://127.0.0.1:${http}/healthz?js-server-only=true`).then(
            (one) => one.status,
            () => 0,
          ),
        { timeout: 20_000 },
      )
      .toBe(200);

    const job = find(render(), 'Job', 'bootstrap').spec.template.spec.containers[0] as Container;
    const env = {
      YM_NATS_URL: `nats://127.0.0.1:${nats}`,
      YM_REDIS_URL: `redis://127.0.0.1:${redis}`,
      YM_NATS_PASSWORD_FILE: at('secrets/nats/nats-setup'),
      YM_REDIS_PASSWORD_FILE: at('secrets/redis/redis-bootstrap'),
    };
    const first = yard(job, { '/run/yardmaster/api-key/api-key': at('api-key') }, [], env);
    expect(first.stderr).toContain('created YM_TOOL_SHELL');
    expect(first.stderr).toContain('key aaaaaaaaaaaa of tenant acme may be used');
    expect(first.status).toBe(0);
    const again = yard(job, { '/run/yardmaster/api-key/api-key': at('api-key') }, [], env);
    expect(again).toMatchObject({ status: 0 });
    expect(again.stderr).not.toContain('created');
    // What KEDA asks, without a login: the account, stream and consumer that the ScaledObject names.
    const jsz = await (await fetch(`http://127.0.0.1:${http}/jsz?acc=YM&consumers=true&config=true`)).json();
    const streams = (jsz as any).account_details[0].stream_detail as any[]; // eslint-disable-line @typescript-eslint/no-explicit-any
    expect(streams.find(({ name }) => name === 'YM_TOOL_SHELL').consumer_detail[0].name).toBe('work');
    // The readiness probe of Redis, with whichever client is here.
    expect(
      execFileSync('bash', ['-c', `exec 3<>/dev/tcp/127.0.0.1/${redis}; printf 'PING\\r\\n' >&3; head -n1 <&3`], {
        encoding: 'utf8',
      }),
    ).toContain('NOAUTH');
  });
});

describe.skipIf(missing.length > 0)('the backup of Redis that the guide describes', () => {
  const dir = mkdtempSync(join(tmpdir(), 'yardmaster-backup-'));
  const started: ChildProcess[] = [];
  afterAll(async () => {
    for (const child of started) child.kill('SIGKILL');
    await sleep(100);
    rmSync(dir, { recursive: true, force: true });
  });
  /** A server on a folder, as the chart starts it. */
  async function redisOn(folder: string) {
    const port = await freePort();
    const [, ...args] = find(render(), 'StatefulSet', 'redis').spec.template.spec.containers[0].command as string[];
    const here = args.map((arg) => arg.replace('/generated', join(dir, 'generated')).replace(/^\/data$/, folder));
    started.push(spawn(REDIS, ['--port', String(port), '--bind', '127.0.0.1', ...here], { stdio: 'ignore' }));
    const login = readFileSync(join(dir, 'secrets', 'redis-bootstrap'), 'utf8').trim();
    const client = (user: string, password: string, ...commands: string[]) =>
      execFileSync(
        'bash',
        [
          '-c',
          `exec 3<>/dev/tcp/127.0.0.1/${port}; printf '%s\\r\\n' "$@" QUIT >&3; cat <&3`,
          'redis',
          `AUTH ${user} ${password}`,
          ...commands,
        ],
        { stdio: ['ignore', 'pipe', 'ignore'] },
      ).toString();
    await expect.poll(() => client('bootstrap', login, 'LASTSAVE'), { timeout: 20_000 }).toMatch(/^\+OK/);
    const api = readFileSync(join(dir, 'secrets', 'redis-dispatcher'), 'utf8').trim();
    return {
      bootstrap: (...all: string[]) => client('bootstrap', login, ...all),
      dispatcher: (...all: string[]) => client('dispatcher', api, ...all),
    };
  }

  test(
    'is written by the login that it names, and comes back by the file that it writes',
    { timeout: 60_000 },
    async () => {
      const guide = readFileSync(`${root}docs/install.md`, 'utf8');
      for (const words of ['valkey-cli --user bootstrap bgsave', 'valkey-cli --user bootstrap lastsave'])
        expect(guide).toContain(words);
      for (const folder of ['generated', 'secrets', 'old', 'new']) mkdirSync(join(dir, folder));
      const made = spawnSync(
        process.execPath,
        ['services/yard/dist/main.js', 'setup', 'files', '--only', 'redis', '--out', dir],
        { cwd: root },
      );
      expect(made.status).toBe(0);
      writeFileSync(join(dir, 'generated/users.acl'), readFileSync(join(dir, 'users.acl')));
      const old = await redisOn(join(dir, 'old'));
      expect(old.dispatcher('SET ym:r:{acme:c}:run state')).toContain('+OK');
      expect(old.bootstrap('BGSAVE SCHEDULE')).toContain('+Background saving');
      await expect.poll(() => existsSync(join(dir, 'old/dump.rdb')), { timeout: 20_000 }).toBe(true);

      // The guide's own commands, with a folder of this machine in place of the volume.
      const [, script] = /exec redis-restore -- sh -c '(.+)'$/m.exec(guide)!;
      const [, target] = /exec -i redis-restore -- sh -c 'cat > (\S+)' < dump\.rdb$/m.exec(guide)!;
      const volume = (text: string) => text.replaceAll('/data/', `${join(dir, 'new')}/`);
      execFileSync('sh', ['-c', volume(script!)]);
      writeFileSync(volume(target!), readFileSync(join(dir, 'old/dump.rdb')));
      expect((await redisOn(join(dir, 'new'))).dispatcher('GET ym:r:{acme:c}:run')).toContain('state');
    },
  );
});

test.skipIf(missing.length === 0)(`SKIPPED: ${missing.join(' and ')} not found`, () => {});
