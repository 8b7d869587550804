// Runs in its own thread: a broken grammar can abort the whole WebAssembly runtime, and parsing takes its time.
// Imports packages only, so that it also starts from source under type stripping.
import { createRequire } from 'node:module';
import { parentPort } from 'node:worker_threads';
import { Language, Parser, type Node, type Tree, type TreeCursor } from 'web-tree-sitter';

interface Task {
  id: number;
  operation: 'find' | 'errors';
  grammar: string;
  content: string;
  fragment: string;
}

/** One leaf of a tree: what it is compared by, and where it stands. */
interface Token {
  key: string;
  start: number;
  end: number;
}

interface Leaves {
  tokens: Token[];
  comments: number[];
}

const MAX_PLACES = 20;
/** Languages whose two kinds of quotes mean the same. */
const FREE_QUOTES = new Set(['javascript', 'typescript', 'tsx', 'python', 'css']);
const FREE_SEMICOLONS = new Set(['javascript', 'typescript', 'tsx']);
const STRINGS = new Set(['string', 'string_value']);

const resolve = createRequire(import.meta.url).resolve;
const parsers = new Map<string, Promise<Parser>>();
let ready: Promise<void> | undefined;

async function parserFor(grammar: string): Promise<Parser> {
  await (ready ??= Parser.init());
  let parser = parsers.get(grammar);
  if (!parser) {
    parser = Language.load(resolve(grammar)).then((language) => new Parser().setLanguage(language));
    parsers.set(grammar, parser);
  }
  return parser;
}

async function run(task: Task): Promise<unknown> {
  const parser = await parserFor(task.grammar);
  const name = /tree-sitter-([a-z]+)\.wasm$/.exec(task.grammar)![1]!;
  const tree = parser.parse(task.content);
  if (!tree) throw new Error('the file could not be parsed');
  try {
    if (task.operation === 'errors') return countErrors(tree.rootNode);
    const fragment = parser.parse(task.fragment);
    if (!fragment) throw new Error('the text could not be parsed');
    try {
      return find(tree, task.content, fragment, task.fragment, name);
    } finally {
      fragment.delete();
    }
  } finally {
    tree.delete();
  }
}

function countErrors(root: Node): number {
  if (!root.hasError) return 0;
  let count = 0;
  const cursor = root.walk();
  for (;;) {
    const node = cursor.currentNode;
    if (node.isError || node.isMissing) count++;
    if (node.hasError && cursor.gotoFirstChild()) continue;
    while (!cursor.gotoNextSibling()) {
      if (!cursor.gotoParent()) {
        cursor.delete();
        return count;
      }
    }
  }
}

function find(tree: Tree, content: string, fragmentTree: Tree, fragment: string, grammar: string) {
  const old = leaves(fragmentTree, fragment, grammar, 0, fragment.length);
  const own = old.tokens;
  const size = own.reduce((sum, token) => sum + token.end - token.start, 0);
  if (own.length < 3 || size < 12) return [];
  const places: { start: number; end: number; tokens: unknown[]; oldComments: number[]; fileComments: number[] }[] = [];
  const seen = new Set<number>();
  for (const [from, to] of windows(content, own, fragment)) {
    const { tokens, comments } = leaves(tree, content, grammar, from, to);
    for (let at = 0; at + own.length <= tokens.length; at++) {
      if (seen.has(tokens[at]!.start) || !matches(tokens, at, own)) continue;
      const head = tokens[at]!;
      const tail = tokens[at + own.length - 1]!;
      seen.add(head.start);
      if (!isWhole(tree, content, tokens, at, own.length)) continue;
      places.push({
        start: head.start,
        end: tail.end,
        tokens: own.map((token, i) => ({
          oldStart: token.start,
          oldEnd: token.end,
          fileStart: tokens[at + i]!.start,
          fileEnd: tokens[at + i]!.end,
        })),
        oldComments: old.comments,
        fileComments: comments.filter(
          (comment) => comment >= content.lastIndexOf('\n', head.start - 1) && comment <= lineEnd(content, tail.end),
        ),
      });
      if (places.length >= MAX_PLACES) return places;
    }
  }
  return places;
}

/** The first token's own key is free of what stands before it, which the old text does not show. */
function matches(tokens: readonly Token[], at: number, own: readonly Token[]): boolean {
  if (bare(tokens[at]!.key) !== bare(own[0]!.key)) return false;
  for (let i = 1; i < own.length; i++) if (tokens[at + i]!.key !== own[i]!.key) return false;
  return true;
}

function bare(key: string): string {
  return key.slice(key.indexOf('\u0000') + 1);
}

/** Stretches of the file around every occurrence of the old text's longest words; the whole file when they are common. */
function windows(content: string, own: readonly Token[], fragment: string): [number, number][] {
  const reach = fragment.length * 3 + 4000;
  const words = own
    .map((token) => fragment.slice(token.start, token.end))
    .filter((text) => /^[\p{L}\p{N}_]+$/u.test(text));
  words.sort((a, b) => b.length - a.length);
  let fewest: number[] | undefined;
  for (const word of words.slice(0, 6)) {
    const found: number[] = [];
    for (let at = content.indexOf(word); at >= 0 && found.length <= 64; at = content.indexOf(word, at + 1))
      found.push(at);
    if (found.length <= 64 && (!fewest || found.length < fewest.length)) fewest = found;
  }
  if (!fewest) return [[0, content.length]];
  const merged: [number, number][] = [];
  for (const at of fewest) {
    const from = Math.max(0, at - reach);
    const last = merged.at(-1);
    if (last && from <= last[1]) last[1] = Math.min(content.length, at + reach);
    else merged.push([from, Math.min(content.length, at + reach)]);
  }
  return merged;
}

