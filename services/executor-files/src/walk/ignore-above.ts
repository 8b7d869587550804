import type { Pace } from '../pace.js';
import { openWorkspace, type Workspace } from '../paths/workspace.js';
import { isIgnored } from './ignore-rules.js';
import { ignoreFileIn, type IgnoreFiles } from './walk.js';

/**
 * The .gitignore files of the folders above `path` (a path without links; its own folder excluded). A path that they
 * ignore was asked for by name, so they do not speak of what is in it.
 */
export async function ignoreAbove(workspace: Workspace, path: string, pace: Pace): Promise<IgnoreFiles> {
  if (path === '') return [];
  const files: { base: string; rules: NonNullable<Awaited<ReturnType<typeof ignoreFileIn>>> }[] = [];
  const names = path.split('/');
  let folder = await openWorkspace(workspace);
  try {
    for (const [index, name] of names.entries()) {
      const base = names.slice(0, index).join('/');
      const rules = await ignoreFileIn(folder, pace);
      if (rules !== undefined) files.push({ base, rules });
      if (await isIgnored(files, names.slice(0, index + 1).join('/'), true, pace)) return [];
      if (index === names.length - 1) break;
      const next = await folder.folder(name).catch(() => undefined);
      if (next === undefined) break;
      await folder.close();
      folder = next;
    }
    return files;
  } finally {
    await folder.close();
  }
}
