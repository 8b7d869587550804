import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LLAMA, LLAMA_VALUES, PROFILES, refusal, render } from './helm.ts';
import { find, pods } from './manifest.ts';

const pod = (values: object = {}) => pods(render({ chart: LLAMA, values: { ...LLAMA_VALUES, ...values } }))[0]!;
const argsOf = (values: object = {}) => {
  const args = pod(values).containers[0]!.args!;
  return (flag: string) => (args.includes(flag) ? (args[args.indexOf(flag) + 1] ?? '') : undefined);
};

describe('the pod', () => {
  test('probes /health, for ten minutes at the start unless the one value says otherwise', () => {
    const { startupProbe, readinessProbe } = pod().containers[0]!;
    expect([startupProbe.httpGet.path, readinessProbe.httpGet.path]).toEqual(['/health', '/health']);
    const budget = (values: object) => {
      const probe = pod(values).containers[0]!.startupProbe;
      return probe.periodSeconds * probe.failureThreshold;
    };
    expect(budget({})).toBeGreaterThanOrEqual(600);
    expect(budget({ startupSeconds: 1805 })).toBeGreaterThanOrEqual(1805);
  });

  test('asks for the GPU in its own container alone, as a whole number', () => {
    const { containers, initContainers } = pod({ gpu: { count: 2 } });
    expect(containers[0]!.resources!.limits!['nvidia.com/gpu']).toBe(2);
    expect(JSON.stringify(initContainers)).not.toContain('nvidia.com');
    expect(JSON.stringify(pod({ gpu: { enabled: false } }))).not.toContain('nvidia.com');
  });

  test('is the only pod of the platform with a GPU and its placement', () => {
    const values = { llama: { gpu: { nodeSelector: { gpu: 'yes' }, runtimeClassName: 'nvidia' } } };
    for (const { component, spec } of pods(render({ profile: 'gpu', values }))) {
      const has = JSON.stringify([spec.nodeSelector, spec.tolerations, spec.runtimeClassName, spec.containers]);
      expect(/gpu|nvidia/.test(has), component).toBe(component === 'llama');
    }
    const { spec } = pods(render({ profile: 'gpu', values })).find(({ component }) => component === 'llama')!;
    expect(spec).toMatchObject({ nodeSelector: { gpu: 'yes' }, runtimeClassName: 'nvidia' });
    expect(spec.tolerations).toEqual([{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }]);
    for (const profile of PROFILES.filter((name) => name !== 'gpu'))
      expect(JSON.stringify(render({ profile })), profile).not.toContain('nvidia.com/gpu');
  });

  test('says host, port, slots and context, shows metrics, and keeps no prompt for others', () => {
    const flag = argsOf();
    expect([flag('--host'), flag('--port')]).toEqual(['0.0.0.0', '8080']);
    expect([flag('--parallel'), flag('--ctx-size')]).toEqual(['2', '16384']);
    for (const name of ['--metrics', '--no-kv-unified', '--no-cache-idle-slots'])
      expect(flag(name), name).toBeDefined();
    expect(flag('--cache-ram')).toBe('0');
    const single = argsOf({ server: { singleTenant: true } });
    expect([single('--cache-ram'), single('--no-cache-idle-slots')]).toEqual(['8192', undefined]);
    expect(flag('--api-key-file')).toBe('/run/llama/api-key');
    const key = pod().spec.volumes.find((one: { name: string }) => one.name === 'api-key');
    expect(key.secret.secretName).toBe('ym-llama-key');
  });

  test('listens and fetches by IPv6 where that is all there is', () => {
    expect(argsOf({ server: { host: '::' } })('--host')).toBe('::');
    const { spec } = find(render({ chart: LLAMA, values: LLAMA_VALUES }), 'NetworkPolicy', 'llama');
    expect(spec.egress[1].to.map((peer: any) => peer.ipBlock.cidr)).toEqual(['0.0.0.0/0', '::/0']); // eslint-disable-line @typescript-eslint/no-explicit-any
  });

  test('is refused without a checksum, unless the file is there already', () => {
    expect(refusal({ chart: LLAMA, values: { model: { url: 'https://x.example/m' } } })).toContain(
      'model.sha256 is empty',
    );
    expect(pod({ model: { existingClaim: 'models' } }).initContainers).toEqual([]);
    expect(refusal({ values: { llama: { enabled: true } } })).toContain('model.sha256 is empty');
  });

  test('goes before the next one comes, and several pods need a volume that they can share', () => {
    expect(find(render({ chart: LLAMA, values: LLAMA_VALUES }), 'Deployment', 'llama').spec.strategy.type).toBe(
      'Recreate',
    );
    expect(refusal({ chart: LLAMA, values: { ...LLAMA_VALUES, replicas: 2 } })).toContain('persistence.enabled=false');
  });

  test('two releases stand beside each other in one namespace', () => {
    const names = ['qwen', 'gemma'].map((release) =>
      render({ chart: LLAMA, values: LLAMA_VALUES, release }).map(({ kind, metadata }) => `${kind} ${metadata.name}`),
    );
    expect(names[0]!.filter((name) => names[1]!.includes(name))).toEqual([]);
  });
});

const listen = (answer: (request: IncomingMessage, response: ServerResponse) => void) =>
  new Promise<{ server: Server; port: number }>((resolve) => {
    const server = createServer(answer).listen(0, '127.0.0.1', () =>
      resolve({ server, port: (server.address() as AddressInfo).port }),
    );
  });

