import { Worker } from 'node:worker_threads';
import type { SyntaxEngine, SyntaxPlace } from './types.js';

const GRAMMARS: Record<string, string> = {
  js: 'tree-sitter-javascript/tree-sitter-javascript.wasm',
  mjs: 'tree-sitter-javascript/tree-sitter-javascript.wasm',
  cjs: 'tree-sitter-javascript/tree-sitter-javascript.wasm',
  jsx: 'tree-sitter-javascript/tree-sitter-javascript.wasm',
  ts: 'tree-sitter-typescript/tree-sitter-typescript.wasm',
  mts: 'tree-sitter-typescript/tree-sitter-typescript.wasm',
  cts: 'tree-sitter-typescript/tree-sitter-typescript.wasm',
  tsx: 'tree-sitter-typescript/tree-sitter-tsx.wasm',
  py: 'tree-sitter-python/tree-sitter-python.wasm',
  pyi: 'tree-sitter-python/tree-sitter-python.wasm',
  go: 'tree-sitter-go/tree-sitter-go.wasm',
  rs: 'tree-sitter-rust/tree-sitter-rust.wasm',
  java: 'tree-sitter-java/tree-sitter-java.wasm',
  c: 'tree-sitter-c/tree-sitter-c.wasm',
  h: 'tree-sitter-c/tree-sitter-c.wasm',
  sh: 'tree-sitter-bash/tree-sitter-bash.wasm',
  bash: 'tree-sitter-bash/tree-sitter-bash.wasm',
  json: 'tree-sitter-json/tree-sitter-json.wasm',
  css: 'tree-sitter-css/tree-sitter-css.wasm',
  html: 'tree-sitter-html/tree-sitter-html.wasm',
  htm: 'tree-sitter-html/tree-sitter-html.wasm',
  toml: '@tree-sitter-grammars/tree-sitter-toml/tree-sitter-toml.wasm',
  yaml: '@tree-sitter-grammars/tree-sitter-yaml/tree-sitter-yaml.wasm',
  yml: '@tree-sitter-grammars/tree-sitter-yaml/tree-sitter-yaml.wasm',
};

/** Formats in which layout alone carries meaning: their errors are counted, but tokens say nothing about a place. */
const LAYOUT_ONLY = new Set(['yaml', 'yml']);

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
}

/**
 * Syntax trees by web-tree-sitter in a thread that starts with the first call and never keeps the process alive.
 * A call that takes longer than `timeoutMs` (10 000 when absent) or ends the thread rejects; the next one starts anew.
 */
export function createSyntaxEngine({ timeoutMs = 10_000 }: { timeoutMs?: number } = {}): SyntaxEngine & {
  close(): Promise<void>;
} {
  const waiting = new Map<number, Waiting>();
  let worker: Worker | undefined;
  let last = 0;

  const stop = (error: Error) => {
    void worker?.terminate();
    worker = undefined;
    for (const [id, { reject, timer }] of waiting) {
      clearTimeout(timer);
      waiting.delete(id);
      reject(error);
    }
  };
  const start = () => {
    // From source the thread runs the .ts file by type stripping.
    const started = new Worker(
      new URL(import.meta.url.endsWith('.ts') ? './syntax-worker.ts' : './syntax-worker.js', import.meta.url),
    );
    started.unref();
    started.on('message', ({ id, value, error }: { id: number; value?: unknown; error?: string }) => {
      const entry = waiting.get(id);
      if (!entry) return;
      waiting.delete(id);
      clearTimeout(entry.timer);
      if (waiting.size === 0) started.unref();
      if (error === undefined) entry.resolve(value);
      else entry.reject(new Error(error));
    });
    started.on(
      'error',
      (error) => worker === started && stop(error instanceof Error ? error : new Error(String(error))),
    );
    started.on('exit', () => worker === started && stop(new Error('the syntax thread ended')));
    return started;
  };
  const call = (operation: 'find' | 'errors', grammar: string, content: string, fragment: string) =>
    new Promise<unknown>((resolve, reject) => {
      const thread = (worker ??= start());
      thread.ref();
      const id = ++last;
      const timer = setTimeout(() => stop(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
      waiting.set(id, { resolve, reject, timer });
      thread.postMessage({ id, operation, grammar, content, fragment });
    });

  return {
    async find(path, content, fragment) {
      const ending = endingOf(path);
      const grammar = GRAMMARS[ending];
      if (grammar === undefined || LAYOUT_ONLY.has(ending)) return undefined;
      return (await call('find', grammar, content, fragment)) as SyntaxPlace[];
    },
    async errors(path, content) {
      const grammar = GRAMMARS[endingOf(path)];
      return grammar === undefined ? undefined : ((await call('errors', grammar, content, '')) as number);
    },
    async close() {
      const thread = worker;
      stop(new Error('the syntax engine was closed'));
      await thread?.terminate();
    },
  };
}

function endingOf(path: string): string {
  return /\.([A-Za-z0-9]+)$/.exec(path)?.[1]?.toLowerCase() ?? '';
}
