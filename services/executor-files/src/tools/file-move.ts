import type { BigIntStats } from 'node:fs';
import { link, rename, unlink } from 'node:fs/promises';
import { failpoint, type Tool, type ToolContext, type ToolOutcome } from '@yardmaster/executor-kit';
import { idOf, lifeOf } from '../paths/held-folder.js';
import { type Place, resolve } from '../paths/workspace.js';
import { pathError, refusal, shown } from '../refusal.js';
import { type FileServices, workspaceOf } from '../services.js';
import { changeOnce, lockKey, once } from '../storage/change.js';
import { fileTool } from './definition.js';

interface MoveArguments {
  from: string;
  to: string;
  overwrite?: boolean;
}

/** `file_move`: a link is moved itself, not what it leads to. */
export const fileMove = (services: FileServices): Tool =>
  fileTool<MoveArguments>('file_move', (args, context) =>
    once(services, context, async (resumed) => {
      const workspace = workspaceOf(services, context);
      const from = await resolve(workspace, args.from, { follow: false });
      try {
        const found = await from.folder.look(from.name);
        // Before folders are made for it.
        if (found === undefined) throw refusal('not_found', `There is no "${shown(args.from)}" in the workspace.`);
        if (from.name === '.') throw refusal('path', 'The workspace itself cannot be moved.');
        const makeFolder = (path: string) => {
          // Before a folder is made in what is moved.
          if (found.isDirectory() && isIn(path, from.path)) throw intoItself(args.from);
          return services.quotas.take(context.tenant, 0, 1);
        };
        const to = await resolve(workspace, args.to, { follow: false, makeFolder });
        try {
          if (to.name === '.') throw exists(args.to, true);
          return await services.locks.hold([await lockKey(from), await lockKey(to)], () =>
            move(services, context, from, to, args, resumed),
          );
        } finally {
          await to.folder.close();
        }
      } catch (error) {
        throw pathError(error, args.from);
      } finally {
        await from.folder.close();
      }
    }),
  );

async function move(
  services: FileServices,
  context: ToolContext,
  from: Place,
  to: Place,
  args: MoveArguments,
  resumed: boolean,
): Promise<ToolOutcome> {
  const source = await from.folder.look(from.name);
  if (source === undefined) throw refusal('not_found', `There is no "${shown(args.from)}" any more.`);
  const target = await to.folder.look(to.name);
  const oneName = (await lockKey(from)) === (await lockKey(to));
  if (oneName)
    throw refusal(
      'invalid_input',
      `"${shown(args.from)}" and "${shown(args.to)}" are the same: there is nothing to move.`,
    );
  // Two names of one file: a move that was interrupted got this far, and a rename would do nothing.
  const twoNames = target !== undefined && !source.isDirectory() && idOf(target) === idOf(source);
  const halfWay = twoNames && (resumed || args.overwrite === true);
  if (target !== undefined && !halfWay) {
    if (args.overwrite !== true) throw exists(args.to, target.isDirectory());
    if (target.isDirectory() !== source.isDirectory())
      throw refusal(
        target.isDirectory() ? 'is_folder' : 'exists',
        `"${shown(args.to)}" is a ${target.isDirectory() ? 'folder' : 'file'} and "${shown(args.from)}" is not: delete it first, or choose another name.`,
      );
  }
  if (source.isDirectory() && isIn(to.path, from.path)) throw intoItself(args.from);
  const outcome: ToolOutcome = {
    output: `Moved ${shown(args.from)} to ${shown(args.to)}.`,
    verdict: { status: 'moved', from: from.path, to: to.path, replaced: target !== undefined && !halfWay },
  };
  context.signal.throwIfAborted();
  await changeOnce(
    services,
    context,
    { kind: 'move', from: from.path, to: to.path, id: lifeOf(source) },
    outcome,
    async () => {
      try {
        if (halfWay) await unlink(from.folder.at(from.name));
        else if (target === undefined && !source.isDirectory()) await moveToFreeName(from, to);
        // Of folders the kernel replaces only empty ones.
        else await rename(from.folder.at(from.name), to.folder.at(to.name));
      } catch (error) {
        throw (error as NodeJS.ErrnoException).code === 'ENOTEMPTY' ? exists(args.to, true) : pathError(error, args.to);
      }
      failpoint('files.renamed');
      await to.folder.sync();
      await from.folder.sync();
    },
  );
  if (target !== undefined) services.quotas.give(context.tenant, halfWay ? 0 : freed(target), 1);
  return outcome;
}

/** A rename would replace what a command puts there between our look and now; a second name is refused then. */
async function moveToFreeName(from: Place, to: Place): Promise<void> {
  try {
    await link(from.folder.at(from.name), to.folder.at(to.name));
  } catch (error) {
    // File systems without hard links, and files of which we may not make any.
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK', 'ENOSYS'].includes(String((error as NodeJS.ErrnoException).code)))
      throw error;
    return rename(from.folder.at(from.name), to.folder.at(to.name));
  }
  failpoint('files.linked');
  await unlink(from.folder.at(from.name));
}

const freed = (stat: BigIntStats) => (stat.isFile() && stat.nlink < 2n ? Number(stat.size) : 0);

const isIn = (path: string, folder: string) => `${path}/`.startsWith(`${folder}/`);
const intoItself = (path: string) => refusal('path', `"${shown(path)}" cannot be moved into itself.`);
const exists = (path: string, isFolder: boolean) =>
  refusal(
    'exists',
    isFolder
      ? `"${shown(path)}" is a folder that is there already: name the place in it, for example "${shown(path)}/name".`
      : `"${shown(path)}" is there already: choose another name, or set overwrite to replace it.`,
  );
