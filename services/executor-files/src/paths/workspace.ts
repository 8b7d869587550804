import { mkdir, readlink } from 'node:fs/promises';
import { YardError } from '@yardmaster/contracts';
import { hasLoneSurrogate } from '../text/surrogates.js';
import { pathError, refusal, shown } from '../refusal.js';
import { HeldFolder } from './held-folder.js';

/** Whose workspace, and where all of them are. */
export interface Workspace {
  root: string;
  tenant: string;
  workspace: string;
}

/** A name in a held folder of the workspace. Whoever gets one closes it. */
export interface Place {
  folder: HeldFolder;
  /** One component; `.` for the workspace itself. */
  name: string;
  /** The path from the workspace with all links resolved; empty for the workspace itself. */
  path: string;
  /** How many links were followed on the way. */
  links: number;
}

export interface ResolveOptions {
  /** Follow a link in last place. Links before it are always followed, as far as they stay inside. */
  follow: boolean;
  /** Called with the path of each missing folder on the way before it is made; without it they are refused. */
  makeFolder?: (path: string) => Promise<void>;
}

/** The workspace as commands in the sandbox see it: links made there, and models that saw it, use this name. */
export const SEEN_AS = '/workspace';

// The same rule as the shell's: both executors share the workspaces.
const WORKSPACE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const TENANT = /^[a-z0-9][a-z0-9-]{0,39}$/;
const MAX_PARTS = 255;
const MAX_LINKS = 40;
/** Steps for one path: what a walk that is disturbed by swapped links may cost before it is given up. */
const MAX_STEPS = 4_000;

/** Opens the folder of a workspace, which is made when missing. */
export async function openWorkspace({ root, tenant, workspace }: Workspace): Promise<HeldFolder> {
  if (!WORKSPACE.test(workspace) || !TENANT.test(tenant))
    throw refusal(
      'invalid_input',
      `"${shown(workspace)}" is no workspace name: letters, digits, dot, underscore and hyphen, 64 at most.`,
    );
  let folder = await HeldFolder.open(root).catch((error: unknown) => {
    throw new YardError(
      'UNAVAILABLE',
      'YM-FILES-ROOT',
      'The folder of all workspaces cannot be opened: check YM_WORKSPACES.',
      {
        cause: error,
      },
    );
  });
  try {
    for (const part of [tenant, workspace]) {
      const missing = (await folder.look(part)) === undefined;
      folder = await enter(folder, part, missing ? async () => {} : undefined);
    }
    return folder;
  } catch (error) {
    await folder.close();
    throw pathError(error, '.');
  }
}

/**
 * Walks `path` beneath the workspace component by component from held folders. Links are read and walked by us, never
 * by the kernel, so none leads out, whoever swaps them meanwhile. The last component need not exist.
 */
export async function resolve(workspace: Workspace, path: string, options: ResolveOptions): Promise<Place> {
  let pending = partsOf(path);
  let at: string[] = [];
  let links = 0;
  let folder = await openWorkspace(workspace);
  const restart = async () => {
    await folder.close();
    folder = await openWorkspace(workspace);
    at = [];
  };
  try {
    for (let steps = 0; steps < MAX_STEPS; steps++) {
      const part = pending.shift();
      if (part === undefined) return { folder, name: '.', path: '', links };
      if (part === '..') {
        if (at.length === 0) throw outside(path);
        // Not `..` of the held folder, which may have been moved: the way is walked again without its end.
        pending = [...at.slice(0, -1), ...pending];
        await restart();
        continue;
      }
      const last = pending.length === 0;
      const found = await folder.look(part);
      if (found?.isSymbolicLink() && (!last || options.follow)) {
        if (++links > MAX_LINKS) throw refusal('path', `"${shown(path)}" leads through more than ${MAX_LINKS} links.`);
        const target = await readlink(folder.at(part)).catch(swapped);
        if (target === undefined) pending.unshift(part);
        else if (target.startsWith('/')) {
          pending = [...linkParts(target, path), ...pending];
          await restart();
        } else pending = [...linkParts(target, path), ...pending];
        if (pending.length > MAX_PARTS) throw tooDeep(path);
        continue;
      }
      if (last) return { folder, name: part, path: [...at, part].join('/'), links };
      if (found === undefined && options.makeFolder === undefined)
        throw refusal(
          'not_found',
          `There is no "${shown(path)}" in the workspace: "${shown([...at, part].join('/'))}" does not exist.`,
        );
      if (found !== undefined && !found.isDirectory())
        throw refusal(
          'path',
          `"${shown(path)}" leads through "${shown([...at, part].join('/'))}", which is no folder.`,
        );
      try {
        folder = await enter(
          folder,
          part,
          found === undefined ? () => options.makeFolder!([...at, part].join('/')) : undefined,
        );
        at.push(part);
      } catch (error) {
        // What was a folder a moment ago is a link or a file now: look again.
        if (swapped(error) === undefined) pending.unshift(part);
      }
    }
    throw refusal('path', `"${shown(path)}" changes all the time: try again when nothing else works on it.`);
  } catch (error) {
    await folder.close();
    throw pathError(error, path);
  }
}

/** Opens the folder that `path` names; links to it are followed as far as they stay inside. */
export async function openFolder(workspace: Workspace, path: string): Promise<{ folder: HeldFolder; path: string }> {
  const place = await resolve(workspace, path, { follow: true });
  if (place.name === '.') return { folder: place.folder, path: '' };
  try {
    return { folder: await place.folder.folder(place.name), path: place.path };
  } catch (error) {
    throw pathError(error, path);
  } finally {
    await place.folder.close();
  }
}

/** Goes from a held folder into one of its folders; gives up the first only when the second is held. */
async function enter(folder: HeldFolder, name: string, make: (() => Promise<void>) | undefined): Promise<HeldFolder> {
  if (make !== undefined) {
    await make();
    await mkdir(folder.at(name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
  const next = await folder.folder(name);
  await folder.close();
  return next;
}

/** Undefined for the errors of a component that was exchanged between two looks; all others are thrown on. */
function swapped(error: unknown): undefined {
  if (!['ENOENT', 'ENOTDIR', 'ELOOP', 'EINVAL'].includes(String((error as NodeJS.ErrnoException).code))) throw error;
  return undefined;
}

function partsOf(path: string): string[] {
  if (path.includes('\0')) throw refusal('invalid_input', 'A path cannot contain a NUL character.');
  if (hasLoneSurrogate(path))
    throw refusal('invalid_input', 'The path holds half of a surrogate pair, which no file name can.');
  if (path.startsWith('/') && !isSeen(path))
    throw refusal(
      'outside',
      `"${shown(path)}" is absolute: give a path relative to the workspace (which commands see as ${SEEN_AS}).`,
    );
  const parts = split(path);
  if (parts.length > MAX_PARTS) throw tooDeep(path);
  return parts;
}

function linkParts(target: string, path: string): string[] {
  if (target.startsWith('/') && !isSeen(target)) throw outside(path);
  return split(target);
}

const isSeen = (path: string) => path === SEEN_AS || path.startsWith(`${SEEN_AS}/`);
const split = (path: string) =>
  (path.startsWith('/') ? path.slice(SEEN_AS.length) : path).split('/').filter((part) => part !== '' && part !== '.');
const tooDeep = (path: string) => refusal('too_deep', `"${shown(path)}" has more than ${MAX_PARTS} folders.`);
const outside = (path: string) =>
  refusal('outside', `"${shown(path)}" leads out of the workspace, which is not allowed.`);
