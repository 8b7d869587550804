// The only file that knows the parser. Everything else sees this small tree, so the parser can be replaced.
import {
  type Assignment,
  type CommandNode,
  type CompoundList,
  type ParsedScript,
  type PipelineNode,
  type Redirection,
  type Script,
  type Statement,
  type SyntaxNode,
  type Word,
  type WordPart,
  forEachChild,
  parse,
} from 'unbash';
import { expandBraces } from './braces.js';

/** One piece of a word. */
export type Piece =
  | { kind: 'text'; value: string; quoted: boolean }
  /** An unquoted pattern character or group. */
  | { kind: 'glob'; value: string }
  | { kind: 'variable'; name: string; quoted: boolean; change: Change | null }
  | { kind: 'substitution'; script: Tree; quoted: boolean }
  /** `<(…)` and `>(…)`: the command behind them. */
  | { kind: 'process'; script: Tree }
  /** Arithmetic and everything that is not followed. */
  | { kind: 'unknown' };

/** A parameter operation that is followed; `null` in its place stands for one that is not. */
export type Change =
  | { kind: 'default'; operator: string; operand: Piece[] }
  | { kind: 'slice'; offset: string; length: string | null }
  | { kind: 'replace'; all: boolean; pattern: Piece[]; replacement: Piece[] }
  | { kind: 'case'; upper: boolean; all: boolean }
  | { kind: 'other' };

/** A word after brace expansion: several words when it had a list. */
export type Words = Piece[][];

export interface Redirect {
  kind: 'write' | 'read' | 'document';
  target: Piece[];
  fd: number | null;
}

export interface Assign {
  name: string;
  value: Piece[] | Piece[][];
  append: boolean;
}

export type Tree =
  | { kind: 'command'; assigns: Assign[]; words: (Words | Assign)[]; redirects: Redirect[] }
  | { kind: 'pipeline'; commands: Tree[] }
  /** `background[i]` says whether the i-th part was started with `&`; `conditional[i]` whether it depends on the one before. */
  | { kind: 'list'; parts: Tree[]; background: boolean[]; conditional: boolean[] }
  | { kind: 'subshell'; body: Tree; redirects: Redirect[] }
  | { kind: 'group'; body: Tree; redirects: Redirect[] }
  | { kind: 'function'; name: string; body: Tree }
  | { kind: 'loop'; variable: string | null; values: Words[] | null; body: Tree; redirects: Redirect[] }
  /** if and case: any of the parts may run. */
  | { kind: 'branches'; words: Piece[][]; parts: Tree[]; redirects: Redirect[] };

/** Text that is not valid shell. */
export class SyntaxProblem extends Error {}

/** Parses a command. @throws SyntaxProblem */
export function parseShell(source: string): { tree: Tree; documentChars: number } {
  const builder = new Builder();
  const tree = builder.script(parse(source));
  return { tree, documentChars: builder.documentChars };
}

/** Nodes that a command may have; it bounds the time of the analysis whatever the text looks like. */
const MOST_NODES = 8000;
/** Words that one brace expression may become; bash has no bound, a reader of commands needs one. */
const MOST_WORDS = 64;
/** Brace lists in one word. */
const MOST_LISTS = 8;

class Builder {
  #nodes = 0;
  /** Characters in here-documents: data, mostly. */
  documentChars = 0;

  #count(): void {
    // Told apart from a syntax error by its class, as is the overflow of a deep recursion.
    if (++this.#nodes > MOST_NODES) throw new RangeError('too many nodes');
  }

  script(script: ParsedScript | Script | undefined): Tree {
    if (script === undefined) throw new SyntaxProblem('a substitution could not be parsed');
    const first = (script as ParsedScript).errors?.[0];
    if (first !== undefined) throw new SyntaxProblem(`${first.message} at character ${first.pos}`);
    return this.statements(script.commands);
  }

  statements(statements: readonly Statement[]): Tree {
    const list: Extract<Tree, { kind: 'list' }> = { kind: 'list', parts: [], background: [], conditional: [] };
    for (const { command, background } of statements) {
      if (command.type === 'AndOr') {
        command.commands.forEach((part, index) => {
          list.parts.push(this.pipeline(part));
          list.background.push(background === true && index === command.commands.length - 1);
          list.conditional.push(index > 0);
        });
      } else {
        list.parts.push(this.pipeline(command));
        list.background.push(background === true);
        list.conditional.push(false);
      }
    }
    return list;
  }

