import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jetstream, jetstreamManager } from '@nats-io/jetstream';
import { connect as connectNats } from '@nats-io/transport-node';
import { redisUsers } from '@yardmaster/contracts';
import { Redis } from 'ioredis';
import { afterEach, expect, test } from 'vitest';
import { natsTable } from './nats-config.js';
import { startNats } from './nats-server.js';
import { PortTaken } from './ports.js';
import { startRedis } from './redis-server.js';
import type { Server } from './server.js';
import type { Exit } from './server-process.js';

const started: Server[] = [];
const keep = <T extends Server>(server: T): T => {
  started.push(server);
  return server;
};
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.stop()));
});

/** Does a server run in this folder? */
const inUse = (name: string) => spawnSync('pgrep', ['-f', name]).status === 0;

const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const until = async (what: () => boolean, ms = 8000) => {
  for (let waited = 0; !what() && waited < ms; waited += 20) await sleep(20);
  return what();
};

test('nats-server starts with JetStream, keeps its data over a kill, and its temporary folder goes with it', async () => {
  const nats = keep(await startNats());
  const nc = await connectNats({ servers: nats.url, maxReconnectAttempts: -1, reconnectTimeWait: 20 });
  const jsm = await jetstreamManager(nc);
  await jsm.streams.add({ name: 'KEPT', subjects: ['kept.>'] });
  await jetstream(nc).publish('kept.a', 'x');
  await nats.kill();
  expect(nats.running).toBe(false);
  await nats.startAgain();
  const again = await connectNats({ servers: nats.url });
  expect((await (await jetstreamManager(again)).streams.info('KEPT')).state.messages).toBe(1);
  await again.close();
  await nc.close();
  await nats.stop();
  expect(await until(() => !existsSync(nats.dir))).toBe(true);
});

test('redis-server keeps acknowledged writes over a kill', async () => {
  const redis = keep(await startRedis());
  const client = new Redis(redis.url);
  client.on('error', () => {});
  await client.set('a', '1');
  await redis.kill();
  await redis.startAgain();
  expect(await client.get('a')).toBe('1');
  client.disconnect();
});

test('redis-server without an append-only file comes back empty', async () => {
  const redis = keep(await startRedis({ persistence: 'off' }));
  const client = new Redis(redis.url);
  client.on('error', () => {});
  await client.set('a', '1');
  await redis.kill();
  await redis.startAgain();
  expect(await client.get('a')).toBeNull();
  client.disconnect();
});

test('ten servers started at once get ports of their own', async () => {
  const servers = await Promise.all(
    Array.from({ length: 10 }, (_, i) => (i % 2 ? startNats() : startRedis({ persistence: 'off' }))),
  );
  servers.forEach(keep);
  expect(new Set(servers.map(({ port }) => port)).size).toBe(10);
});

test('a fixed port that another process has is refused as such', async () => {
  const first = keep(await startRedis());
  await expect(startRedis({ port: first.port })).rejects.toBeInstanceOf(PortTaken);
  await expect(startNats({ port: first.port })).rejects.toBeInstanceOf(PortTaken);
  await expect(startRedis({ port: first.port, users: redisUsers() })).rejects.toBeInstanceOf(PortTaken);
});

test('a folder is used again with its data; the log of the time before is kept', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'yardmaster-spec-'));
  for (const round of [1, 2, 3]) {
    const redis = keep(await startRedis({ dir }));
    const client = new Redis(redis.url);
    expect(await client.incr('rounds')).toBe(round);
    client.disconnect();
    await redis.stop();
  }
  expect(readdirSync(dir).filter((name) => name.includes('.log'))).toEqual(['redis.log', 'redis.log.1']);
  rmSync(dir, { recursive: true });
});

test('a program that does not exist is an error with the words of the shell', async () => {
  process.env['YM_REDIS_SERVER'] = '/nowhere/redis-server';
  try {
    await expect(startRedis()).rejects.toThrow(/redis ended while starting: .*\/nowhere\/redis-server/);
  } finally {
    delete process.env['YM_REDIS_SERVER'];
  }
});

