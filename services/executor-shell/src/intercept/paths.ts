import { posix } from 'node:path';
import { UNKNOWN } from './words.js';

/** What a path is to a command that would change it. */
export type Place = 'inside' | 'scratch' | 'device-safe' | 'device' | 'root' | 'home' | 'outside' | 'unknown';

export interface Folders {
  workspace: string;
  hostWorkspace: string | null;
  home: string;
  /** null = not known any more */
  cwd: string | null;
}

const SCRATCH = ['/tmp', '/var/tmp', '/dev/shm'];
const SAFE_DEVICES =
  /^\/dev\/(null|zero|full|random|urandom|tty|stdin|stdout|stderr|ptmx|fd(\/.*)?|pts(\/.*)?|tcp\/.*|udp\/.*)$/;
const GLOB = /[*?[]/;

/**
 * Judges a path as the sandbox would see it. A path that ends in a pattern is judged by its folder: `/*` empties `/`.
 * What cannot be known is `unknown`, never a guess.
 */
export function judgePath(path: string, folders: Folders): Place {
  if (path === '') return 'unknown';
  let text = path;
  if (text === '~' || text.startsWith('~/')) text = folders.home + text.slice(1);
  else if (/^~[a-z_][\w-]*(\/|$)/.test(text))
    return text.replace(/^~[\w-]+\/*/, '') === '' || GLOB.test(text) ? 'home' : 'outside';
  if (text.startsWith(UNKNOWN)) return 'unknown';
  if (!text.startsWith('/')) {
    if (folders.cwd === null) return 'unknown';
    text = `${folders.cwd}/${text}`;
  }
  // Behind the first unknown or pattern anything may follow; what stands before it is sure.
  const parts = text.split('/');
  const cut = parts.findIndex((part) => part.includes(UNKNOWN) || GLOB.test(part));
  const open = cut !== -1;
  const sure = posix.normalize((open ? parts.slice(0, cut) : parts).join('/') || '/');
  // A part behind a pattern may climb again; then only the climb is certain.
  const rest = open ? parts.slice(cut + 1) : [];
  const climbs = rest.filter((part) => part === '..').length;
  const clean = sure.length > 1 ? sure.replace(/\/+$/, '') : sure;
  return place(
    climbs > 0 ? posix.normalize(`${clean}/${'../'.repeat(Math.max(0, climbs - 1))}`).replace(/(.)\/+$/, '$1') : clean,
    folders,
    open,
  );
}

function place(path: string, folders: Folders, open: boolean): Place {
  const beneath = (base: string): boolean => path === base || path.startsWith(`${base}/`);
  if (folders.hostWorkspace !== null && beneath(folders.hostWorkspace)) return 'inside';
  if (beneath(folders.workspace)) return 'inside';
  if (path === '/') return 'root';
  if (path === folders.home) return 'home';
  if (beneath(folders.home)) return 'scratch';
  for (const base of SCRATCH) {
    // /tmp itself is the command's own as well.
    if (path === base || path.startsWith(`${base}/`)) return 'scratch';
  }
  if (beneath('/dev')) return SAFE_DEVICES.test(path) ? 'device-safe' : path === '/dev' && open ? 'outside' : 'device';
  if (/^\/proc\/(self|thread-self|\d+)\/(fd|task|oom_score_adj|comm)(\/|$)/.test(path)) return 'device-safe';
  return 'outside';
}

/** How a place is called in a reason. */
export function placeName(where: Place): string {
  switch (where) {
    case 'root':
      return 'the root directory';
    case 'home':
      return 'the home directory';
    case 'device':
      return 'a device (/dev)';
    default:
      return 'a path outside the workspace';
  }
}

/** True for places that a command has no business changing. */
export function isForbidden(where: Place): boolean {
  return where === 'root' || where === 'home' || where === 'outside' || where === 'device';
}
