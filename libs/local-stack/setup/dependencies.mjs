// The npm packages and the pinned Node.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError, ask, root, run, systemPath } from './exec.mjs';

const STAMP = '.yardmaster-lock';

/** Runs `npm ci` when node_modules is missing or is not what the lockfile says; otherwise does nothing. */
export async function ensureDependencies(folder = '.') {
  const at = join(root, folder);
  // Only the checkout itself must have a lockfile; peers of benchmarks may do without.
  const hasLock = existsSync(join(at, 'package-lock.json'));
  const lock = readFileSync(join(at, hasLock ? 'package-lock.json' : 'package.json'));
  const digest = createHash('sha256').update(lock).digest('hex');
  const modules = join(at, 'node_modules');
  const stamp = join(modules, STAMP);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8').trim() === digest) return;
  // Someone's own `npm install` left what the lockfile says: nothing to do either.
  if (!hasLock || !isInstalled(JSON.parse(lock.toString()), modules)) {
    console.error(
      `yardmaster: installing npm packages${folder === '.' ? '' : ` of ${folder}`} (npm ci), a minute or two…`,
    );
    rmSync(stamp, { force: true });
    const how = hasLock ? ['ci'] : ['install', '--no-package-lock'];
    const code = await npm([...how, '--no-audit', '--no-fund', '--no-progress'], at);
    if (code !== 0) throw new SetupError(`npm ${how[0]} failed with code ${code}: what it printed above says why`);
  }
  mkdirSync(modules, { recursive: true });
  rmSync(stamp, { force: true }); // never written through: node_modules may be a hard-linked copy
  writeFileSync(stamp, `${digest}\n`);
}

/** True when npm's own record of node_modules has every package of the lockfile in that version. */
function isInstalled(lock, modules) {
  const record = join(modules, '.package-lock.json');
  if (!existsSync(record)) return false;
  const installed = JSON.parse(readFileSync(record, 'utf8')).packages ?? {};
  return Object.entries(lock.packages ?? {}).every(([path, entry]) => {
    if (!path.includes('node_modules/')) return true; // the root and the workspaces themselves
    const there = installed[path];
    if (there === undefined) return entry.optional === true || entry.devOptional === true || entry.peer === true;
    return there.version === entry.version && Boolean(there.link) === Boolean(entry.link);
  });
}

/** Runs npm on the machine's own Node: `npm ci` deletes node_modules, and with it the pinned one. */
function npm(args, cwd) {
  // Errors only: of packages for the pinned Node it would warn that this one is older (EBADENGINE), page by page.
  return run('npm', [...args, '--loglevel=error'], { cwd, env: { ...process.env, PATH: systemPath() } });
}

/** The path of the pinned Node, proven to be the version that package.json names; errors say what to do. */
export async function ensureNode() {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const pinned = devDependencies.node;
  const file = join(root, 'node_modules', 'node', 'bin', 'node');
  if (!existsSync(file)) {
    // The package `node` is nothing but an install script that fetches the binary; with `ignore-scripts` npm
    // succeeds without it, and everything would silently run on whatever Node the machine has.
    console.error(`yardmaster: Node ${pinned} is not in node_modules (ignore-scripts?), running its install script…`);
    await npm(['rebuild', 'node', '--ignore-scripts=false', '--no-progress'], root);
  }
  const version = existsSync(file) ? ask(file, ['--version']) : undefined;
  if (version !== `v${pinned}`)
    throw new SetupError(
      `the pinned Node ${pinned} is not what would run (${version === undefined ? 'node_modules/node/bin/node is missing or does not start' : `found ${version}`}). ` +
        `Run "npm rebuild node --ignore-scripts=false", or "rm -rf node_modules" and this command again.`,
    );
  return file;
}
