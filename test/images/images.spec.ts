import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type DemoModel, onFreePort, ServerProcess, startModel } from '@yardmaster/local-stack';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Images, root } from './buildah.ts';
import { Container } from './container.ts';

// deploy/Dockerfile, built for every service and run together, as deploy/compose.yaml and the chart run them.
const SERVICES = readdirSync(`${root}services`).filter((name) => existsSync(`${root}services/${name}/package.json`));
/** Not among those that run together: the command line, which sets an installation up, and what needs a cluster. */
const APART = ['yard', 'fleet'];
/** Who sees the workspaces. */
const WITH_FILES = ['executor-files', 'executor-shell'];
const USER = 1000;

const images = new Images();
const names = new Map<string, string>();
const rootfs = (service: string) => images.mount(names.get(service)!);

beforeAll(async () => {
  const base = await images.base();
  for (const service of SERVICES) {
    const more = service === 'executor-shell' ? ['--target', 'runner'] : [];
    names.set(service, await images.build(service, base, ...more));
    console.log(`built ${service}`);
  }
});
afterAll(() => images.remove());

interface Config {
  User: string;
  Env: string[];
  Entrypoint?: string[];
  Cmd: string[];
  WorkingDir: string;
  ExposedPorts?: Record<string, unknown>;
}
const configOf = async (service: string): Promise<Config> => {
  const found = JSON.parse(await images.buildah('inspect', '--type', 'image', names.get(service)!)) as {
    OCIv1: { config: Config };
  };
  return found.OCIv1.config;
};

/** Every file and folder below a path, links not followed. */
function* tree(path: string): Generator<{ path: string; stat: ReturnType<typeof lstatSync> & object }> {
  for (const name of readdirSync(path)) {
    const inner = join(path, name);
    const stat = lstatSync(inner);
    yield { path: inner, stat };
    if (stat.isDirectory()) yield* tree(inner);
  }
}

/** `name@version` of every package that is installed, in whatever depth. */
function installed(app: string): Set<string> {
  const found = new Set<string>();
  for (const { path } of tree(app)) {
    if (!/node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(path)) continue;
    const { name, version } = JSON.parse(readFileSync(path, 'utf8')) as { name?: string; version?: string };
    if (name !== undefined && version !== undefined) found.add(`${name}@${version}`);
  }
  for (const part of ['libs', 'services'])
    for (const name of readdirSync(join(app, part))) {
      const own = JSON.parse(readFileSync(join(app, part, name, 'package.json'), 'utf8')) as Record<string, string>;
      found.add(`${own['name']}@${own['version']}`);
    }
  return found;
}

