import { execFile } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { OLDEST_SERVER, versionAtLeast } from '@yardmaster/bus';
import { BUCKETS, BUILT_IN_EXECUTORS, STREAMS, toolStream } from '@yardmaster/contracts';
import { CHECKOUT, isBuilt, stackFile, stateFolder } from '../stack/checkout.js';
import { type Check, Finding, type Patient, Skip } from './examine.js';
import type { StreamState } from '../stack/stack-servers.js';
import { redisInfo } from './redis-info.js';

const OLDEST_NODE = [22, 19, 0] as const;
const OLDEST_REDIS = [7, 0, 0] as const;
/** Free space below which JetStream and Redis may stop writing. */
const LEAST_FREE_BYTES = 1024 ** 3;
const LARGEST_SKEW_MS = 2_000;
/** Longer than an executor takes from the end of one call to its request for the next. */
const BETWEEN_LOOKS_MS = 1_000;

/** All checks; one for each service that the stack has. */
export function CHECKS(patient: Patient): Check[] {
  const services = Object.keys(patient.stack?.services ?? {});
  return [
    { id: 'node.version', title: 'Node', look: node, remedy: 'use "npx yard", which runs the pinned Node' },
    {
      id: 'yard.built',
      title: 'services are built',
      look: () => (isBuilt() ? CHECKOUT : fail('services/api has no dist folder', 'npm run build')),
    },
    { id: 'stack.running', title: 'local stack', look: stackRuns, remedy: 'npm start' },
    { id: 'stack.file', title: 'stack file is private', look: stackFileMode },
    { id: 'disk.space', title: 'disk', look: disk, remedy: 'make room, or move the checkout' },
    { id: 'api.reachable', title: 'API answers', look: apiAnswers, remedy: 'npm start' },
    { id: 'api.key', title: 'key is accepted', look: keyWorks },
    {
      id: 'api.clock',
      title: 'clock agrees with the server',
      look: clock,
      remedy: 'set the clock (NTP): times of runs and time limits would be wrong',
    },
    ...services.map((name) => serviceCheck(name)),
    {
      id: 'nats.version',
      title: 'nats-server',
      look: natsVersion,
      remedy: `install ${OLDEST_SERVER.join('.')} or newer`,
    },
    { id: 'nats.jetstream', title: 'JetStream', look: jetStream, remedy: 'start nats-server with a jetstream block' },
    {
      id: 'nats.streams',
      title: 'streams and buckets',
      look: streams,
      remedy: 'yard setup bootstrap, or start the stack again',
    },
    { id: 'executors.serving', title: 'calls have an executor', look: executorsServe },
    { id: 'nats.dead_letters', title: 'no dead letters', look: deadLetters },
    {
      id: 'redis.version',
      title: 'redis-server',
      look: redisVersion,
      remedy: `install ${OLDEST_REDIS.join('.')} or newer`,
    },
    { id: 'redis.persistence', title: 'Redis writes an append-only file', look: redisPersistence },
    { id: 'redis.eviction', title: 'Redis evicts nothing', look: redisEviction },
    { id: 'providers.reachable', title: 'model providers', look: providers },
    {
      id: 'tools.registered',
      title: 'tools',
      look: tools,
      remedy: 'look at the executors and the registry: yard logs registry',
    },
    { id: 'sandbox.commands', title: 'sandbox for commands', look: sandbox },
  ];
}

function fail(detail: string, remedy: string): never {
  throw new Finding(detail, remedy);
}

function node(): string {
  const { node } = process.versions;
  if (!versionAtLeast(node, OLDEST_NODE)) throw new Error(`${node}, and ${OLDEST_NODE.join('.')} or newer is needed`);
  return node;
}

function stackRuns({ stack }: Patient): string {
  if (stack !== undefined) return `process ${stack.pid}, since ${stack.started_at}`;
  if (process.env['YM_API_URL'] || process.env['YM_CONTEXT']) throw new Skip('another address is set');
  throw new Error(`none of this checkout runs (${stackFile()})`);
}

function stackFileMode({ stack }: Patient): string {
  if (stack === undefined) throw new Skip('no local stack runs');
  const mode = statSync(stackFile()).mode & 0o777;
  if ((mode & 0o077) !== 0)
    fail(`${stackFile()} has mode 0${mode.toString(8)}`, `chmod 600 ${stackFile()}: it has a key in it`);
  return `${stackFile()}, mode 0${mode.toString(8)}`;
}

async function disk(): Promise<string> {
  const folder = existsSync(stateFolder()) ? stateFolder() : CHECKOUT;
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  const words = `${(free / 1024 ** 3).toFixed(1)} GiB free for ${folder}`;
  if (free < LEAST_FREE_BYTES) throw new Error(`${words}; 1 GiB at least`);
  return words;
}