function lineEnd(content: string, at: number): number {
  const end = content.indexOf('\n', at);
  return end < 0 ? content.length : end;
}

/** Whether a run of tokens is lines of their own, or one node or neighbouring nodes under one parent. */
function isWhole(tree: Tree, content: string, tokens: readonly Token[], at: number, count: number): boolean {
  const head = tokens[at]!;
  const tail = tokens[at + count - 1]!;
  const before = tokens[at - 1];
  const after = tokens[at + count];
  const startsLine = content.slice(content.lastIndexOf('\n', head.start - 1) + 1, head.start).trim() === '';
  const endsLine = !after || after.start > lineEnd(content, tail.end);
  if (startsLine && endsLine) return true;
  const parent = tree.rootNode.descendantForIndex(head.start, tail.end - 1);
  if (!parent) return false;
  if (parent.startIndex === head.start && parent.endIndex <= tail.end + 1) return true;
  let first: Node | undefined;
  let last: Node | undefined;
  for (const child of parent.children) {
    if (child.startIndex <= head.start && child.endIndex > head.start) first = child;
    if (child.startIndex < tail.end && child.endIndex >= tail.end) last = child;
  }
  if (!first || !last) return false;
  return (!before || before.end <= first.startIndex) && (!after || after.start >= last.endIndex);
}

function leaves(tree: Tree, text: string, grammar: string, from: number, to: number): Leaves {
  const raw: { type: string; parent: string; start: number; end: number; statement: number }[] = [];
  const comments: number[] = [];
  const cursor = tree.walk();
  collect(cursor, raw, comments, grammar, from, to, '', 0);
  cursor.delete();
  const tokens: Token[] = [];
  let depth: number | undefined;
  let covered = -1;
  for (let i = 0; i < raw.length; i++) {
    const leaf = raw[i]!;
    if (covered >= 0) gap(text, covered, leaf.start, comments, tokens);
    covered = leaf.end;
    const own = text.slice(leaf.start, leaf.end);
    // Some grammars have leaves for line ends.
    if (own.trim() === '') continue;
    const next = raw[i + 1];
    if (own === ',' && next && /^[)\]}]$/.test(text.slice(next.start, next.end)) && leaf.parent !== 'tuple') continue;
    if (
      own === ';' &&
      FREE_SEMICOLONS.has(grammar) &&
      leaf.parent !== 'for_statement' &&
      (!next || /[\n}]/.test(text.slice(leaf.end, next.start + 1)))
    )
      continue;
    let key = STRINGS.has(leaf.type) && FREE_QUOTES.has(grammar) ? quoteFree(own) : own;
    if (leaf.statement >= 0) {
      // Where layout is meaning, a token that begins a statement says how much deeper than the one before it stands.
      key = `${depth === undefined ? '' : leaf.statement - depth}\u0000${key}`;
      depth = leaf.statement;
    }
    tokens.push({ key, start: leaf.start, end: leaf.end });
  }
  return { tokens, comments };
}

/** Text between leaves that a grammar has no leaf for counts as a token as well. */
function gap(text: string, from: number, to: number, comments: readonly number[], tokens: Token[]): void {
  if (to <= from) return;
  const between = text.slice(from, to);
  const inner = between.trim();
  if (inner === '' || comments.some((comment) => comment >= from && comment < to)) return;
  const start = from + between.indexOf(inner);
  tokens.push({ key: inner, start, end: start + inner.length });
}

function quoteFree(text: string): string {
  const match = /^(['"])([^'"\\]*)\1$/.exec(text);
  return match ? `"${match[2]!}"` : text;
}

function collect(
  cursor: TreeCursor,
  out: { type: string; parent: string; start: number; end: number; statement: number }[],
  comments: number[],
  grammar: string,
  from: number,
  to: number,
  parent: string,
  depth: number,
): void {
  let statement = -1;
  for (;;) {
    const start = cursor.startIndex;
    const end = cursor.endIndex;
    if (start >= to && to > from) return;
    if (end > from || end === start) {
      const type = cursor.nodeType;
      if (type.includes('comment')) comments.push(start);
      else {
        const inBlock = grammar === 'python' && (parent === 'block' || parent === 'module' || type === 'block');
        if (inBlock && type !== 'block') statement = depth;
        const before = out.length;
        const whole = STRINGS.has(type) && FREE_QUOTES.has(grammar) && isPlainString(cursor);
        if (!whole && (start < from && end > to ? cursor.gotoFirstChildForIndex(from) : cursor.gotoFirstChild())) {
          collect(cursor, out, comments, grammar, from, to, type, depth + (type === 'block' ? 1 : 0));
          cursor.gotoParent();
        } else out.push({ type, parent, start, end, statement: -1 });
        if (statement >= 0 && out.length > before) out[before]!.statement = statement;
        statement = -1;
      }
    }
    if (!cursor.gotoNextSibling()) return;
  }
}

/** A string without interpolation in it. */
function isPlainString(cursor: TreeCursor): boolean {
  return !cursor.currentNode.namedChildren.some(
    (child) => child.type.includes('interpolation') || child.type.includes('substitution'),
  );
}

parentPort!.on('message', (task: Task) => {
  run(task).then(
    (value) => parentPort!.postMessage({ id: task.id, value }),
    (error: unknown) =>
      parentPort!.postMessage({ id: task.id, error: error instanceof Error ? error.message : String(error) }),
  );
});
