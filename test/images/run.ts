// `npm run test:images`: deploy/Dockerfile, built with buildah for every service on a stand-in for the Node base image,
// and run by runc as a cluster runs them. Needs no Docker, no image registry and no cluster; skipped with the reason
// where the tools are missing. YM_NODE_IMAGE names a real base image instead.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = fileURLToPath(new URL('../..', import.meta.url));
const NEEDED = ['buildah', 'runc', ...(process.env['YM_NODE_IMAGE'] ? [] : ['mmdebstrap'])];

function reason(): string | undefined {
  if (process.platform !== 'linux') return `images are built and run on Linux, this is ${process.platform}`;
  const missing = NEEDED.filter((name) => spawnSync(name, ['--version']).error !== undefined);
  if (missing.length > 0)
    return `there is no ${missing.join(', no ')}; on Debian: apt-get install --no-install-recommends ${NEEDED.join(' ')}`;
  if (process.getuid?.() !== 0) return 'building with chroot isolation and mounting images needs root';
  for (const name of ['YM_NATS_SERVER', 'YM_REDIS_SERVER'])
    if (!process.env[name]) return `${name} is not set, and no server was found`;
  return undefined;
}

const skipped = reason();
if (skipped !== undefined) {
  console.log(`test:images SKIPPED: ${skipped}`);
  process.exit(0);
}
const setup = new URL('../../libs/local-stack/setup/dependencies.mjs', import.meta.url).href;
const { ensureDependencies } = (await import(setup)) as { ensureDependencies(folder: string): Promise<void> };
await ensureDependencies('test/images');
const { status } = spawnSync(
  process.execPath,
  [`${root}node_modules/vitest/vitest.mjs`, 'run', '--config', `${here}vitest.config.ts`, ...process.argv.slice(2)],
  { stdio: 'inherit', cwd: root },
);
process.exitCode = status ?? 1;
