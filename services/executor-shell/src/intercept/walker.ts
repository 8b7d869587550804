import { type InterceptContext } from './intercept.js';
import { type Folders, isForbidden, judgePath, placeName } from './paths.js';
import { COMMAND_RULES } from './rules.js';
import { parseShell, type Piece, type Redirect, SyntaxProblem, type Tree } from './syntax.js';
import { type Resolved, type Taint, UNKNOWN, WordResolver } from './words.js';
import { unwrap } from './wrappers.js';

/** Ends the analysis: the command is refused. */
export class Refuse extends Error {
  readonly rule: string;
  constructor(rule: string, message: string) {
    super(message);
    this.rule = rule;
  }
}

/** What flows through a pipe: its text when that is known, and what it passed through. */
export interface Flow {
  text: string | null;
  taints: Set<Taint>;
}

/** The state of one shell, as far as it is followed. */
export interface Shell {
  cwd: string | null;
  values: Map<string, string | string[]>;
  positional: string[] | null;
  functions: Map<string, Tree>;
  taints: Map<string, Set<Taint>>;
}

/** What a rule works with. */
export interface RuleContext {
  /** Name without its folder. */
  name: string;
  args: Resolved[];
  shell: Shell;
  stdin: Flow;
  folders: Folders;
  walker: Walker;
  depth: number;
}

const MOST_STEPS = 8000;
/** Longest analysis; what takes longer is refused. Looked at only now and then, so that a busy machine refuses nothing small. */
const MOST_MS = 50;
const MOST_DEPTH = 24;
/** Values of a loop that are followed, by how deep it lies in other loops. */
const LOOP_VALUES = [24, 4, 2, 1];
const nothing = (): Flow => ({ text: null, taints: new Set() });
const literal = (text: string): Flow => ({ text, taints: new Set() });

/** Follows a command as the shell would run it, and refuses at the first thing that breaks a rule. */
export class Walker {
  readonly #context: InterceptContext;
  #steps = 0;
  #loops = 0;
  readonly #startedAt = performance.now();

  constructor(context: InterceptContext) {
    this.#context = context;
  }

