import type { Tool } from '@yardmaster/executor-kit';
import { Pace } from '../pace.js';
import { openFolder } from '../paths/workspace.js';
import { shown } from '../refusal.js';
import { type FileServices, workspaceOf } from '../services.js';
import { ignoreAbove } from '../walk/ignore-above.js';
import { walk } from '../walk/walk.js';
import { fileTool } from './definition.js';

interface ListArguments {
  path?: string;
  depth?: number;
}

const MAX_LISTED = 2_000;
const MARKS = { file: '', folder: '/', link: '@', other: ' (device, pipe or socket)' } as const;

/** `file_list`: one path a line; folders end in `/`, links in `@`. What .gitignore names is named and not entered. */
export const fileList = (services: FileServices): Tool =>
  fileTool<ListArguments>('file_list', async ({ path = '.', depth = 2 }, context) => {
    const workspace = workspaceOf(services, context);
    const { folder, path: start } = await openFolder(workspace, path);
    const lines: string[] = [];
    const incomplete: string[] = [];
    let cut = false;
    let ignoredFolders = 0;
    try {
      const ignore = await ignoreAbove(workspace, start, new Pace(context.signal));
      const onIncomplete = (at: string) => void incomplete.push(at);
      for await (const entry of walk(folder, start, { depth, signal: context.signal, ignore, onIncomplete })) {
        if (lines.length >= MAX_LISTED) {
          cut = true;
          break;
        }
        const closed = entry.ignored && entry.kind === 'folder';
        if (closed) ignoredFolders++;
        lines.push(
          `${shown(start === '' ? entry.path : entry.path.slice(start.length + 1))}${MARKS[entry.kind]}${closed ? ' (ignored)' : ''}`,
        );
      }
    } finally {
      await folder.close();
    }
    if (lines.length === 0) lines.push('(empty)');
    if (cut) lines.push(`(more than ${MAX_LISTED}: list a folder further down, or with less depth)`);
    if (incomplete.length > 0)
      lines.push(`(not listed whole: ${incomplete.slice(0, 10).map(shown).join(', ') || '.'})`);
    return { output: lines.join('\n'), verdict: { entries: lines.length, cut, ignored_folders: ignoredFolders } };
  });
