import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS, isGroup, type Tree } from './command.js';
import { nearest } from './nearest.js';
import { UsageError } from './usage-error.js';

export type FlagValue = string | number | boolean | string[];

export interface Parsed {
  /** The words of the command; with a noun alone, or none, help is wanted. */
  path: string[];
  command: CommandSpec | undefined;
  args: string[];
  flags: Record<string, FlagValue>;
  /** Everything after the command, unread. */
  rest: string[];
}

/** Reads a command line against the tree. Throws UsageError with the nearest name for what is unknown. */
export function parseCommandLine(tree: Tree, argv: readonly string[]): Parsed {
  const words = [...argv];
  const flags: Record<string, FlagValue> = {};
  const path: string[] = [];
  let command: CommandSpec | undefined;
  while (words.length > 0 && command === undefined) {
    const word = words[0]!;
    if (word.startsWith('-') && word !== '-') {
      takeFlag(words, GLOBAL_FLAGS, flags, path);
      continue;
    }
    words.shift();
    const siblings: Readonly<Record<string, unknown>> =
      path.length === 0 ? tree : (tree[path[0]!] as { verbs: Tree }).verbs;
    if (!Object.hasOwn(siblings, word)) throw unknownCommand(tree, path, word, siblings);
    const entry = siblings[word] as Tree[string];
    path.push(word);
    if (!isGroup(entry)) command = entry;
  }
  const rest = [...words];
  if (command === undefined) return { path, command, args: [], flags, rest };
  const known = { ...GLOBAL_FLAGS, ...command.flags };
  const args: string[] = [];
  while (words.length > 0) {
    const word = words[0]!;
    if (word === '--') {
      args.push(...words.splice(1));
      break;
    }
    if (word.startsWith('-') && word !== '-') takeFlag(words, known, flags, path);
    else args.push(words.shift()!);
  }
  if (flags['help'] !== true) checkArgs(path, command, args);
  return { path, command, args, flags, rest };
}

function unknownCommand(tree: Tree, path: string[], word: string, siblings: Readonly<Record<string, unknown>>): Error {
  const shown = [...path, word].join(' ').slice(0, 80);
  const visible = Object.entries(siblings).filter(([, entry]) => (entry as { hidden?: boolean }).hidden !== true);
  const near = nearest(
    word,
    visible.map(([name]) => name),
  );
  // "yard list run": the verb came first.
  const noun = Object.entries(tree).find(([, entry]) => isGroup(entry) && Object.hasOwn(entry.verbs, word));
  const meant =
    near !== undefined ? [...path, near].join(' ') : path.length === 0 && noun ? `${noun[0]} ${word}` : undefined;
  return new UsageError(
    `unknown command "${shown}"${meant === undefined ? '' : `, did you mean \`yard ${meant}\`?`}`,
    meant === undefined ? [`there are: ${visible.map(([name]) => name).join(', ')}`] : [],
  );
}

/** Takes one flag with its value from the front of `words`. */
function takeFlag(
  words: string[],
  known: Readonly<Record<string, FlagSpec>>,
  flags: Record<string, FlagValue>,
  path: readonly string[],
): void {
  const word = words.shift()!;
  let name: string;
  let value: string | undefined;
  if (word.startsWith('--')) {
    const equals = word.indexOf('=');
    name = word.slice(2, equals < 0 ? undefined : equals);
    value = equals < 0 ? undefined : word.slice(equals + 1);
  } else {
    const found = Object.entries(known).find(([, spec]) => spec.short === word[1]);
    if (found === undefined) throw unknownFlag(word, known, path);
    name = found[0];
    if (word.length > 2) {
      if (found[1].value === undefined) words.unshift(`-${word.slice(2)}`);
      else value = word.slice(word[2] === '=' ? 3 : 2);
    }
  }
  const spec = Object.hasOwn(known, name) ? known[name]! : undefined;
  if (spec === undefined) throw unknownFlag(word, known, path);
  if (spec.value === undefined) {
    if (value !== undefined) throw new UsageError(`--${name} takes no value`);
    flags[name] = true;
    return;
  }
  value ??= words.shift();
  if (value === undefined) throw new UsageError(`--${name} needs a value: --${name} ${spec.value}`);
  if (spec.choices !== undefined && !spec.choices.includes(value)) {
    const near = nearest(value, spec.choices);
    throw new UsageError(
      `--${name} must be one of ${spec.choices.join(', ')} (got "${value.slice(0, 60)}"${near === undefined ? '' : `; did you mean ${near}?`})`,
    );
  }
  if (spec.many === true) flags[name] = [...((flags[name] as string[] | undefined) ?? []), value];
  else flags[name] = spec.type === undefined ? value : number(name, value, spec.type);
}

function number(name: string, text: string, type: 'number' | 'whole'): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0 || (type === 'whole' && !Number.isInteger(value)))
    throw new UsageError(
      `--${name} must be a ${type === 'whole' ? 'whole number' : 'number'} of at least 0 (got "${text.slice(0, 60)}")`,
    );
  return value;
}

function unknownFlag(word: string, known: Readonly<Record<string, FlagSpec>>, path: readonly string[]): UsageError {
  const name = word.replace(/^-+/, '').replace(/=.*$/, '');
  const near = word.startsWith('--') ? nearest(name, Object.keys(known)) : undefined;
  const help = ['yard', ...path, '--help'].join(' ');
  return new UsageError(
    `unknown flag "${word.slice(0, 60)}"${near === undefined ? `; see: ${help}` : `, did you mean --${near}?`}`,
  );
}

function checkArgs(path: readonly string[], command: CommandSpec, args: readonly string[]): void {
  const specs = command.args ?? [];
  const missing = specs.slice(args.length).find((spec) => spec.optional !== true);
  if (missing !== undefined)
    throw new UsageError(`${usageOf(path, command)}: ${missing.name} is missing (${missing.help})`);
  if (args.length > specs.length && specs.at(-1)?.many !== true)
    throw new UsageError(`"${args[specs.length]!.slice(0, 60)}" is too much: ${usageOf(path, command)}`);
}

/** `yard run get RUN` */
export function usageOf(path: readonly string[], command: CommandSpec): string {
  const args = (command.args ?? []).map(
    ({ name, optional, many }) => `${optional ? '[' : ''}${name}${many ? '…' : ''}${optional ? ']' : ''}`,
  );
  return ['yard', ...path, ...args].join(' ');
}
