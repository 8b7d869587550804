// All work on the content of files. It runs in threads only: a file of some megabytes takes longer than the event loop
// can spare. Imports nothing that cannot start from source by type stripping.
import { createHash } from 'node:crypto';
import {
  applyEdit,
  type AppliedEdit,
  createSyntaxEngine,
  type EditOptions,
  type SyntaxEngine,
  unifiedDiff,
} from '@yardmaster/text-edit';
import { decode, decodeUtf8 } from './decode.js';
import { lineEnds, listing } from './listing.js';
import { collect, match } from './match.js';
import { ContentRefusal, type EditOutcome, type EditTask, type MadeEdit, type Tasks } from './tasks.js';

/** Vectors of texts, asked of the main thread. */
export type Embed = NonNullable<EditOptions['embed']>;

type Work = {
  [N in keyof Tasks]: (give: Tasks[N]['give'], embed: Embed | undefined) => MaybePromise<Tasks[N]['back']>;
};
type MaybePromise<T> = T | Promise<T>;

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** What a thread can do, by the name of the task. */
export const work: Work = {
  hash: ({ bytes }) => ({ bytes, hash: sha256(bytes) }),
  encode: ({ text }) => {
    const bytes = new TextEncoder().encode(text);
    return { bytes, hash: sha256(bytes) };
  },
  list: ({ bytes, offset, limit }) => {
    const hash = sha256(bytes);
    const decoded = decode(bytes);
    if (decoded.kind === 'binary') return { kind: 'binary', hash };
    const { text, ...facts } = decoded;
    return {
      ...facts,
      hash,
      listing: listing(text, offset, limit),
      eol: lineEnds(text),
      finalNewline: text.endsWith('\n'),
    };
  },
  describe: ({ bytes }) => {
    const decoded = decode(bytes);
    return { hash: sha256(bytes), encoding: decoded.kind === 'binary' ? 'binary' : decoded.encoding };
  },
  edit,
  match: ({ files, wanted, ...pattern }) => ({ hits: match(files, pattern, wanted) }),
  collect: ({ stdout, firstFd, files, ...pattern }) => ({ hits: collect(stdout, firstFd, files, pattern) }),
};

// A grammar that crashes takes its own thread with it, not this one.
let ast: SyntaxEngine | undefined;

async function edit(task: EditTask, embed: Embed | undefined): Promise<EditOutcome> {
  const { bytes, path, edits, maxBytes } = task;
  const before = bytes === undefined ? null : textOf(bytes, path);
  let content = before;
  let last: AppliedEdit | undefined;
  const applied: { index: number; result: MadeEdit }[] = [];
  const done: number[] = [];
  for (const [index, request] of edits.entries()) {
    const result = await applyEdit(content, request, {
      path,
      ast: (ast ??= createSyntaxEngine()),
      syntaxGate: task.syntaxGate,
      // Of several edits only the whole is shown.
      diffUnits: edits.length > 1 ? 0 : task.maxDiffUnits,
      ...(task.minConfidence === undefined ? {} : { minConfidence: task.minConfidence }),
      ...(embed === undefined ? {} : { embed }),
    });
    if (result.status === 'applied') {
      content = result.content;
      last = result;
      applied.push({ index, result: madeEdit(result) });
    } else if (result.status === 'already_applied' && edits.length > 1) done.push(index);
    else return { kind: 'refused', bytes, index, result };
  }
  if (content === null || last === undefined) return { kind: 'done', bytes };
  const after = new TextEncoder().encode(content);
  if (after.length > maxBytes)
    throw new ContentRefusal(
      'too_large',
      `The file would have ${after.length} bytes; ${maxBytes} is the limit. Nothing was written.`,
      { bytes: after.length, limit: maxBytes },
    );
  const diff = edits.length === 1 ? last.diff : unifiedDiff(before ?? '', content, path);
  return {
    kind: 'applied',
    bytes,
    after,
    hash: sha256(after),
    diff:
      diff.length > task.maxDiffUnits
        ? `${diff.slice(0, task.maxDiffUnits)}\n(the rest of the diff is left out)`
        : diff,
    applied,
    done,
  };
}

function madeEdit({ content: _content, diff: _diff, splices: _splices, ...made }: AppliedEdit): MadeEdit {
  return made;
}

function textOf(bytes: Uint8Array, path: string): string {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  if (bytes.includes(0))
    throw new ContentRefusal('binary', `"${path}" is binary (it holds NUL bytes) and cannot be edited as text.`);
  throw new ContentRefusal(
    'not_utf8',
    `"${path}" is not UTF-8. It was not changed: convert it first, for example with iconv in a shell command.`,
  );
}
