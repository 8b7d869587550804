import { type ErrorClass, YardError } from '@yardmaster/contracts';
import type { ToolOutcome } from '@yardmaster/executor-kit';

/** Why a file tool did not do what it was asked, in one word, and what the caller may do next. */
const REASONS = {
  invalid_input: 'INVALID',
  path: 'INVALID',
  outside: 'DENIED',
  not_found: 'NOT_FOUND',
  exists: 'CONFLICT',
  stale: 'CONFLICT',
  unclear: 'CONFLICT',
  is_folder: 'INVALID',
  not_a_file: 'INVALID',
  binary: 'INVALID',
  not_utf8: 'INVALID',
  too_large: 'INVALID',
  too_deep: 'INVALID',
  read_only: 'DENIED',
  quota: 'EXHAUSTED',
  disk_full: 'EXHAUSTED',
} as const satisfies Record<string, ErrorClass>;

export type Reason = keyof typeof REASONS;

const CODE = 'YM-FILES-';

/** A failure that the model can do something about; `details` must survive JSON. */
export function refusal(reason: Reason, message: string, details: Record<string, unknown> = {}): YardError {
  const code = CODE + reason.replaceAll('_', '-').toUpperCase();
  return new YardError(REASONS[reason], code, message, { details: { ...details, reason } });
}

/** Was something refused for this reason? */
export function isRefusal(error: unknown, reason: Reason): boolean {
  return YardError.is(error) && error.code.startsWith(CODE) && error.details?.['reason'] === reason;
}

/** Runs `work`; a refusal becomes a result with `ok: false`, what is our fault stays an error. */
export async function asOutcome(work: () => Promise<ToolOutcome>): Promise<ToolOutcome> {
  try {
    return await work();
  } catch (error) {
    if (!YardError.is(error) || !error.code.startsWith(CODE)) throw error;
    const { reason, ...details } = error.details ?? {};
    return {
      ok: false,
      output: error.message,
      reason: String(reason),
      verdict: { status: reason, class: error.class, code: error.code, ...details },
      ...(reason === 'unclear' ? { outcomeUnknown: true } : {}),
    };
  }
}

/** A path as it is shown: cut, and with characters that would change a line or its direction made visible. */
export function shown(path: string): string {
  const cut = path.length > 300 ? `${path.slice(0, 300)}…` : path;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (unit) =>
    unit === '\n' ? '\\n' : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** What the system said about a path, in words that a model can act on; errors of other kinds come back as they are. */
export function pathError(error: unknown, path: string): unknown {
  if (YardError.is(error)) return error;
  const name = shown(path);
  switch ((error as NodeJS.ErrnoException).code) {
    case 'ENOENT':
      return refusal('not_found', `There is no "${name}" in the workspace.`);
    case 'ENOTDIR':
    case 'ELOOP':
      return refusal('path', `"${name}" leads through something that is no folder.`);
    case 'EISDIR':
      return refusal('is_folder', `"${name}" is a folder.`);
    case 'EEXIST':
    case 'ENOTEMPTY':
      return refusal('exists', `There is something at "${name}" already.`);
    case 'ENAMETOOLONG':
      return refusal('path', 'A name in the path is longer than the file system allows (255 bytes).');
    case 'EINVAL':
      return refusal('path', `The file system does not allow this with "${name}".`);
    case 'EACCES':
    case 'EPERM':
      return refusal('read_only', `The permissions of "${name}" do not allow this.`);
    case 'EROFS':
      return refusal('read_only', 'The workspace cannot be written: its file system is read-only.');
    case 'ENOSPC':
    case 'EDQUOT':
      return refusal(
        'disk_full',
        'The disk of the workspaces is full. Delete what is not needed, or ask the operator.',
      );
    case 'EFBIG':
      return refusal('too_large', `"${name}" would be larger than the file system allows.`);
    default:
      return error;
  }
}
