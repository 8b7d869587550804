// What the sandbox suites need around a runner: workspaces, decoys, listeners, and a user without privileges.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LocalRunner, startRunner } from '@yardmaster/executor-shell/start-runner';
import { ordinaryUser } from '@yardmaster/testkit';

const RUNNER_ENTRY = fileURLToPath(new URL('../../../services/executor-shell/dist/runner/main.js', import.meta.url));

export interface Fixture {
  runner: LocalRunner;
  workspaces: string;
  host: string;
  serviceHome: string;
  otherWorkspace: string;
  otherSecret: string;
  secret: string;
  sshSecret: string;
  abstractSocket: string;
  udsPath: string;
  port: number;
  decoy: ChildProcess;
  decoyMarker: string;
  /** Connections that the loopback listener saw. */
  connections: () => number;
  /** Makes a file as the runner's user would have it. */
  write: (path: string, content: string) => void;
  folder: (path: string) => void;
  link: (target: string, path: string) => void;
  /** The uid of the runner. */
  uid: number;
  close: () => Promise<void>;
}

/**
 * Starts a runner with everything around it that a command must not reach. `user` "root" keeps the caller's user.
 * @throws Error when no user without privileges can be found
 */
export async function startFixture(options: { user?: 'unprivileged' | 'root'; settings?: Record<string, string> } = {}): Promise<Fixture> {
  const me = { uid: process.getuid?.() ?? 0, command: [process.execPath], entry: RUNNER_ENTRY };
  const user = options.user === 'root' ? me : ordinaryUser(RUNNER_ENTRY);
  if (typeof user === 'string') throw new Error(user);
  const { uid } = user;
  const drop = uid !== me.uid;
  const root = mkdtempSync(join(tmpdir(), 'yardmaster-cases-'));
  const own = (path: string): void => {
    if (drop) chownSync(path, uid, uid);
  };
  const folder = (path: string): void => {
    if (existsSync(path)) return;
    folder(dirname(path));
    mkdirSync(path);
    own(path);
  };
  const write = (path: string, content: string): void => {
    folder(dirname(path));
    writeFileSync(path, content);
    own(path);
  };
  const link = (target: string, path: string): void => {
    folder(dirname(path));
    symlinkSync(target, path);
  };
  own(root);
  chmodSync(root, 0o755);
  const workspaces = join(root, 'workspaces');
  const host = join(root, 'outside');
  const serviceHome = join(root, 'home');
  for (const path of [workspaces, host, serviceHome]) folder(path);
  const id = randomBytes(6).toString('hex');
  const [secret, sshSecret, otherSecret] = ['env', 'ssh', 'other'].map((name) => `${name}-secret-${randomBytes(9).toString('hex')}`) as [string, string, string];
  write(join(serviceHome, '.ssh', 'id_ed25519'), sshSecret);
  const otherWorkspace = join(workspaces, 'other-tenant', 'private');
  write(join(otherWorkspace, 'data.txt'), otherSecret);

  let connections = 0;
  const servers: Server[] = [];
  const listen = async (where: string | { host: string; port: number }): Promise<Server> => {
    const server = createServer((socket) => {
      connections++;
      socket.on('error', () => undefined);
      socket.end('ANSWER');
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      if (typeof where === 'string') server.listen(where, () => resolve());
      else server.listen(where, () => resolve());
    });
    servers.push(server);
    return server;
  };
  const tcp = await listen({ host: '127.0.0.1', port: 0 });
  const udsPath = join(host, 'service.sock');
  await listen(udsPath);
  if (drop) chownSync(udsPath, uid, uid);
  const abstractSocket = `yardmaster-case-${id}`;
  await listen(`\0${abstractSocket}`);
  const decoyMarker = `decoy-${id}`;
  const asUser = drop ? ['setpriv', '--reuid', String(uid), '--regid', String(uid), '--clear-groups'] : [];
  const [program = 'bash', ...args] = [...asUser, 'bash', '-c', `exec -a ${decoyMarker} sleep 3600`];
  const decoy = spawn(program, args, { stdio: 'ignore' });

  const settings: Record<string, string> = {
    YM_EXECUTOR_SHELL_SOCKET: join(root, 'runner.sock'),
    YM_WORKSPACES: workspaces,
    HOME: serviceHome,
    // What a careless deployment would leave in the environment; no command may see it.
    YM_NATS_URL: `nats://executor:${secret}@127.0.0.1:4222`,
    NATS_PASSWORD: secret,
    REDIS_URL: `redis://:${secret}@127.0.0.1`,
    OPENAI_API_KEY: secret,
    KUBERNETES_SERVICE_HOST: '10.0.0.1',
    ...options.settings,
  };
  const close = async (): Promise<void> => {
    decoy.kill('SIGKILL');
    for (const server of servers) server.close();
    rmSync(root, { recursive: true, force: true });
  };
  try {
    const runner = await startRunner(settings, { entry: user.entry, command: user.command });
    return {
      runner,
      workspaces,
      host,
      serviceHome,
      otherWorkspace,
      otherSecret,
      secret,
      sshSecret,
      abstractSocket,
      udsPath,
      port: (tcp.address() as AddressInfo).port,
      decoy,
      decoyMarker,
      connections: () => connections,
      write,
      folder,
      link,
      uid,
      close: async () => {
        await runner.stop();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Command lines of all processes of this machine, this one aside. */
export function commandLines(): string[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) return [];
    try {
      return [readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()];
    } catch {
      return [];
    }
  });
}

export function residentMb(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

/** Content of a file, or null; the marker of a link is its target. */
export function contentOf(path: string): string | null {
  try {
    return lstatSync(path).isSymbolicLink() ? 'link' : readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

export function within(base: string, path: string): string {
  return isAbsolute(path) ? path : join(base, path);
}
