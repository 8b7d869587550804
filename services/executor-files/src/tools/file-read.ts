import type { Tool } from '@yardmaster/executor-kit';
import { resolve } from '../paths/workspace.js';
import { refusal, shown } from '../refusal.js';
import { type FileServices, workspaceOf } from '../services.js';
import { readBytes } from '../storage/read-file.js';
import { fileTool } from './definition.js';

interface ReadArguments {
  path: string;
  offset?: number;
  limit?: number;
}

/** `file_read`: numbered lines, then one line in brackets that says what was shown and the SHA-256. */
export const fileRead = (services: FileServices): Tool =>
  fileTool<ReadArguments>('file_read', async ({ path, offset = 1, limit = 2000 }, context) => {
    const place = await resolve(workspaceOf(services, context), path, { follow: true });
    try {
      const read = await readBytes(place, services.limits.readBytes);
      if (read === undefined) throw refusal('not_found', `There is no "${shown(path)}" in the workspace.`);
      const { bytes, stat } = read;
      const size = bytes.length;
      const listed = await services.content.run('list', { bytes, offset, limit }, context);
      const { hash } = listed;
      if (listed.kind === 'binary')
        throw refusal('binary', `"${shown(path)}" is binary (${size} bytes, SHA-256 ${hash}).`, {
          bytes: size,
          sha256: hash,
        });
      const { listing: part, encoding, bom, eol, finalNewline } = listed;
      return {
        output: [...(part.text === '' ? [] : [part.text]), footer(part, hash, noteworthy(encoding, bom, eol))].join(
          '\n',
        ),
        verdict: {
          sha256: hash,
          bytes: size,
          lines: part.lines,
          from: part.from,
          to: part.to,
          encoding,
          bom,
          eol,
          final_newline: finalNewline,
          ...(place.links > 0 ? { target: place.path } : {}),
          ...(stat.nlink > 1n ? { hard_links: Number(stat.nlink) } : {}),
        },
      };
    } finally {
      await place.folder.close();
    }
  });

function footer(
  { lines, from, to }: { lines: number; from: number; to: number },
  hash: string,
  notes: string[],
): string {
  const what =
    lines === 0
      ? 'empty file'
      : to < from
        ? `no such lines: the file has ${lines}`
        : to < lines
          ? `lines ${from}-${to} of ${lines}; go on with offset ${to + 1}`
          : `lines ${from}-${to} of ${lines}`;
  return `(${[what, ...notes, `sha256 ${hash}`].join('; ')})`;
}

function noteworthy(encoding: string, bom: boolean, eol: string): string[] {
  const notes: string[] = [];
  if (encoding !== 'utf-8') notes.push(`encoding ${encoding}: the edit tools take UTF-8 only`);
  else if (bom) notes.push('starts with a byte order mark');
  if (eol === 'crlf') notes.push('lines end in CRLF');
  if (eol === 'mixed') notes.push('some lines end in CRLF, some in LF');
  return notes;
}