describe.each(SERVICES)('the image of %s', (service) => {
  test('runs as an ordinary user', async () => {
    const config = await configOf(service);
    expect(config.User).toBe(`${USER}:${USER}`);
    expect(config.Env).toContain('NODE_ENV=production');
    expect(config.Env).toContain(`SERVICE=${service}`);
  });

  test('has what runs, and neither tests, sources, development packages nor settings of npm', async () => {
    const app = join(await rootfs(service), 'app');
    const lock = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8')) as {
      packages: Record<string, { version?: string; dev?: boolean; devOptional?: boolean }>;
    };
    const isDevelopment = ({ dev, devOptional }: { dev?: boolean; devOptional?: boolean }) =>
      dev === true || devOptional === true;
    const development = new Set(
      Object.entries(lock.packages)
        .filter(([path, entry]) => path.includes('node_modules/') && isDevelopment(entry))
        .map(([path, entry]) => `${path.slice(path.lastIndexOf('node_modules/') + 13)}@${entry.version}`),
    );
    const packages = [...installed(app)];
    expect(packages.length).toBeGreaterThan(10);
    // The same version of a package may be somebody's development dependency and somebody's real one.
    const real = new Set(
      Object.entries(lock.packages)
        .filter(([path, entry]) => path.includes('node_modules/') && !isDevelopment(entry))
        .map(([path, entry]) => `${path.slice(path.lastIndexOf('node_modules/') + 13)}@${entry.version}`),
    );
    expect(packages.filter((one) => development.has(one) && !real.has(one))).toEqual([]);
    expect(packages.filter((one) => one.startsWith('@yardmaster/testkit@'))).toEqual([]);
    expect(readdirSync(join(app, 'services'))).toEqual([service]);
    const own = [...tree(app)]
      .map(({ path }) => path.slice(app.length))
      .filter((path) => !path.includes('node_modules'));
    const unwanted = /\.spec\.|\.ts$|\.map$|\.tsbuildinfo$|tsconfig|npmrc$|package-lock|test-peer|\.md$/;
    expect(own.filter((path) => unwanted.test(path))).toEqual([]);
    expect(own).toContain(`/services/${service}/dist/main.js`);
  });

  test('is not much larger than what it runs', async () => {
    let bytes = 0;
    for (const { stat } of tree(join(await rootfs(service), 'app'))) if (stat.isFile()) bytes += Number(stat.size);
    console.log(`${service}: ${(bytes / 1e6).toFixed(1)} MB of program`);
    expect(bytes).toBeGreaterThan(1e6);
    expect(bytes).toBeLessThan(100e6);
  });

  test('has nothing of the program that its user could change, and no secret of the build', async () => {
    const files = await rootfs(service);
    const writable = [...tree(join(files, 'app'))].filter(
      ({ stat }) => !stat.isSymbolicLink() && (Number(stat.uid) === USER || (Number(stat.mode) & 0o022) !== 0),
    );
    expect(writable.map(({ path }) => path)).toEqual([]);
    for (const path of [
      'root/.npmrc',
      'root/.npm/_cacache',
      'run/secrets/npmrc',
      'run/secrets/ca.pem',
      'var/cache/npm/_cacache',
    ])
      expect(existsSync(join(files, path)), path).toBe(false);
    const found = spawnSync('grep', ['-rlF', '-D', 'skip', images.canary, files], { encoding: 'utf8' });
    // 1: it has read everything and found nothing.
    expect([found.status, found.stdout, found.stderr]).toEqual([1, '', '']);
    const told = await images.buildah('inspect', '--type', 'image', names.get(service)!);
    expect(told).toContain('mkdir /workspaces');
    expect(told).not.toContain(images.canary);
  });

  test('lists what it consists of: every package that is installed, and no other', async () => {
    const files = await rootfs(service);
    const list = JSON.parse(readFileSync(join(files, 'usr/share/sbom/yardmaster.cdx.json'), 'utf8')) as {
      bomFormat: string;
      metadata: { component: { name: string } };
      components: { name: string; version: string; type: string; purl: string }[];
    };
    expect(list.bomFormat).toBe('CycloneDX');
    expect(list.metadata.component.name).toBe(`yardmaster/${service}`);
    const listed = list.components.filter(({ type }) => type === 'library').map((one) => `${one.name}@${one.version}`);
    expect(listed.sort()).toEqual([...installed(join(files, 'app'))].sort());
    expect(list.components.map(({ purl }) => purl)).toContain(`pkg:generic/node@${process.versions.node}`);
  });
});

