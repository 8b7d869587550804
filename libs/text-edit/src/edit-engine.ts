import { begin, finishEdit } from './edit.js';
import type { Search } from './search.js';
import { createSyntaxEngine } from './syntax-engine.js';
import { createThread } from './thread.js';
import type { EditOptions, EditRequest, EditResult, SyntaxEngine } from './types.js';

/** Files of more UTF-16 units are searched in a thread: below, a search takes less than the event loop can spare. */
const OFFLOAD_UNITS = 60_000;
const THREAD_MS = 30_000;

/** Applies edits with grammars loaded, and large files off the event loop. */
export interface EditEngine {
  /** As `applyEdit`, with pass 8 unless `options.ast` says otherwise. Throws when a thread fails, or a signal's reason. */
  apply(content: string | null, request: EditRequest, options?: EditOptions): Promise<EditResult>;
  readonly ast: SyntaxEngine;
  close(): Promise<void>;
}

/** Threads start with the first edit that needs them and never keep the process alive; `close` ends them at once. */
export function createEditEngine(): EditEngine {
  const ast = createSyntaxEngine();
  const search = createThread('edit-worker');
  return {
    ast,
    async apply(content, request, options = {}) {
      const all = { ast, ...options };
      if (content === null || content.length <= OFFLOAD_UNITS)
        return finishEdit(content, request, begin(content, request, all), all);
      const { minConfidence, budgetMs } = all;
      const limits = {
        ...(minConfidence === undefined ? {} : { minConfidence }),
        ...(budgetMs === undefined ? {} : { budgetMs }),
      };
      const begun = (await search.call({ content, request, options: limits }, THREAD_MS, all.signal)) as Search;
      return finishEdit(content, request, begun, all);
    },
    async close() {
      await Promise.all([ast.close(), search.close()]);
    },
  };
}
