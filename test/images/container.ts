import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface ContainerOptions {
  /** The files of the image. */
  rootfs: string;
  /** Folder for what the runtime needs. */
  folder: string;
  name: string;
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  /** User and group. */
  user: number;
  /** Paths in the container to folders here. */
  volumes?: Readonly<Record<string, string>>;
  /** A /proc without covered paths, as `procMount: Unmasked` asks for. */
  unmasked?: boolean;
}

const MASKED = [
  '/proc/acpi',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/scsi',
  '/sys/firmware',
];
const READ_ONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

/**
 * A container as the chart asks for it: read-only root, no capability, no way to new privileges, a /tmp of its own, and
 * a process tree of its own; by runc, which is what runs it in a cluster. Only the network is this machine's loopback,
 * and the seccomp profile, which a container runtime brings, is missing.
 */
export class Container {
  output = '';
  /** How it ended; undefined while it runs. */
  code: number | undefined;
  readonly ended: Promise<number>;
  private readonly state: string;

  private constructor(
    private readonly options: ContainerOptions,
    private readonly child: ChildProcess,
  ) {
    this.state = join(options.folder, 'runc');
    for (const stream of [child.stdout!, child.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.ended = once(child, 'close').then(([code]) => (this.code = (code as number | null) ?? 1));
  }

  static start(options: ContainerOptions): Container {
    const bundle = join(options.folder, options.name);
    mkdirSync(bundle, { recursive: true });
    writeFileSync(join(bundle, 'config.json'), JSON.stringify(specification(options)));
    const child = spawn('runc', ['--root', join(options.folder, 'runc'), 'run', '--bundle', bundle, options.name], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new Container(options, child);
  }

  /** Processes in it that have ended and that nobody has waited for. */
  zombies(): string[] {
    const args = ['--root', this.state, 'state', this.options.name];
    const { status, stdout, stderr } = spawnSync('runc', args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`${this.options.name}: ${stderr.trim()} ${this.output}`);
    const { pid } = JSON.parse(stdout) as { pid: number };
    // Not from the control group, which does not count them any more.
    const all = readdirSync('/proc').flatMap((name) => {
      try {
        const [, id, command, state, parent] = /^(\d+) \((.*)\) (\S) (\d+)/s.exec(
          readFileSync(`/proc/${name}/stat`, 'utf8'),
        )!;
        return [{ id: Number(id), parent: Number(parent), command: command!, isZombie: state === 'Z' }];
      } catch {
        return []; // no process, or one that has just ended
      }
    });
    const inside = new Set([pid]);
    for (let size = 0; size < inside.size;) {
      size = inside.size;
      for (const { id, parent } of all) if (inside.has(parent)) inside.add(id);
    }
    return all.filter(({ id, isZombie }) => isZombie && inside.has(id)).map(({ command }) => command);
  }

  /** Sends a signal to its first process, as a kubelet does. */
  kill(signal: NodeJS.Signals): void {
    spawnSync('runc', ['--root', this.state, 'kill', this.options.name, signal]);
  }

  /** Ends it at once, if it still runs. */
  async remove(): Promise<void> {
    spawnSync('runc', ['--root', this.state, 'delete', '--force', this.options.name]);
    await this.ended;
  }
}

function specification({ rootfs, command, env, cwd, user, volumes = {}, unmasked = false }: ContainerOptions): object {
  const none: string[] = [];
  const tmpfs = (destination: string, options: string[]) => ({ destination, type: 'tmpfs', source: 'tmpfs', options });
  return {
    ociVersion: '1.0.2',
    process: {
      terminal: false,
      user: { uid: user, gid: user },
      args: command,
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd,
      capabilities: { bounding: none, effective: none, inheritable: none, permitted: none, ambient: none },
      noNewPrivileges: true,
    },
    root: { path: rootfs, readonly: true },
    hostname: 'yardmaster',
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      tmpfs('/dev', ['nosuid', 'strictatime', 'mode=755', 'size=65536k']),
      {
        destination: '/dev/pts',
        type: 'devpts',
        source: 'devpts',
        options: ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666'],
      },
      tmpfs('/dev/shm', ['nosuid', 'noexec', 'nodev', 'mode=1777', 'size=65536k']),
      tmpfs('/tmp', ['nosuid', 'nodev', 'mode=1777', 'size=268435456']),
      ...Object.entries(volumes).map(([destination, source]) => ({
        destination,
        type: 'bind',
        source,
        options: ['rbind', 'rw'],
      })),
    ],
    linux: {
      namespaces: ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type })),
      ...(unmasked ? {} : { maskedPaths: MASKED, readonlyPaths: READ_ONLY }),
    },
  };
}