async function apiAnswers(patient: Patient): Promise<string> {
  const session = await patient.session();
  const began = performance.now();
  await session.lookup.me().catch((error: { class?: string }) => {
    // Whatever it answered, it answered.
    if (error.class === 'UNAVAILABLE' || error.class === 'TIMEOUT') throw error;
  });
  return `${session.settings.apiUrl} in ${Math.round(performance.now() - began)} ms (address from ${session.settings.source})`;
}

async function keyWorks(patient: Patient): Promise<string> {
  const { tenant, key } = await (await patient.api()).lookup.me();
  return `tenant ${tenant}, ${key.roles.join(', ')}`;
}

async function clock(patient: Patient): Promise<string> {
  const { settings } = await patient.api();
  const before = Date.now();
  const response = await fetch(`${settings.apiUrl}/livez`, { signal: AbortSignal.timeout(3_000) });
  const after = Date.now();
  const date = Date.parse(response.headers.get('date') ?? '');
  if (Number.isNaN(date)) throw new Skip('the server does not say its time');
  // The header has whole seconds: what it was cut from lies in the second after it.
  const skew = date + 1000 < before ? before - date - 1000 : date > after ? date - after : 0;
  if (skew > LARGEST_SKEW_MS) throw new Error(`differs by ${(skew / 1000).toFixed(1)} s`);
  return skew === 0 ? 'within a second' : `within ${(skew / 1000 + 1).toFixed(1)} s`;
}

function serviceCheck(name: string): Check {
  return {
    id: `service.${name}`,
    title: name,
    remedy: `yard logs ${name}; a service that died is started again by the stack`,
    look: async (patient) => {
      const stack = await patient.localStack();
      const address = stack.health?.[name];
      if (address === undefined) throw new Skip('the stack was started by another version');
      const response = await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(3_000) }).catch(() => {
        throw new Error(`process ${stack.services[name]} does not answer`);
      });
      const { failed = {} } = (await response.json()) as { failed?: Record<string, string> };
      if (!response.ok)
        throw new Error(
          Object.entries(failed)
            .map(([what, why]) => `${what}: ${why}`)
            .join('; ') || `${response.status}`,
        );
      return `ready, process ${stack.services[name]}`;
    },
  };
}

async function natsVersion(patient: Patient): Promise<string> {
  const { serverVersion } = await patient.jetStream();
  if (!versionAtLeast(serverVersion, OLDEST_SERVER)) throw new Error(`${serverVersion} is too old`);
  return serverVersion;
}

async function jetStream(patient: Patient): Promise<string> {
  const { jetstream } = await patient.jetStream();
  if (!jetstream) throw new Error('is off');
  return 'on';
}

async function streams(patient: Patient): Promise<string> {
  const { services } = await patient.localStack();
  const executors = BUILT_IN_EXECUTORS.filter((kind) => Object.hasOwn(services, `executor-${kind}`));
  const there = new Set((await patient.streams()).map(({ name }) => name));
  const wanted = [
    ...Object.values(STREAMS).map(({ name }) => name),
    ...executors.map(toolStream),
    ...Object.values(BUCKETS).map((bucket) => `KV_${bucket}`),
  ];
  const missing = wanted.filter((name) => !there.has(name));
  if (missing.length > 0) throw new Error(`missing: ${missing.join(', ')}`);
  return `${there.size} there`;
}

/** Queues of calls, by the kind that is in their subject, in which calls wait while nobody asks for them or works on one. */
function unserved(streams: readonly StreamState[]): Map<string, number> {
  return new Map(
    streams.flatMap(({ subjects: [subject = ''], waiting, working, pulling }): [string, number][] => {
      const kind = /^ym\.tool\.([^.]+)\./.exec(subject)?.[1];
      return kind !== undefined && waiting && !working && !pulling ? [[kind, waiting]] : [];
    }),
  );
}

/** An executor that has just finished a call asks for the next one in a moment: what is found is looked at twice. */
async function executorsServe(patient: Patient): Promise<string> {
  const streams = await patient.streams();
  if (unserved(streams).size > 0) await sleep(BETWEEN_LOOKS_MS);
  const still = unserved(await (await patient.jetStream()).streams());
  const kinds = [...unserved(streams).keys()].filter((kind) => still.has(kind));
  if (kinds.length === 0)
    return streams.some(({ waiting, subjects: [subject] }) => waiting && subject?.startsWith('ym.tool.'))
      ? 'no call waits for one that is not busy'
      : 'no call waits for one';
  return fail(
    kinds
      .map((kind) => {
        const count = still.get(kind)!;
        const [calls, wait] = count === 1 ? ['call', 'waits'] : ['calls', 'wait'];
        return `${count} ${calls} of kind ${kind} ${wait} and no executor serves it`;
      })
      .join('; '),
    `start the executor of ${kinds.join(', ')}, or see why it does not connect: its own output, its YM_NATS_URL and password (yard executor add KIND prints both); docs/executors.md`,
  );
}

