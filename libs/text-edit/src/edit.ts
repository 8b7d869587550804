import { hasLoneSurrogate } from './fold.js';
import { byMeaning, bySyntax, gate, written } from './outside.js';
import { prepare, refuse } from './prepare.js';
import { search, type Search } from './search.js';
import { TextView } from './text-view.js';
import {
  PASS_NAMES,
  type EditOptions,
  type EditRequest,
  type EditResult,
  type FindResult,
  type Pass,
  type SkippedPass,
} from './types.js';

const DEFAULT_CONFIDENCE = 0.8;
const DEFAULT_BUDGET_MS = 2000;

/**
 * Finds where an edit goes, without the passes that ask others (7 embedding, 8 syntax); never changes anything.
 * `content` is the decoded file, or null when there is none. Returns refusals as values; throws only a given signal's reason.
 */
export function findEdit(content: string | null, request: EditRequest, options: EditOptions = {}): FindResult {
  return withSkipped(begin(content, request, options).result, 'needs applyEdit');
}

/**
 * Finds where an edit goes with all nine passes and returns the new content with its diff, or a refusal that says what
 * helps. Passes 7 (embedding) and 9 (best guess) only ever name candidates. Throws only a given signal's reason.
 */
export async function applyEdit(
  content: string | null,
  request: EditRequest,
  options: EditOptions = {},
): Promise<EditResult> {
  return finishEdit(content, request, begin(content, request, options), options);
}

/** What `applyEdit` does after the passes that need no one else: passes 7 and 8, the syntax gate, and the new content. */
export async function finishEdit(
  content: string | null,
  request: EditRequest,
  begun: Search,
  options: EditOptions,
): Promise<EditResult> {
  const text = content ?? '';
  const path = options.path ?? 'file';
  const skipped: SkippedPass[] = [];
  const skip = (pass: Pass, reason: string) => skipped.push({ pass, name: PASS_NAMES[pass], reason });
  let result = begun.result;
  if (begun.open && begun.prepared && result.status !== 'found') {
    // Places that resemble the text about equally are not told apart by their tokens alone.
    if (result.status !== 'ambiguous') result = await bySyntax(text, request, begun.prepared, result, options, skip);
    options.signal?.throwIfAborted();
    if (result.status !== 'found') result = await byMeaning(begun.prepared, result, options, skip);
    options.signal?.throwIfAborted();
  }
  if (result.status === 'found' && result.pass >= 3 && options.syntaxGate === true)
    result = await gate(text, result, path, options, skip);
  result = { ...result, skipped };
  return result.status === 'found' ? written(text, result, path, options.diffUnits) : result;
}

/** The passes that need no one else. */
export function begin(content: string | null, request: EditRequest, options: EditOptions): Search {
  if (content === null) return { result: withoutFile(request), open: false };
  const until = performance.now() + (options.budgetMs ?? DEFAULT_BUDGET_MS);
  const expired = () => {
    options.signal?.throwIfAborted();
    return performance.now() > until;
  };
  return search(new TextView(content), request, options.minConfidence ?? DEFAULT_CONFIDENCE, expired);
}

function withoutFile(request: EditRequest): FindResult {
  if (request.oldString !== '') {
    const prepared = prepare(request);
    if ('status' in prepared && prepared.status === 'invalid_input' && request.oldString.trim() !== '') return prepared;
    return refuse(
      'not_found',
      'There is no such file. To create it, send an empty old_string and its whole content as new_string.',
    );
  }
  if (hasLoneSurrogate(request.newString))
    return refuse(
      'invalid_input',
      'new_string holds half of a surrogate pair, which no file can: send the whole character.',
    );
  const lines = Math.max(1, request.newString.split('\n').length - 1);
  return {
    status: 'found',
    pass: 1,
    passName: PASS_NAMES[1],
    confidence: 1,
    splices: [{ start: 0, end: 0, text: request.newString }],
    span: { start: 0, end: 0 },
    startLine: 1,
    endLine: lines,
    count: 1,
    reindented: false,
    normalisations: [],
    message: 'The file was created.',
    skipped: [],
  };
}

function withSkipped(result: FindResult, reason: string): FindResult {
  if (result.status === 'found') return result;
  return { ...result, skipped: ([7, 8] as const).map((pass) => ({ pass, name: PASS_NAMES[pass], reason })) };
}