  pipeline(node: PipelineNode): Tree {
    if (node.type !== 'Pipeline') return this.node(node);
    const commands = node.commands.map((command) => this.node(command));
    return commands.length === 1 ? commands[0]! : { kind: 'pipeline', commands };
  }

  node(node: CommandNode | CompoundList): Tree {
    this.#count();
    switch (node.type) {
      case 'Command': {
        const assigns = node.prefix.filter((item) => item.type === 'Assignment').map((item) => this.assign(item));
        const words = node.args.map((arg) => (arg.type === 'Assignment' ? this.assign(arg) : this.words(arg)));
        if (node.name !== undefined) words.unshift(this.words(node.name));
        return { kind: 'command', assigns, words, redirects: this.redirects(node.redirects) };
      }
      case 'Redirected': {
        const inner = this.node(node.command);
        const redirects = this.redirects(node.redirects);
        if ('redirects' in inner) inner.redirects.push(...redirects);
        else return { kind: 'group', body: inner, redirects };
        return inner;
      }
      case 'Function':
        return { kind: 'function', name: node.name.value, body: this.node(node.body) };
      case 'Coproc':
        return { kind: 'list', parts: [this.node(node.body)], background: [true], conditional: [false] };
      case 'CompoundList':
        return this.statements(node.commands);
      case 'BraceGroup':
        return { kind: 'group', body: this.node(node.body), redirects: [] };
      case 'Subshell':
        return { kind: 'subshell', body: this.node(node.body), redirects: [] };
      case 'If': {
        const parts = [this.node(node.clause), this.node(node.then)];
        for (const elif of node.elif) parts.push(this.node(elif.clause), this.node(elif.then));
        if (node.else !== undefined) parts.push(this.node(node.else));
        return { kind: 'branches', words: [], parts, redirects: [] };
      }
      case 'Case':
        return {
          kind: 'branches',
          words: [
            ...this.words(node.word),
            ...node.items.flatMap((item) => item.pattern.flatMap((pattern) => this.words(pattern))),
          ],
          parts: node.items.map((item) => this.node(item.body)),
          redirects: [],
        };
      case 'While':
        return {
          kind: 'loop',
          variable: null,
          values: null,
          body: {
            kind: 'list',
            parts: [this.node(node.clause), this.node(node.body)],
            background: [false, false],
            conditional: [false, true],
          },
          redirects: [],
        };
      case 'For':
      case 'Select':
        return {
          kind: 'loop',
          variable: node.name.value,
          values: node.wordlist?.map((word) => this.words(word)) ?? null,
          body: this.node(node.body),
          redirects: [],
        };
      case 'ArithmeticFor':
        return { kind: 'loop', variable: null, values: null, body: this.node(node.body), redirects: [] };
      case 'TestCommand':
      case 'ArithmeticCommand':
        return {
          kind: 'branches',
          words: node.expression === undefined ? [] : [this.embedded(node.expression)],
          parts: [],
          redirects: [],
        };
    }
  }

  assign(node: Assignment): Assign {
    const value =
      node.value.type === 'ArrayValue'
        ? node.value.elements.flatMap((word) => this.words(word))
        : this.pieces(node.value);
    return { name: node.index === undefined ? node.name : `${node.name}[]`, value, append: node.append === true };
  }

  redirects(nodes: readonly Redirection[]): Redirect[] {
    return nodes.map((node) => {
      const fd = node.descriptor?.type === 'FileDescriptor' ? node.descriptor.value : null;
      if (node.type === 'HereDoc') {
        this.documentChars += node.body.text.length;
        const quoted = node.delimiter?.quoted === true || node.body.parts === undefined;
        return {
          kind: 'document',
          target: quoted ? [{ kind: 'text', value: node.body.text, quoted: true }] : this.parts(node.body.parts, true),
          fd,
        };
      }
      const target = node.target === undefined ? [] : this.pieces(node.target);
      if (node.type === 'HereString') return { kind: 'document', target, fd };
      const writes = node.operator !== '<' && node.operator !== '<&';
      return { kind: writes ? 'write' : 'read', target, fd };
    });
  }