describe('all of them together', () => {
  const run = join(images.folder, 'volumes');
  const containers = new Map<string, Container>();
  const servers: ServerProcess[] = [];
  const ports = new Map<string, number>();
  let model: DemoModel;

  const port = async (what: string) => {
    if (!ports.has(what)) ports.set(what, await onFreePort((free) => Promise.resolve(free)));
    return ports.get(what)!;
  };
  const at = (what: string) => `127.0.0.1:${ports.get(what)}`;
  /** A folder of this machine that stands for a volume. */
  const volume = (name: string, owner = USER) => {
    const path = join(run, name);
    mkdirSync(path, { recursive: true });
    chownSync(path, owner, owner);
    return path;
  };

  async function start(
    service: string,
    more: { command?: string[]; name?: string; env?: Record<string, string>; user?: number } = {},
  ) {
    const { Env, Entrypoint = [], Cmd, WorkingDir } = await configOf(service);
    const { command = [...Entrypoint, ...Cmd], name = service, env = {}, user = USER } = more;
    const container = Container.start({
      rootfs: await rootfs(service),
      folder: join(images.folder, 'containers'),
      name,
      command,
      user,
      env: { ...Object.fromEntries(Env.map((one) => one.split(/=(.*)/s).slice(0, 2))), ...env },
      cwd: WorkingDir,
      volumes: {
        '/run/yardmaster': volume('run', 0),
        ...(WITH_FILES.includes(service) ? { '/workspaces': volume('workspaces') } : {}),
      },
      unmasked: service === 'executor-shell',
    });
    containers.set(name, container);
    return container;
  }
  const command = async (name: string, words: string[], env: Record<string, string> = {}) => {
    const container = await start('yard', {
      name,
      command: ['node', 'services/yard/dist/main.js', ...words],
      env,
      user: 0, // as compose has it: it writes what the others read
    });
    return { code: await container.ended, output: container.output };
  };
  const health = async (service: string, path: string): Promise<number | string> => {
    try {
      return (await fetch(`http://${at(`${service} health`)}${path}`, { signal: AbortSignal.timeout(2000) })).status;
    } catch (error) {
      return String((error as Error).cause ?? error);
    }
  };
  const waiting = SERVICES.filter((name) => !APART.includes(name));

  beforeAll(async () => {
    for (const service of waiting) for (const what of ['health', 'metrics']) await port(`${service} ${what}`);
    for (const what of ['nats', 'redis', 'api']) await port(what);
    model = await startModel({
      voice: 'native',
      script: ({ messages }) =>
        messages.some(({ role }) => role === 'tool')
          ? { text: 'done' }
          : {
              calls: JSON.stringify(messages).includes('take too long')
                ? [
                    {
                      name: 'shell_run',
                      arguments: { command: '(setsid sleep 300 &) ; (sleep 300 &) ; sleep 300', timeout_s: 1 },
                    },
                  ]
                : [
                    {
                      name: 'shell_run',
                      arguments: { command: 'id -u; git --version; cat note.txt; echo written > out.txt' },
                    },
                    { name: 'file_read', arguments: { path: 'note.txt' } },
                  ],
            },
    });
  });
  afterAll(async () => {
    for (const container of containers.values()) await container.remove();
    for (const server of servers) await server.stop();
    await model?.stop();
  });

  test('the command line writes the configuration of the servers', async () => {
    const where = ['--out', '/run/yardmaster', '--listen', at('nats'), '--store-dir', volume('nats')];
    const words = ['setup', 'files', '--readable-by-others', ...where];
    expect(await command('files', words)).toMatchObject({ code: 0 });
    expect(readdirSync(volume('run', 0)).sort()).toEqual(['nats.conf', 'secrets', 'users.acl']);
  });

  /** Starts a service, and once more when it ends, as a kubelet does: streams are made after services have come up. */
  async function startService(service: string): Promise<void> {
    await start(service, {
      env: {
        YM_HOST: '127.0.0.1',
        YM_HEALTH_PORT: String(await port(`${service} health`)),
        YM_METRICS_PORT: String(await port(`${service} metrics`)),
        YM_NATS_URL: `nats://${at('nats')}`,
        YM_NATS_USER: service,
        YM_NATS_PASSWORD_FILE: `/run/yardmaster/secrets/nats-${service}`,
        YM_DRAIN_MS: '5000',
        ...(WITH_FILES.includes(service) ? { YM_WORKSPACES: '/workspaces' } : {}),
        ...(['api', 'dispatcher', 'router'].includes(service)
          ? {
              YM_REDIS_URL: `redis://${at('redis')}`,
              YM_REDIS_USER: service,
              YM_REDIS_PASSWORD_FILE: `/run/yardmaster/secrets/redis-${service}`,
            }
          : {}),
        ...(WITH_FILES.includes(service) ? {} : { YM_CONFIG: '/run/yardmaster/config.yaml' }),
        ...(service === 'api' ? { YM_API_PORT: String(ports.get('api')) } : {}),
      },
    });
  }

  test('every service starts on a read-only root without NATS, and waits for it', async () => {
    const config = {
      providers: { demo: { kind: 'openai', base_url: model.url, auth: 'none', native_tools: true, demo: true } },
      routing: { default_model: 'demo', providers: ['demo'] },
      mcp_servers: { local: { command: 'node', args: ['/app/services/registry/dist/main.js'] } },
    };
    writeFileSync(join(volume('run', 0), 'config.yaml'), JSON.stringify(config));
    for (const service of waiting) await startService(service);
    for (const service of waiting) {
      const container = containers.get(service)!;
      const until = Date.now() + 120_000;
      while (!/NATS/.test(container.output) && container.code === undefined && Date.now() < until) await sleep(100);
      expect(container.output, service).toMatch(/NATS/);
      expect(container.code, container.output).toBeUndefined();
    }
  });

  test('the command line makes streams, functions and a key', async () => {
    const data = volume('redis');
    for (const [name, line] of Object.entries({
      nats: [process.env['YM_NATS_SERVER'] ?? 'nats-server', '-c', join(volume('run', 0), 'nats.conf')],
      redis: [
        process.env['YM_REDIS_SERVER'] ?? 'redis-server',
        ...['--bind', '127.0.0.1', '--port', String(ports.get('redis')), '--dir', data, '--appendonly', 'yes'],
        ...['--maxmemory-policy', 'noeviction', '--aclfile', join(volume('run', 0), 'users.acl')],
      ],
    } satisfies Record<string, [string, ...string[]]>))
      servers.push(
        await ServerProcess.start({ command: line as [string, ...string[]], log: join(images.folder, `${name}.log`) }),
      );
    const environment = {
      YM_NATS_URL: `nats://${at('nats')}`,
      YM_NATS_PASSWORD_FILE: '/run/yardmaster/secrets/nats-setup',
      YM_REDIS_URL: `redis://${at('redis')}`,
      YM_REDIS_PASSWORD_FILE: '/run/yardmaster/secrets/redis-bootstrap',
    };
    const words = ['setup', 'bootstrap', '--tenant', 'demo', '--key-file', '/run/yardmaster/key'];
    // The servers may not listen yet when it first tries; compose and a Job try again too.
    let answer = await command('bootstrap-0', words, environment);
    for (let i = 1; answer.code !== 0 && i < 20; i++) {
      await sleep(500);
      answer = await command(`bootstrap-${i}`, words, environment);
    }
    expect(answer).toMatchObject({ code: 0 });
  });

  test.each(waiting)('%s becomes ready', async (service) => {
    let last: number | string = '';
    let restarts = 0;
    for (const end = Date.now() + 180_000; Date.now() < end && last !== 200; await sleep(200)) {
      const container = containers.get(service)!;
      if (container.code !== undefined && restarts++ < 5) {
        await container.remove();
        // Ports of the machine, which a container in a cluster does not share: another process may have been faster.
        for (const what of ['health', 'metrics']) ports.delete(`${service} ${what}`);
        await startService(service);
      }
      last = await health(service, '/readyz');
    }
    expect(last, containers.get(service)!.output.slice(-4000)).toBe(200);
    expect(await health(service, '/livez')).toBe(200);
    const metrics = await fetch(`http://${at(`${service} metrics`)}/metrics`);
    expect(await metrics.text()).toContain('process_cpu_seconds_total');
  });

  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = {
      authorization: `Bearer ${readFileSync(join(volume('run', 0), 'key'), 'utf8').trim()}`,
      'content-type': 'application/json',
    };
    const response = await fetch(`http://${at('api')}${path}`, { ...init, headers });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return JSON.parse(text) as Record<string, unknown>;
  };
  /** A run that is over, or as it is after a minute. */
  const runOf = async (input: string) => {
    const { id } = await ask('/v1/runs', { method: 'POST', body: JSON.stringify({ input }) });
    let view: Record<string, unknown> = {};
    for (const end = Date.now() + 60_000; Date.now() < end; await sleep(200)) {
      view = await ask(`/v1/runs/${id as string}`);
      if (['completed', 'failed', 'cancelled', 'incomplete'].includes(view['state'] as string)) break;
    }
    return view;
  };

  test('a run goes through all of them, its command through the sandbox of the runner image', async () => {
    const workspace = join(volume('workspaces'), 'demo', 'default');
    mkdirSync(workspace, { recursive: true });
    for (const path of [join(workspace, '..'), workspace]) chownSync(path, USER, USER);
    writeFileSync(join(workspace, 'note.txt'), 'a note\n');
    chownSync(join(workspace, 'note.txt'), USER, USER);
    const view = await runOf('read the note');
    expect(view).toMatchObject({ state: 'completed', output: 'done' });
    const told = JSON.stringify(model.seen.at(-1)?.body.messages);
    expect(told).toContain('git version');
    expect(told.match(/a note/g)?.length).toBeGreaterThanOrEqual(2);
    expect(readFileSync(join(workspace, 'out.txt'), 'utf8')).toBe('written\n');
  });

  test('commands that are ended, and what they left behind, are waited for', async () => {
    // That such processes are seen at all.
    const careless = await start('yard', { name: 'careless', command: ['sh', '-c', '(sleep 1 &); exec sleep 600'] });
    await expect.poll(() => careless.zombies(), { timeout: 20_000 }).toEqual(['sleep']);
    const container = containers.get('executor-shell')!;
    for (let i = 0; i < 3; i++) expect(await runOf('take too long')).toMatchObject({ state: 'completed' });
    expect(JSON.stringify(model.seen.at(-1)?.body.messages)).toMatch(/timed? ?out|time limit/i);
    await expect.poll(() => container.zombies(), { timeout: 20_000 }).toEqual([]);
  });

  test('an MCP server over stdio is refused with what to do: the image has no sandbox for it', async () => {
    const found = async () => {
      const { items } = (await ask('/v1/mcp-servers')) as { items: { id: string; state: string; problem: unknown }[] };
      return items.find(({ id }) => id === 'local');
    };
    await expect.poll(async () => (await found())?.state, { timeout: 60_000 }).toBe('refused');
    expect(JSON.stringify(await found())).toMatch(/YM-MCP-SANDBOX.*bwrap is not installed/);
  });

  test.runIf(SERVICES.includes('fleet'))('the fleet says at once that it has no cluster', async () => {
    const container = await start('fleet', {
      env: {
        YM_NATS_URL: `nats://${at('nats')}`,
        YM_NATS_PASSWORD_FILE: '/run/yardmaster/secrets/nats-fleet',
        YM_HEALTH_PORT: '0',
        YM_METRICS_PORT: '0',
      },
    });
    const code = await container.ended;
    expect({ code, output: container.output }).toMatchObject({
      code: 78,
      output: expect.stringContaining('KUBECONFIG'),
    });
  });

  test.each(waiting)('%s ends by itself after SIGTERM, without an error', async (service) => {
    const container = containers.get(service)!;
    container.kill('SIGTERM');
    const late = sleep(30_000).then(() => 'still runs after 30 s');
    expect(await Promise.race([container.ended, late]), container.output.slice(-3000)).toBe(0);
  });
});