async function deadLetters(patient: Patient): Promise<string> {
  const count = (await patient.streams()).find(({ kind }) => kind === 'dead letters')?.messages ?? 0;
  if (count > 0)
    fail(`${count} messages were given up`, 'what happened to them is in the log: yard logs --level error');
  return 'none';
}

const infoOf = async (patient: Patient) => redisInfo((await patient.localStack()).redis_url);

async function redisVersion(patient: Patient): Promise<string> {
  const version = (await infoOf(patient))['redis_version'] ?? '';
  if (!versionAtLeast(version, OLDEST_REDIS)) throw new Error(`${version} is too old`);
  return version;
}

async function redisPersistence(patient: Patient): Promise<string> {
  const info = await infoOf(patient);
  if (info['aof_enabled'] !== '1')
    fail(
      'appendonly is "no": runs and conversations would be lost when Redis restarts',
      'set in redis.conf: appendonly yes',
    );
  if (info['aof_last_write_status'] !== 'ok')
    fail('the last write of the append-only file failed', 'look at the disk of Redis and at its log');
  return 'appendonly yes, last write ok';
}

async function redisEviction(patient: Patient): Promise<string> {
  const policy = (await infoOf(patient))['maxmemory_policy'] ?? '?';
  if (policy !== 'noeviction')
    fail(
      `maxmemory-policy is "${policy}": with a full memory Redis would remove runs and conversations without a word`,
      'set in redis.conf: maxmemory-policy noeviction',
    );
  return 'maxmemory-policy noeviction';
}

async function providers(patient: Patient): Promise<string> {
  const session = await patient.api();
  const { items } = await session.lookup.providers.list();
  if (items.length === 0) fail('none is configured', 'yard dev up --config FILE, see docs/configuration.md');
  // Only the local stack's services see the network that we see.
  const found = await Promise.all(
    items.map(async ({ name, base_url, health, demo }) => ({
      words: `${name}${demo ? ' (demo model)' : ''} ${health}`,
      down: session.settings.stack !== undefined && !(await answers(base_url)) ? `${name} at ${base_url}` : undefined,
    })),
  );
  const down = found.flatMap((one) => one.down ?? []);
  if (down.length > 0)
    fail(`no connection to ${down.join(', ')}`, 'start it, or correct base_url in the configuration');
  return found.map(({ words }) => words).join(', ');
}

/** Can a connection be made to what an address names? */
function answers(address: string): Promise<boolean> {
  if (!URL.canParse(address)) return Promise.resolve(false);
  const url = new URL(address);
  return new Promise((resolve) => {
    const socket = connect({
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
      timeout: 3_000,
    });
    const end = (ok: boolean) => {
      socket.destroy();
      resolve(ok);
    };
    socket.once('connect', () => end(true));
    socket.once('timeout', () => end(false));
    socket.once('error', () => end(false));
  });
}

async function tools(patient: Patient): Promise<string> {
  const page = await (await patient.api()).lookup.tools.page({ limit: 200 });
  if (page.items.length === 0) throw new Error('none is registered');
  return `${page.items.length} registered`;
}

/** The shell executor tests its sandbox before it is ready; here is said what is missing where it is not. */
async function sandbox(patient: Patient): Promise<string> {
  if (process.platform !== 'linux') throw new Skip('commands run on Linux only');
  const program = process.env['YM_BWRAP'] ?? 'bwrap';
  const version = await promisify(execFile)(program, ['--version'], { timeout: 3_000 }).then(
    ({ stdout }) => stdout.trim(),
    () => fail(`${program} cannot be run`, 'apt install bubblewrap, or set YM_BWRAP'),
  );
  const address = patient.stack?.health?.['executor-shell'];
  if (address === undefined) throw new Skip(`${version}; no local shell executor runs to test it`);
  const response = await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(3_000) });
  if (response.ok) return `${version}; the shell executor has proved it`;
  const { failed = {} } = (await response.json()) as { failed?: Record<string, string> };
  return fail(
    Object.values(failed).join('; '),
    'allow unprivileged user namespaces, or run the shell executor in a container',
  );
}
