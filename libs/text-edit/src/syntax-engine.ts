import { createThread } from './thread.js';
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

/**
 * Syntax trees by web-tree-sitter in a thread that starts with the first call and never keeps the process alive.
 * A call that takes longer than `timeoutMs` (10 000 when absent) or ends the thread rejects; the next one starts anew.
 */
export function createSyntaxEngine({ timeoutMs = 10_000 }: { timeoutMs?: number } = {}): SyntaxEngine & {
  close(): Promise<void>;
} {
  const thread = createThread('syntax-worker');
  const call = (operation: 'find' | 'errors', grammar: string, content: string, fragment: string) =>
    thread.call({ operation, grammar, content, fragment }, timeoutMs);

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
    close: () => thread.close(),
  };
}

function endingOf(path: string): string {
  return /\.([A-Za-z0-9]+)$/.exec(path)?.[1]?.toLowerCase() ?? '';
}
