import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readdir, rename, unlink } from 'node:fs/promises';
import { BUILT_IN_TOOLS, YardError } from '@yardmaster/contracts';
import { defineTool, type Tool, type ToolContext, type ToolOutcome } from '@yardmaster/executor-kit';
import { applyEdit } from '@yardmaster/text-edit';
import { openParent, pathError } from './workspace.js';

const MAX_FILE_BYTES = 10_000_000;
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

interface Content {
  bytes: Buffer;
  mode: number;
}

async function readBytes(root: string, context: ToolContext, path: string): Promise<Content> {
  const { folder, name } = await openParent(root, context.tenant, context.workspace, path);
  try {
    const handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const stat = await handle.stat();
      if (stat.isDirectory()) throw new YardError('INVALID', 'YM-PATH', `"${path}" is a folder: use file_list.`);
      if (!stat.isFile()) throw new YardError('INVALID', 'YM-PATH', `"${path}" is no ordinary file.`);
      if (stat.size > MAX_FILE_BYTES)
        throw new YardError(
          'INVALID',
          'YM-FILE-TOO-LARGE',
          `"${path}" has ${stat.size} bytes; ${MAX_FILE_BYTES} is the limit.`,
        );
      return { bytes: await handle.readFile(), mode: stat.mode & 0o777 };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw pathError(error, path);
  } finally {
    await folder.close();
  }
}

/** Temporary file, fsync, rename: whoever looks sees the old content or the new, never a part. */
async function writeBytes(
  root: string,
  context: ToolContext,
  path: string,
  bytes: Buffer,
  mode = 0o644,
): Promise<void> {
  const { folder, name } = await openParent(root, context.tenant, context.workspace, path, { create: true });
  const temporary = folder.at(`.ym-${randomBytes(8).toString('hex')}`);
  try {
    const handle = await open(
      temporary,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      mode,
    );
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, folder.at(name));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw pathError(error, path);
  } finally {
    await folder.close();
  }
}

const definitionOf = (name: string) => {
  const tool = BUILT_IN_TOOLS.find((candidate) => candidate.name === name)!;
  return {
    name,
    description: tool.description,
    effect: tool.effect,
    timeoutMs: tool.timeoutMs,
    input: tool.parameters,
  };
};

/** A failure that the model can do something about is a result, not an error of ours. */
async function asResult(work: () => Promise<ToolOutcome>): Promise<ToolOutcome> {
  try {
    return await work();
  } catch (error) {
    if (YardError.is(error) && error.class !== 'INTERNAL')
      return { ok: false, output: error.message, reason: error.code };
    throw error;
  }
}

export function fileTools(root: string): Tool[] {
  return [
    defineTool<{ path: string; offset?: number; limit?: number }>({
      ...definitionOf('file_read'),
      run: ({ path, offset = 1, limit = 2000 }, context) =>
        asResult(async () => {
          const { bytes } = await readBytes(root, context, path);
          if (bytes.includes(0))
            return { ok: false, output: `"${path}" is binary (${bytes.length} bytes).`, reason: 'binary' };
          const lines = bytes.toString('utf8').split('\n');
          if (lines.at(-1) === '') lines.pop();
          const shown = lines.slice(offset - 1, offset - 1 + limit);
          const listing = shown.map((line, index) => `${String(offset + index).padStart(6)}\t${line}`).join('\n');
          const rest = lines.length - (offset - 1 + shown.length);
          return {
            output: rest > 0 ? `${listing}\n(${rest} more lines)` : listing,
            verdict: { sha256: sha256(bytes), lines: lines.length },
          };
        }),
    }),
    defineTool<{ path: string; content: string; expected_sha256?: string }>({
      ...definitionOf('file_write'),
      run: ({ path, content, expected_sha256 }, context) =>
        asResult(async () => {
          const before = await readBytes(root, context, path).catch((error: unknown) =>
            YardError.is(error) && error.class === 'NOT_FOUND' ? undefined : Promise.reject(error as Error),
          );
          if (expected_sha256 !== undefined && (before === undefined || sha256(before.bytes) !== expected_sha256))
            return { ok: false, output: `"${path}" has changed since it was read: read it again.`, reason: 'changed' };
          const bytes = Buffer.from(content);
          await writeBytes(root, context, path, bytes, before?.mode);
          return {
            output: `${before === undefined ? 'Created' : 'Wrote'} ${path} (${bytes.length} bytes).`,
            verdict: { sha256: sha256(bytes) },
          };
        }),
    }),
    defineTool<{
      path: string;
      old_string: string;
      new_string: string;
      replace_all?: boolean;
      line_hint?: number;
      expected_sha256?: string;
    }>({
      ...definitionOf('file_edit'),
      run: ({ path, old_string, new_string, replace_all, line_hint, expected_sha256 }, context) =>
        asResult(async () => {
          const { bytes, mode } = await readBytes(root, context, path);
          if (expected_sha256 !== undefined && sha256(bytes) !== expected_sha256)
            return { ok: false, output: `"${path}" has changed since it was read: read it again.`, reason: 'changed' };
          const result = await applyEdit(bytes.toString('utf8'), {
            oldString: old_string,
            newString: new_string,
            ...(replace_all === undefined ? {} : { replaceAll: replace_all }),
            ...(line_hint === undefined ? {} : { lineHint: line_hint }),
          });
          if (result.status !== 'applied')
            return { ok: result.status === 'already_applied', output: result.message, reason: result.status };
          const after = Buffer.from(result.content);
          await writeBytes(root, context, path, after, mode);
          return { output: `Edited ${path}.\n${result.diff}`, verdict: { pass: result.pass, sha256: sha256(after) } };
        }),
    }),
    defineTool<{ path?: string; depth?: number }>({
      ...definitionOf('file_list'),
      run: ({ path = '.', depth = 2 }, context) =>
        asResult(async () => ({ output: (await list(root, context, path, depth)).join('\n') || '(empty)' })),
    }),
  ];
}

const MAX_LISTED = 2000;

async function list(root: string, context: ToolContext, path: string, depth: number): Promise<string[]> {
  const { folder } = await openParent(
    root,
    context.tenant,
    context.workspace,
    `${path}/.`.replace(/^\.\//, '') === '.' ? 'x' : `${path}/x`,
  );
  const found: string[] = [];
  try {
    const entries = (await readdir(folder.path, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const entry of entries) {
      if (entry.name === '.git' || found.length >= MAX_LISTED) continue;
      found.push(entry.isDirectory() ? `${entry.name}/` : entry.isSymbolicLink() ? `${entry.name}@` : entry.name);
      if (entry.isDirectory() && depth > 1)
        for (const inner of await list(root, context, path === '.' ? entry.name : `${path}/${entry.name}`, depth - 1))
          found.push(`${entry.name}/${inner}`);
    }
  } finally {
    await folder.close();
  }
  return found;
}