describe('fetching a model', () => {
  let dir: string;
  let stop: Server | undefined;
  // Much more than what lies in buffers and is lost when a connection breaks.
  const model = randomBytes(6_000_000);
  const sha256 = createHash('sha256').update(model).digest('hex');

  beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'yardmaster-model-'))));
  afterEach(() => {
    stop?.closeAllConnections();
    stop?.close();
    stop = undefined;
    rmSync(dir, { recursive: true, force: true });
  });

  const fetchModel = (url: string, wanted = sha256) =>
    new Promise<{ code: number | null; said: string }>((resolve) => {
      const child: ChildProcess = spawn(process.execPath, [`${LLAMA}/files/fetch-model.mjs`], {
        env: {
          MODEL_URL: url,
          MODEL_FILE: join(dir, 'models/m.gguf'),
          MODEL_SHA256: wanted,
          PATH: process.env['PATH'],
        },
      });
      let said = '';
      for (const stream of [child.stdout!, child.stderr!]) stream.on('data', (text) => (said += String(text)));
      child.on('close', (code) => resolve({ code, said }));
    });
  /** A file server that cuts the first `cuts` answers after 2 MB. */
  const serve = async (cuts: number, body = model, ranges = true) => {
    const asked: (string | undefined)[] = [];
    const { server, port } = await listen((request, response) => {
      asked.push(request.headers.range);
      const from = ranges ? Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0) : 0;
      const rest = body.subarray(from);
      response.writeHead(from > 0 ? 206 : 200, {
        'content-length': rest.length,
        ...(from > 0 && { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }),
      });
      if (asked.length > cuts) return void response.end(rest);
      // What was sent arrives, then the connection ends: too early for the length that was promised.
      response.write(rest.subarray(0, 2_000_000), () => response.socket?.end());
    });
    stop = server;
    return { url: `http://127.0.0.1:${port}/m.gguf`, asked };
  };

  test('goes on where the connection broke, checks the sum, and then gives the file its name', async () => {
    const { url, asked } = await serve(2);
    const { code, said } = await fetchModel(url);
    expect(said).toContain('sha256 as expected');
    expect(code).toBe(0);
    expect(asked.length).toBe(3);
    const [, second = 0, third = 0] = asked.map((range) => Number(/bytes=(\d+)-/.exec(range ?? '')?.[1]));
    expect(second).toBeGreaterThan(0);
    expect(third).toBeGreaterThan(second);
    expect(readFileSync(join(dir, 'models/m.gguf')).equals(model)).toBe(true);
    expect(readdirSync(join(dir, 'models')).sort()).toEqual(['m.gguf', 'm.gguf.sha256']);
  });

  test('starts again where the server knows no ranges', async () => {
    const { url } = await serve(1, model, false);
    expect(await fetchModel(url)).toMatchObject({ code: 0 });
    expect(readFileSync(join(dir, 'models/m.gguf')).equals(model)).toBe(true);
  });

  test('asks nobody when the file is there and whole', async () => {
    mkdirSync(join(dir, 'models'));
    writeFileSync(join(dir, 'models/m.gguf'), model);
    expect((await fetchModel('http://127.0.0.1:1/')).said).toContain('is there and whole');
  });

  test('a file with another sum never gets the name, and the old one stays', async () => {
    mkdirSync(join(dir, 'models'));
    writeFileSync(join(dir, 'models/m.gguf'), 'old');
    const { url } = await serve(0, randomBytes(1000));
    const { code, said } = await fetchModel(url);
    expect(code).toBe(1);
    expect(said).toContain(`not ${sha256}`);
    expect(readFileSync(join(dir, 'models/m.gguf'), 'utf8')).toBe('old');
  });

  test('says what is wrong with its settings, and does not try again what cannot succeed', async () => {
    expect(await fetchModel('http://127.0.0.1:1/', 'abc')).toMatchObject({ code: 78 });
    const { server, port } = await listen((_, response) => response.writeHead(404).end());
    stop = server;
    const { code, said } = await fetchModel(`http://127.0.0.1:${port}/`);
    expect(code).toBe(1);
    expect(said).toContain('answered 404');
    expect(existsSync(join(dir, 'models/m.gguf'))).toBe(false);
  });
});

describe('draining', () => {
  test('waits while requests run, and ends when the server is idle or gone', async () => {
    let running = 2;
    const { server, port } = await listen((request, response) => {
      expect(request.headers.authorization).toBe('Bearer the-key');
      response.end(
        `# HELP x\nllamacpp:requests_processing ${running > 0 ? running-- : 0}\nllamacpp:requests_deferred 0\n`,
      );
    });
    const dir = mkdtempSync(join(tmpdir(), 'yardmaster-drain-'));
    writeFileSync(join(dir, 'key'), 'the-key');
    const script = readFileSync(`${LLAMA}/files/drain.sh`, 'utf8')
      .replace('sleep 5', 'sleep 0')
      .replace('sleep 2', 'sleep 0.1')
      .replaceAll('/run/llama/api-key', join(dir, 'key'))
      .replace('127.0.0.1/8080', `127.0.0.1/${port}`);
    const code = await new Promise((resolve) =>
      spawn('bash', ['-c', script], { stdio: 'inherit' }).on('close', resolve),
    );
    expect(code).toBe(0);
    expect(running).toBe(0);
    server.close();
    rmSync(dir, { recursive: true });
    expect(spawnSync('bash', ['-c', script.replace(`/${port}`, '/1')]).status).toBe(0);
  });
});