  /** @throws Refuse */
  judge(tree: Tree): void {
    const { cwd, home, workspace, env } = this.#context;
    const values = new Map<string, string | string[]>([
      ['IFS', ' '],
      ['SHELL', '/bin/bash'],
      ['BASH', '/bin/bash'],
      ['USER', 'agent'],
      ['HOME', home],
      ['PWD', cwd],
      ['OLDPWD', workspace],
      ['PATH', '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
      ...Object.entries(env ?? {}),
    ]);
    this.#walk(tree, { cwd, values, positional: [], functions: new Map(), taints: new Map() }, nothing(), 0);
  }

  folders(shell: Shell): Folders {
    const { workspace, hostWorkspace, home } = this.#context;
    return { workspace, hostWorkspace: hostWorkspace ?? null, home, cwd: shell.cwd };
  }

  /** Judges text that a shell would run. Text with unknown parts is judged as far as it can be parsed. */
  script(text: string, shell: Shell, stdin: Flow, depth: number): Flow {
    if (depth > MOST_DEPTH)
      throw new Refuse('too-complex', 'The command is nested too deeply to be analysed: split it.');
    let tree: Tree;
    try {
      tree = parseShell(text).tree;
    } catch (error) {
      if (error instanceof SyntaxProblem && text.includes(UNKNOWN)) return nothing();
      throw error;
    }
    return this.#walk(tree, shell, stdin, depth + 1);
  }

  /** Judges a command that is given as fields, as a wrapper or `-exec` starts it. */
  command(fields: Resolved[], shell: Shell, stdin: Flow, depth: number): Flow {
    this.#step(depth);
    const unwrapped = unwrap(fields, shell, stdin);
    if (unwrapped.script !== undefined) return this.script(unwrapped.script, copy(shell), stdin, depth);
    const [first, ...args] = unwrapped.fields;
    if (first === undefined) return nothing();
    const inner = unwrapped.cwd === undefined ? shell : { ...copy(shell), cwd: unwrapped.cwd };
    if (first.taints.has('decode'))
      throw new Refuse(
        'decode-to-shell',
        'The name of the command comes from decoded text, which hides what runs: write the command plainly.',
      );
    const fn = inner.functions.get(first.text);
    if (fn !== undefined) {
      if (depth > 8) return nothing();
      const before = inner.positional;
      inner.positional = args.map((arg) => arg.text);
      const flow = this.#walk(fn, inner, stdin, depth + 1);
      inner.positional = before;
      return flow;
    }
    for (const name of namesOf(first.text)) {
      const rule = COMMAND_RULES.get(name);
      if (rule === undefined) continue;
      const flow = rule({ name, args, shell: inner, stdin, folders: this.folders(inner), walker: this, depth });
      if (flow !== undefined) return flow;
    }
    return { text: null, taints: new Set(stdin.taints) };
  }

  #walk(tree: Tree, shell: Shell, stdin: Flow, depth: number): Flow {
    this.#step(depth);
    switch (tree.kind) {
      case 'list': {
        const flows = tree.parts.map((part, index) =>
          this.#walk(part, tree.background[index] === true ? copy(shell) : shell, stdin, depth + 1),
        );
        return join(flows);
      }
      case 'pipeline': {
        let flow = stdin;
        if (tree.commands.filter((command) => isCommandNamed(command, '$0')).length > 1) throw forkBomb('$0');
        for (const command of tree.commands) flow = this.#walk(command, copy(shell), flow, depth + 1);
        return flow;
      }
      case 'subshell':
      case 'group': {
        const inner = tree.kind === 'subshell' ? copy(shell) : shell;
        const input = this.#redirects(tree.redirects, inner, stdin, depth);
        return this.#walk(tree.body, inner, input, depth + 1);
      }
      case 'function':
        if (callsItself(tree.body, tree.name)) throw forkBomb(tree.name);
        shell.functions.set(tree.name, tree.body);
        return nothing();
      case 'branches': {
        const input = this.#redirects(tree.redirects, shell, stdin, depth);
        // Words are resolved for what their substitutions would do.
        for (const word of tree.words) this.#resolver(shell, depth).split(word);
        return join(tree.parts.map((part) => this.#walk(part, shell, input, depth + 1)));
      }
      case 'loop': {
        const input = this.#redirects(tree.redirects, shell, stdin, depth);
        if (tree.variable === null) return this.#walk(tree.body, shell, input, depth + 1);
        const values =
          tree.values === null
            ? (shell.positional ?? [UNKNOWN])
            : this.#resolver(shell, depth)
                .fields(tree.values)
                .map((field) => field.text);
        const flows: Flow[] = [];
        for (const value of values.slice(0, LOOP_VALUES[this.#loops] ?? 1)) {
          shell.values.set(tree.variable, value);
          this.#loops++;
          flows.push(this.#walk(tree.body, shell, input, depth + 1));
          this.#loops--;
        }
        return join(flows);
      }
      case 'command':
        return this.#simple(tree, shell, stdin, depth);
    }
  }

  #simple(tree: Extract<Tree, { kind: 'command' }>, shell: Shell, stdin: Flow, depth: number): Flow {
    const input = this.#redirects(tree.redirects, shell, stdin, depth);
    const resolver = this.#resolver(shell, depth);
    const fields = resolver.fields(tree.words);
    const target = fields.length === 0 ? shell : copy(shell);
    for (const assign of tree.assigns) {
      const list = assign.value as Piece[][];
      const isArray = list.length > 0 && Array.isArray(list[0]);
      const resolved = isArray
        ? list.flatMap((item) => resolver.split(item))
        : [resolver.text(assign.value as Piece[])];
      const before = target.values.get(assign.name);
      if (isArray)
        target.values.set(
          assign.name,
          resolved.map((field) => field.text),
        );
      else if (assign.append)
        target.values.set(assign.name, typeof before === 'string' ? before + resolved[0]!.text : UNKNOWN);
      else target.values.set(assign.name, resolved[0]!.text);
      target.taints.set(
        assign.name,
        new Set([
          ...(assign.append ? (target.taints.get(assign.name) ?? []) : []),
          ...resolved.flatMap((field) => [...field.taints]),
        ]),
      );
    }
    if (fields.length === 0) return literal('');
    // Assignments before a command do not change the words of this command, but what it starts.
    return this.command(fields, shellFor(target, shell), input, depth + 1);
  }

  #redirects(redirects: readonly Redirect[], shell: Shell, stdin: Flow, depth: number): Flow {
    let input = stdin;
    for (const { kind, target, fd } of redirects) {
      const resolved = this.#resolver(shell, depth).text(target);
      if (kind === 'document') {
        if (fd === null || fd === 0)
          input = {
            text: resolved.text.includes(UNKNOWN) ? null : resolved.text + (resolved.text.endsWith('\n') ? '' : '\n'),
            taints: resolved.taints,
          };
      } else if (kind === 'read') {
        const piece = target.length === 1 ? target[0]! : null;
        if (fd === null || fd === 0)
          input =
            piece?.kind === 'process'
              ? this.#walk(piece.script, copy(shell), nothing(), depth + 1)
              : { text: null, taints: resolved.taints };
      } else {
        const where = judgePath(resolved.text, this.folders(shell));
        if (isForbidden(where)) {
          const advice =
            where === 'device' ? 'Devices cannot be written.' : 'Write to a file in the workspace or in /tmp.';
          throw new Refuse(
            'redirect-outside',
            `The redirection writes to ${JSON.stringify(show(resolved.text))}, ${placeName(where)} (system files are read-only). ${advice}`,
          );
        }
      }
    }
    return input;
  }

  #resolver(shell: Shell, depth: number): WordResolver {
    return new WordResolver(shell, (script) => this.#walk(script, copy(shell), nothing(), depth + 1));
  }

  #step(depth: number): void {
    this.#steps++;
    const late = this.#steps > 1000 && this.#steps % 100 === 0 && performance.now() - this.#startedAt > MOST_MS;
    if (late || this.#steps > MOST_STEPS || depth > MOST_DEPTH * 8)
      throw new Refuse(
        'too-complex',
        'The command is too long or too deeply nested to be analysed: split it, or write a script file.',
      );
  }
}

/** For a reason: unknown parts as an ellipsis, and not too long. */
export function show(text: string): string {
  const clean = text.replaceAll(UNKNOWN, '…');
  return clean.length > 120 ? `${clean.slice(0, 120)}…` : clean;
}

export function copy(shell: Shell): Shell {
  return {
    cwd: shell.cwd,
    values: new Map(shell.values),
    positional: shell.positional,
    functions: new Map(shell.functions),
    taints: new Map(shell.taints),
  };
}

/** `cd` and the like change the shell itself, whatever was assigned for this one command. */
function shellFor(withAssignments: Shell, shell: Shell): Shell {
  if (withAssignments.values.size === shell.values.size) return shell;
  shell.functions.forEach((body, name) => withAssignments.functions.set(name, body));
  return withAssignments;
}

function join(flows: Flow[]): Flow {
  const taints = new Set(flows.flatMap((flow) => [...flow.taints]));
  if (flows.length === 0) return { text: '', taints };
  return { text: flows.every((flow) => flow.text !== null) ? flows.map((flow) => flow.text).join('') : null, taints };
}

/** The names that a command word may stand for: its last component, and for a pattern every dangerous name that fits. */
function namesOf(text: string): string[] {
  const base = text.slice(text.lastIndexOf('/') + 1);
  // `[` and `[[` are commands.
  if (!/[*?]|\[.+\]/.test(base)) return [base];
  const source = base
    .replace(/[.+^${}()|\\]/g, '\\$&')
    .replace(/\*/g, '.*')
    .replace(/\?/g, '.');
  try {
    const pattern = new RegExp(`^${source}$`);
    return [...COMMAND_RULES.keys()].filter((name) => pattern.test(name));
  } catch {
    return [base];
  }
}

function forkBomb(name: string): Refuse {
  return new Refuse(
    'fork-bomb',
    `${JSON.stringify(name)} starts itself again and again (a fork bomb): give the recursion an end and run it in the foreground.`,
  );
}

function isCommandNamed(tree: Tree, name: string): boolean {
  if (tree.kind === 'subshell' || tree.kind === 'group') return isCommandNamed(tree.body, name);
  if (tree.kind === 'list') return tree.parts.length === 1 && isCommandNamed(tree.parts[0]!, name);
  if (tree.kind !== 'command') return false;
  const first = tree.words[0];
  const piece = Array.isArray(first) ? first[0]?.[0] : undefined;
  if (piece === undefined) return false;
  return piece.kind === 'text' ? piece.value === name : piece.kind === 'variable' && `$${piece.name}` === name;
}

/** A function that pipes into itself, or starts itself in the background without a condition, has no end. */
function callsItself(body: Tree, name: string): boolean {
  switch (body.kind) {
    case 'pipeline':
      return (
        body.commands.filter((command) => isCommandNamed(command, name)).length > 1 ||
        body.commands.some((command) => callsItself(command, name))
      );
    case 'list':
      return body.parts.some((part, index) => {
        if (callsItself(part, name)) return true;
        return (
          body.background[index] === true &&
          body.conditional[index] !== true &&
          (isCommandNamed(part, name) ||
            (part.kind === 'pipeline' && part.commands.some((command) => isCommandNamed(command, name))))
        );
      });
    case 'subshell':
    case 'group':
      return callsItself(body.body, name);
    case 'loop':
      return callsItself(body.body, name);
    default:
      return false;
  }
}
