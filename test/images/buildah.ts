import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
/** What is kept between runs. */
const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'yardmaster', 'images');
const NPM = fileURLToPath(new URL('node_modules/npm', import.meta.url));

/** What `node:24-bookworm-slim` has beside Debian's minimum: certificates, and the libraries that Node is linked to. */
const DEBIAN = { suite: 'bookworm', packages: ['ca-certificates', 'libstdc++6', 'libatomic1'] };

/**
 * Images of this run in a storage of their own: the machine's other images and containers are not touched. (A buildah
 * that somebody else points at it takes the mounts away under the containers.) It is removed at the end, unless
 * `YM_IMAGES_STORAGE` names it: then a second run finds the layers of the first.
 */
export class Images {
  /** Files of this run. */
  readonly folder = mkdtempSync(join(tmpdir(), 'yardmaster-images-'));
  private readonly storage = process.env['YM_IMAGES_STORAGE'] || join(this.folder, 'storage');
  private readonly mounts = new Map<string, string>();
  /** A key in the npm configuration that builds are given: it must be found nowhere in an image. */
  readonly canary = `npm-canary-${randomUUID()}`;

  /** Runs buildah and answers what it printed; throws with the last lines of its output. */
  async buildah(...args: string[]): Promise<string> {
    const where = ['--root', this.storage, '--runroot', join(this.folder, 'run')];
    // Below TMPDIR it also keeps what `--mount=type=cache` holds: npm's downloads, for the other images and the next run.
    mkdirSync(cache, { recursive: true });
    const env = { ...process.env, TMPDIR: cache };
    const child = spawn('buildah', [...where, ...args], { stdio: ['ignore', 'pipe', 'pipe'], cwd: root, env });
    const [stdout, all]: [string[], string[]] = [[], []];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout.push(text), all.push(text)));
    child.stderr.setEncoding('utf8').on('data', (text: string) => all.push(text));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject).once('close', resolve);
    });
    if (code !== 0) throw new Error(`buildah ${args[0]} failed (${code}):\n${all.join('').slice(-6000)}`);
    return stdout.join('').trim();
  }

  /**
   * The base image: the one of `YM_NODE_IMAGE` where a registry can be asked, else one made here of Debian's packages,
   * the pinned Node and npm, as the official image has them.
   */
  async base(): Promise<string> {
    const given = process.env['YM_NODE_IMAGE'];
    if (given) return given;
    const tar = debianTar();
    const name = 'localhost/node:24-bookworm-slim';
    const known = await this.buildah('images', '--quiet', '--filter', `reference=${name}`);
    if (known !== '') return name;
    const container = await this.buildah('from', 'scratch');
    await this.buildah('add', container, tar, '/');
    await this.buildah('copy', container, process.execPath, '/usr/local/bin/node');
    await this.buildah('copy', container, NPM, '/usr/local/lib/node_modules/npm');
    const mount = await this.buildah('mount', container);
    const node = 'node:x:1000:1000::/home/node:/bin/bash\n';
    const script = [
      `ln -s ../lib/node_modules/npm/bin/npm-cli.js ${mount}/usr/local/bin/npm`,
      `ln -s ../lib/node_modules/npm/bin/npx-cli.js ${mount}/usr/local/bin/npx`,
      `printf '${node.trim()}\\n' >> ${mount}/etc/passwd`,
      `printf 'node:x:1000:\\n' >> ${mount}/etc/group`,
      `mkdir -p ${mount}/home/node && chown 1000:1000 ${mount}/home/node`,
    ].join(' && ');
    const made = spawnSync('sh', ['-c', script], { encoding: 'utf8' });
    if (made.status !== 0) throw new Error(`the base image could not be completed: ${made.stderr}`);
    await this.buildah('umount', container);
    const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
    await this.buildah('config', '--env', path, '--cmd', 'node', container);
    await this.buildah('commit', '--rm', '--quiet', container, name);
    return name;
  }

  /** Builds deploy/Dockerfile as its first lines say, and answers the image's name. */
  async build(service: string, base: string, ...more: string[]): Promise<string> {
    const name = `localhost/yardmaster/${service}:test`;
    const npmrc = join(this.folder, 'npmrc');
    // npm of this machine knows its registry; of its configuration nothing else goes into a build.
    const registry = spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8', cwd: '/' }).stdout.trim();
    writeFileSync(npmrc, `registry=${registry}\n//registry.invalid/:_authToken=${this.canary}\n`);
    const certificates = process.env['NODE_EXTRA_CA_CERTS'];
    await this.buildah(
      'bud',
      ...['--isolation', 'chroot', '--layers', '--quiet', '--network', 'host'],
      ...(process.env['YM_NODE_IMAGE'] ? [] : ['--pull=never']),
      ...['--secret', `id=npmrc,src=${npmrc}`],
      ...(certificates ? ['--secret', `id=ca,src=${certificates}`] : []),
      ...['--build-arg', `NODE_IMAGE=${base}`, '--build-arg', `SERVICE=${service}`],
      ...['-f', 'deploy/Dockerfile', '-t', name],
      ...more,
      '.',
    );
    return name;
  }

  /** Where the files of an image can be read. */
  async mount(image: string): Promise<string> {
    const known = this.mounts.get(image);
    if (known !== undefined) return known;
    const container = await this.buildah('from', '--pull=never', image);
    const path = await this.buildah('mount', container);
    this.mounts.set(image, path);
    return path;
  }

  async remove(): Promise<void> {
    await this.buildah('rm', '--all').catch(() => {});
    if (!process.env['YM_IMAGES_STORAGE']) await this.buildah('rmi', '--all', '--force').catch(() => {});
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Debian's files, made once and kept in the cache folder of the user. */
function debianTar(): string {
  const digest = createHash('sha256').update(JSON.stringify(DEBIAN)).digest('hex').slice(0, 16);
  const file = join(cache, `debian-${DEBIAN.suite}-${digest}.tar`);
  if (existsSync(file)) return file;
  mkdirSync(cache, { recursive: true });
  const part = `${file}.${process.pid}.tar`;
  const { status, stderr } = spawnSync(
    'mmdebstrap',
    ['--variant=apt', `--include=${DEBIAN.packages.join(',')}`, DEBIAN.suite, part],
    { encoding: 'utf8' },
  );
  if (status !== 0) {
    rmSync(part, { force: true });
    throw new Error(`mmdebstrap failed:\n${stderr.slice(-2000)}`);
  }
  renameSync(part, file);
  return file;
}
