import { readlink } from 'node:fs/promises';
import type { BigIntStats } from 'node:fs';
import type { Tool, ToolContext } from '@yardmaster/executor-kit';
import { type Place, resolve } from '../paths/workspace.js';
import { isRefusal, pathError, refusal, shown } from '../refusal.js';
import { type FileServices, workspaceOf } from '../services.js';
import { readBytes } from '../storage/read-file.js';
import { fileTool } from './definition.js';

/** `file_stat`: `name: value` lines. A link is told with its target; the rest is about what it leads to. */
export const fileStat = (services: FileServices): Tool =>
  fileTool<{ path: string }>('file_stat', async ({ path }, context) => {
    const workspace = workspaceOf(services, context);
    const facts: Record<string, unknown> = { path };
    const link = await resolve(workspace, path, { follow: false });
    try {
      const found = await link.folder.look(link.name);
      if (found === undefined) throw refusal('not_found', `There is no "${shown(path)}" in the workspace.`);
      if (found.isSymbolicLink()) facts['link_to'] = await readlink(link.folder.at(link.name));
    } catch (error) {
      throw pathError(error, path);
    } finally {
      await link.folder.close();
    }
    try {
      const place = await resolve(workspace, path, { follow: true });
      try {
        Object.assign(facts, await factsOf(services, context, place, path));
      } finally {
        await place.folder.close();
      }
    } catch (error) {
      // A link that leads out or nowhere is a fact about it, not a failure.
      if (
        facts['link_to'] === undefined ||
        !(isRefusal(error, 'outside') || isRefusal(error, 'not_found') || isRefusal(error, 'path'))
      )
        throw error;
      facts['type'] = isRefusal(error, 'outside') ? 'link that leads out of the workspace' : 'link that leads nowhere';
    }
    const text = (value: unknown) => (typeof value === 'string' ? shown(value) : String(value));
    return {
      output: Object.entries(facts)
        .map(([name, value]) => `${name}: ${text(value)}`)
        .join('\n'),
      verdict: facts,
    };
  });

async function factsOf(
  services: FileServices,
  context: ToolContext,
  place: Place,
  path: string,
): Promise<Record<string, unknown>> {
  const stat = await place.folder.look(place.name);
  if (stat === undefined) throw refusal('not_found', `There is no "${shown(path)}" in the workspace.`);
  const facts: Record<string, unknown> = {
    type: typeOf(stat),
    ...(place.links > 0 ? { target: place.path === '' ? '.' : place.path } : {}),
    mode: (stat.mode & 0o7777n).toString(8).padStart(4, '0'),
    modified: new Date(Number(stat.mtimeMs)).toISOString(),
  };
  if (!stat.isFile()) return facts;
  facts['bytes'] = Number(stat.size);
  if (stat.nlink > 1n) facts['hard_links'] = Number(stat.nlink);
  if (Number(stat.size) > services.limits.readBytes) return facts;
  const read = await readBytes(place, services.limits.readBytes);
  if (read === undefined) return facts;
  const { encoding, hash } = await services.content.run('describe', { bytes: read.bytes }, context);
  return { ...facts, encoding, sha256: hash };
}

function typeOf(stat: BigIntStats): string {
  if (stat.isFile()) return 'file';
  if (stat.isDirectory()) return 'folder';
  if (stat.isSymbolicLink()) return 'link';
  return 'device, pipe or socket';
}
