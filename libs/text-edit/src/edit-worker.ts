// Runs the passes that only compute in a thread of their own, so that a large file never holds up the event loop.
import { registerHooks } from 'node:module';
import { parentPort } from 'node:worker_threads';
import type { Search } from './search.js';
import type { EditOptions, EditRequest } from './types.js';

interface Task {
  id: number;
  content: string;
  request: EditRequest;
  options: Pick<EditOptions, 'minConfidence' | 'budgetMs'>;
}

// From source the thread runs under type stripping, where imports still name the built files.
if (import.meta.url.endsWith('.ts')) {
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier.startsWith('.') && context.parentURL?.endsWith('.ts') === true
        ? next(specifier.replace(/\.js$/, '.ts'), context)
        : next(specifier, context),
  });
}
const { begin } = (await import('./edit.js')) as {
  begin: (content: string, request: EditRequest, options: EditOptions) => Search;
};

parentPort!.on('message', ({ id, content, request, options }: Task) => {
  try {
    parentPort!.postMessage({ id, value: begin(content, request, options) });
  } catch (error) {
    parentPort!.postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
