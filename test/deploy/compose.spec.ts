import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';

// What deploy/compose.yaml takes for granted about the code and the images.

interface Service {
  build?: { dockerfile: string; target?: string; args: { SERVICE: string } };
  command?: string[];
  environment?: Record<string, string>;
  networks?: string[];
  ports?: string[];
  read_only?: boolean;
  restart?: string;
  security_opt?: string[];
  stop_grace_period?: string;
  tmpfs?: string[];
  cap_drop?: string[];
  user?: string;
  volumes?: string[];
  healthcheck?: { test: string[] };
}

const root = fileURLToPath(new URL('../..', import.meta.url));
const { services, networks } = parse(readFileSync(`${root}deploy/compose.yaml`, 'utf8'), { merge: true }) as {
  services: Record<string, Service>;
  networks: Record<string, { internal?: boolean }>;
};
const all = Object.entries(services);
/** Those that stay up; the others are commands of `yard`. */
const lasting = all.filter(([, { build }]) => build !== undefined && build.args.SERVICE !== 'yard');
const commands = all.filter(([, { build }]) => build?.args.SERVICE === 'yard');

const scratch = mkdtempSync(join(tmpdir(), 'yardmaster-compose-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const sources = (folder: string): string =>
  readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.spec.ts'))
    .map((name) => readFileSync(`${root}${folder}/${name}`, 'utf8'))
    .join('\n');

it('every service but the one for clusters is there, by its name, and has the image that it needs', () => {
  const known = readdirSync(`${root}services`).filter((name) => existsSync(`${root}services/${name}/package.json`));
  expect(lasting.map(([name]) => name).sort()).toEqual(known.filter((one) => !['yard', 'fleet'].includes(one)).sort());
  for (const [name, { build }] of lasting) {
    expect(build).toMatchObject({ dockerfile: 'deploy/Dockerfile', args: { SERVICE: name } });
    expect(build!.target, name).toBe(name === 'executor-shell' ? 'runner' : undefined);
  }
});

describe.each(lasting)('%s', (name, service) => {
  it('runs with as little as its image asks for', () => {
    expect(service).toMatchObject({ read_only: true, tmpfs: ['/tmp'], cap_drop: ['ALL'] });
    expect(service.security_opt).toContain('no-new-privileges:true');
    expect(service.user).toBeUndefined();
    if (name !== 'executor-shell') expect(service.security_opt).toHaveLength(1);
  });

  it('gets the time to end what is under way, and says how it is', () => {
    const drainMs = Number(/drainMs: number = ([0-9_]+);/.exec(sources('libs/service-kit/src'))![1]!.replace('_', ''));
    expect(Number(service.stop_grace_period!.replace(/s$/, '')) * 1000).toBeGreaterThan(drainMs + 5_000);
    expect(service.healthcheck!.test.join(' ')).toContain('8081/readyz');
    expect(service.restart).toBe('unless-stopped');
  });

  it('gets variables that its code reads', () => {
    const code = sources('libs/service-kit/src') + sources(`services/${name}/src`);
    const set = Object.keys(service.environment!).filter((one) => one.startsWith('YM_'));
    expect(set.length).toBeGreaterThan(1);
    expect(set.filter((one) => !code.includes(`'${one}'`) && !code.includes(`${one}:`))).toEqual([]);
  });
});

it('the passwords that services are told to read are those that the command writes', () => {
  const { command } = services['files']!;
  const words = command!.slice(1).map((word) => (word === '/run/yardmaster' ? scratch : word));
  const made = spawnSync(process.execPath, words, { encoding: 'utf8', cwd: root });
  expect(made.status, made.stderr).toBe(0);
  const files = [...all.flatMap(([, { environment = {} }]) => Object.values(environment))].filter((value) =>
    value.startsWith('/run/yardmaster/'),
  );
  expect(files.length).toBeGreaterThan(8);
  for (const file of files) {
    const at = file.replace('/run/yardmaster', scratch);
    expect(existsSync(at), file).toBe(true);
    // Services are not the user who makes them.
    expect(statSync(at).mode & 0o777, file).toBe(0o644);
  }
  expect(statSync(join(scratch, 'secrets')).mode & 0o777).toBe(0o755);
  expect(statSync(join(scratch, 'nats.conf')).mode & 0o777).toBe(0o644);
  for (const server of ['nats', 'redis'])
    for (const word of services[server]!.command!.filter((one) => one.startsWith('/run/yardmaster/')))
      expect(existsSync(word.replace('/run/yardmaster', scratch)), word).toBe(true);
});

it('who shares a network with whom is this table', () => {
  const of = Object.fromEntries(all.map(([name, { networks: some = [] }]) => [name, [...some].sort().join(' ')]));
  expect(of).toEqual({
    files: '',
    nats: 'bus',
    redis: 'data',
    bootstrap: 'bus data',
    api: 'bus data out',
    dispatcher: 'bus data',
    router: 'bus data out',
    registry: 'bus',
    'executor-files': 'bus',
    'executor-shell': 'bus',
  });
  expect(Object.entries(networks).filter(([, one]) => one?.internal !== true)).toEqual([['out', {}]]);
});

it('only this machine reaches it, at one port', () => {
  expect(all.flatMap(([, { ports = [] }]) => ports)).toEqual(['127.0.0.1:4400:8080']);
});

it('the commands are ones that the command line has', () => {
  expect(commands.map(([name]) => name)).toEqual(['files', 'bootstrap']);
  for (const [, { command }] of commands) {
    const [, script, ...words] = command!;
    expect(existsSync(`${root}${script}`)).toBe(true);
    const help = spawnSync(process.execPath, [script!, words[0]!, words[1]!, '--help'], {
      encoding: 'utf8',
      cwd: root,
    });
    for (const option of words.filter((word) => word.startsWith('--'))) expect(help.stdout).toContain(option);
  }
});