test('a temporary folder does not outlive a start that failed, nor a server that was killed', async () => {
  const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('yardmaster-redis-'));
  const redis = keep(await startRedis());
  const before = folders();
  await expect(startRedis({ port: redis.port })).rejects.toThrow();
  // Other tests of this machine come and go: only what stays counts.
  await expect.poll(() => folders().filter((name) => !before.includes(name) && !inUse(name))).toEqual([]);
  await redis.kill();
  expect(existsSync(redis.dir)).toBe(true);
  await redis.stop();
  expect(existsSync(redis.dir)).toBe(false);
});

test('a server that dies by itself is reported, one that is stopped is not', async () => {
  const crashes: Exit[] = [];
  const nats = keep(await startNats({ onCrash: (exit) => crashes.push(exit) }));
  const quiet = keep(await startNats({ onCrash: (exit) => crashes.push(exit) }));
  process.kill(nats.pid, 'SIGKILL');
  await quiet.stop();
  expect(await until(() => crashes.length > 0)).toBe(true);
  expect(crashes).toHaveLength(1);
  expect(crashes[0]).toMatchObject({ code: 137 });
  await nats.startAgain();
  expect(nats.running).toBe(true);
});

test('nothing is left behind when the process that started the servers is killed', async () => {
  const script = join(mkdtempSync(join(tmpdir(), 'yardmaster-spec-')), 'starter.mjs');
  const parent = starter(script);
  const [natsPid, redisPid, natsDir] = await new Promise<[number, number, string]>((resolve) =>
    parent.stdout!.once('data', (data: Buffer) => resolve(JSON.parse(data.toString()) as [number, number, string])),
  );
  expect([alive(natsPid), alive(redisPid), existsSync(natsDir)]).toEqual([true, true, true]);
  parent.kill('SIGKILL');
  expect(await until(() => !alive(natsPid) && !alive(redisPid) && !existsSync(natsDir))).toBe(true);
  rmSync(join(script, '..'), { recursive: true });
});

function starter(script: string): ChildProcess {
  const source = (file: string) => JSON.stringify(new URL(file, import.meta.url).pathname);
  writeFileSync(
    script,
    `import { createServer } from ${JSON.stringify(import.meta.resolve('vite'))};
     const vite = await createServer({ configFile: false, root: ${source('.')}, server: { middlewareMode: true, ws: false, watch: null },
       ssr: { resolve: { conditions: ['source'], externalConditions: ['source'] } }, resolve: { conditions: ['source'] }, optimizeDeps: { noDiscovery: true } });
     const { startNats } = await vite.ssrLoadModule(${source('nats-server.ts')});
     const { startRedis } = await vite.ssrLoadModule(${source('redis-server.ts')});
     const [nats, redis] = await Promise.all([startNats(), startRedis()]);
     console.log(JSON.stringify([nats.pid, redis.pid, nats.dir]));
     setInterval(() => {}, 1000);`,
  );
  return spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] });
}