  /** The commands inside an expression whose value is not followed. */
  embedded(node: SyntaxNode): Piece[] {
    if (node.type === 'CommandExpansion' || node.type === 'ArithmeticCommandExpansion')
      return [{ kind: 'substitution', script: this.script(node.script), quoted: true }];
    if (node.type === 'ProcessSubstitution') return [{ kind: 'process', script: this.script(node.script) }];
    const found: Piece[] = [];
    forEachChild(node, (child) => found.push(...this.embedded(child)));
    return found;
  }

  words(word: Word): Words {
    this.#count();
    if (word.parts?.some((part) => part.type === 'BraceExpansion') !== true) return [this.pieces(word)];
    // Braces are expanded on pieces: each alternative takes the pieces before and behind it along.
    if (word.parts.filter((part) => part.type === 'BraceExpansion').length > MOST_LISTS)
      return [[{ kind: 'unknown' }, ...this.parts(word.parts, false)]];
    let all: Piece[][] = [[]];
    for (const part of word.parts) {
      const choices =
        part.type === 'BraceExpansion'
          ? expandBraces(part.text).map((text): Piece[] => [{ kind: 'text', value: text, quoted: false }])
          : [this.part(part, false)];
      all = all.flatMap((before) => choices.map((choice) => [...before, ...choice])).slice(0, MOST_WORDS);
    }
    return all;
  }

  pieces(word: Word): Piece[] {
    return word.parts === undefined ? plain(word.value, word.text) : this.parts(word.parts, false);
  }

  parts(parts: readonly WordPart[] | undefined, quoted: boolean): Piece[] {
    return (parts ?? []).flatMap((part) => this.part(part, quoted));
  }

  part(part: WordPart, quoted: boolean): Piece[] {
    this.#count();
    switch (part.type) {
      case 'Literal':
        return quoted ? [{ kind: 'text', value: part.value, quoted: true }] : plain(part.value, part.text);
      case 'SingleQuoted':
      case 'AnsiCQuoted':
        return [{ kind: 'text', value: part.value, quoted: true }];
      case 'DoubleQuoted':
      case 'LocaleString':
        return [{ kind: 'text', value: '', quoted: true }, ...this.parts(part.parts, true)];
      case 'Glob':
      case 'ExtendedGlob':
        return [{ kind: 'glob', value: part.text }];
      case 'BraceExpansion':
        return [{ kind: 'text', value: part.text, quoted: false }];
      case 'SimpleExpansion':
        return [{ kind: 'variable', name: part.text.slice(1), quoted, change: null }];
      case 'ParameterExpansion': {
        if (part.prefix !== undefined) return [{ kind: 'unknown' }];
        const index = part.index?.value;
        const name =
          index === undefined
            ? part.parameter
            : index === '@' || index === '*'
              ? `${part.parameter}[@]`
              : `${part.parameter}[${index}]`;
        const operation = part.operation;
        let change: Change | null = null;
        if (operation !== undefined) {
          if (operation.type === 'Default')
            change = { kind: 'default', operator: operation.operator, operand: this.pieces(operation.operand) };
          else if (operation.type === 'Slice')
            change = { kind: 'slice', offset: operation.offset.value, length: operation.length?.value ?? null };
          else if (operation.type === 'CaseModification')
            change = { kind: 'case', upper: operation.operator.startsWith('^'), all: operation.operator.length === 2 };
          else if (
            operation.type === 'Replace' &&
            !operation.operator.endsWith('#') &&
            !operation.operator.endsWith('%')
          )
            change = {
              kind: 'replace',
              all: operation.operator === '//',
              pattern: this.pieces(operation.pattern),
              replacement: this.pieces(operation.replacement),
            };
          else change = { kind: 'other' };
        }
        return [{ kind: 'variable', name, quoted, change }];
      }
      case 'CommandExpansion':
        return [{ kind: 'substitution', script: this.script(part.script), quoted }];
      case 'ProcessSubstitution':
        return [{ kind: 'process', script: this.script(part.script) }];
      case 'ArithmeticExpansion':
        return [{ kind: 'unknown' }, ...(part.expression === undefined ? [] : this.embedded(part.expression))];
    }
  }
}

/** Text of which a leading tilde counts only when it was not escaped. */
function plain(value: string, text: string): Piece[] {
  return [{ kind: 'text', value, quoted: text !== value && text.startsWith('\\') }];
}