test('logs, configuration and passwords are readable by the owner only, and Redis stores hashes', async () => {
  const redis = keep(await startRedis({ users: redisUsers(), passwords: { api: 'secret-of-api' } }));
  expect(statSync(redis.log).mode & 0o077).toBe(0);
  expect(readFileSync(join(redis.dir, 'users.acl'), 'utf8')).not.toContain('secret-of-api');
  const answer = await new Promise<string>((resolve) => {
    const socket = connect(redis.port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.once('data', (data) => (socket.destroy(), resolve(data.toString())));
  });
  expect(answer).toMatch(/^-NOAUTH/);
  const api = new Redis(redis.urlFor('api'));
  expect(await api.ping()).toBe('PONG');
  api.disconnect();
});

test('an executor kind is added to a running server without breaking connections', async () => {
  const nats = keep(await startNats({ accounts: natsTable(['shell']) }));
  const api = await connectNats({ servers: nats.url, ...nats.login('api'), inboxPrefix: '_INBOX_api' });
  const shell = await connectNats({
    servers: nats.url,
    ...nats.login('executor-shell'),
    inboxPrefix: '_INBOX_executor_shell',
  });
  await expect(connectNats({ servers: nats.url, ...nats.login('executor-files'), reconnect: false })).rejects.toThrow(
    /authorization/i,
  );
  const cancels: string[] = [];
  shell.subscribe('ym.cancel.>', { callback: (_, message) => void cancels.push(message.subject) });
  await shell.flush();
  await nats.reload(natsTable(['shell', 'files']));
  const files = await connectNats({
    servers: nats.url,
    ...nats.login('executor-files'),
    inboxPrefix: '_INBOX_executor_files',
  });
  files.subscribe('ym.cancel.>', { callback: (_, message) => void cancels.push(message.subject) });
  await files.flush();
  await expect
    .poll(
      async () => {
        api.publish('ym.cancel.acme.run1');
        await api.flush();
        return cancels.length;
      },
      { timeout: 5000 },
    )
    .toBeGreaterThanOrEqual(2);
  expect([api, shell, files].map((nc) => nc.isClosed())).toEqual([false, false, false]);
  await Promise.all([api.close(), shell.close(), files.close()]);
});

test('the setup login takes a stream out and brings it back, as `nats account backup` and `restore` do', async () => {
  const server = keep(await startNats({ accounts: natsTable(['shell']) }));
  const nc = await connectNats({ servers: server.url, ...server.login('setup'), inboxPrefix: '_INBOX_setup' });
  const problems: unknown[] = [];
  void (async () => {
    for await (const status of nc.status()) if (status.type === 'error') problems.push(status.error);
  })();
  const ask = async (
    subject: string,
    body: object | Uint8Array,
  ): Promise<{ error?: unknown; deliver_subject?: string }> => {
    const bytes = body instanceof Uint8Array ? body : JSON.stringify(body);
    return (await nc.request(subject, bytes, { timeout: 5000 })).json();
  };
  const jsm = await jetstreamManager(nc);
  const config = { name: 'YM_EVT', subjects: ['ym.evt.>'] };
  await jsm.streams.add(config);
  // More than the server sends before it wants to hear that pieces arrive.
  for (let i = 0; i < 40; i++) nc.publish(`ym.evt.t.${i}`, randomBytes(500_000));
  await nc.flush();
  const { state } = await jsm.streams.info('YM_EVT');
  const deliver = '_INBOX_setup.pieces';
  const pieces: Uint8Array[] = [];
  const arriving = nc.subscribe(deliver);
  const { error: refused } = await ask('$JS.API.STREAM.SNAPSHOT.YM_EVT', {
    deliver_subject: deliver,
    chunk_size: 100_000,
  });
  expect(refused).toBeUndefined();
  for await (const piece of arriving) {
    if (piece.data.length === 0) break;
    pieces.push(piece.data);
    piece.respond();
  }
  await jsm.streams.delete('YM_EVT');
  const restore = await ask('$JS.API.STREAM.RESTORE.YM_EVT', { config, state });
  for (const piece of pieces) await ask(restore.deliver_subject!, piece).catch(() => undefined);
  await ask(restore.deliver_subject!, new Uint8Array());
  expect((await jsm.streams.info('YM_EVT')).state.messages).toBe(40);
  expect(problems).toEqual([]);
  await nc.close();
});

test('a table that the server refuses is an error, and the server goes on with the old one', async () => {
  const nats = keep(await startNats({ accounts: natsTable(['shell']) }));
  const table = natsTable(['shell']);
  const broken = { ...table, executors: [{ ...table.executors[0]!, account: 'YM' }, ...table.executors] };
  await expect(nats.reload(broken)).rejects.toThrow(/refused|did not reload/);
  const api = await connectNats({ servers: nats.url, ...nats.login('api') });
  await api.close();
});
