import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS, type GroupSpec, isGroup, type Tree } from './command.js';
import { usageOf } from './parse.js';

const column = (rows: readonly (readonly [string, string])[], indent = '  ') => {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `${indent}${left.padEnd(width)}  ${right}`.trimEnd());
};

const visible = <T extends { hidden?: boolean }>(entries: Readonly<Record<string, T>>) =>
  Object.entries(entries).filter(([, entry]) => entry.hidden !== true);

/** What `yard` alone says: examples first, at most 30 lines. */
export function topHelp(tree: Tree): string {
  // The last line says what `help` does; one line less leaves all of it on a screen.
  const groups = visible(tree)
    .filter(([name]) => name !== 'help')
    .map(([name, entry]) => [name, isGroup(entry) ? Object.keys(entry.verbs).join(' ') : entry.summary] as const);
  return [
    'yard: run AI agents on Yardmaster, and look at what they did.',
    '',
    ...column([
      ['yard dev up --detach', 'bring the local stack up (npm start does the same, with a sample task)'],
      ['yard ask "fix the failing test"', 'start a run, follow it, print the answer'],
      ['yard run list --state failed', 'what went wrong lately'],
      ['yard run watch 7c41e9', 'follow a run by a piece of its id'],
      ['yard doctor', 'is everything all right here?'],
    ]),
    '',
    ...column(groups),
    '',
    'yard NOUN --help, yard NOUN VERB --help; flags of every command: yard help flags; exit codes: yard help exit-codes',
  ].join('\n');
}

/** The verbs of a noun. */
export function groupHelp(noun: string, group: GroupSpec): string {
  return [
    `yard ${noun}: ${group.summary}`,
    '',
    ...column(
      visible(group.verbs).map(([verb, command]) => [usageOf([noun, verb], command), command.summary] as const),
    ),
    '',
    `yard ${noun} VERB --help`,
  ].join('\n');
}

function flagRows(flags: Readonly<Record<string, FlagSpec>>): (readonly [string, string])[] {
  return Object.entries(flags).map(([name, spec]) => [
    `${spec.short === undefined ? '    ' : `-${spec.short}, `}--${name}${spec.value === undefined ? '' : ` ${spec.value}`}`,
    `${spec.help}${spec.choices === undefined || spec.help.includes(spec.choices[0]!) ? '' : ` (${spec.choices.join(', ')})`}${spec.many ? '; may be repeated' : ''}`,
  ]);
}

/** All about one command. */
export function commandHelp(path: readonly string[], command: CommandSpec): string {
  const own = Object.entries(command.flags ?? {});
  return [
    `${usageOf(path, command)}${own.length > 0 ? ' [flags]' : ''}`,
    '',
    command.summary,
    ...(command.args === undefined ? [] : ['', ...column(command.args.map(({ name, help }) => [name, help] as const))]),
    ...(own.length === 0 ? [] : ['', ...column(flagRows(command.flags!))]),
    ...(command.notes === undefined ? [] : ['', command.notes]),
    ...(command.examples === undefined ? [] : ['', 'Examples:', ...command.examples.map((line) => `  ${line}`)]),
    '',
    'Flags of every command: yard help flags',
  ].join('\n');
}

export const flagHelp = (): string => ['Flags of every command:', '', ...column(flagRows(GLOBAL_FLAGS))].join('\n');

export const exitCodeHelp = (): string =>
  [
    'Exit codes:',
    '',
    ...column([
      ['0', 'done'],
      ['1', 'a fault of yard or the server'],
      ['2', 'the command line or the request is wrong'],
      ['3', 'no such thing'],
      ['4', 'not allowed, or no valid key'],
      ['5', 'conflict: someone was faster, or it is over'],
      ['6', 'a quota or rate limit'],
      ['7', 'the API, a server or a program that is needed cannot be reached'],
      ['8', 'waited too long; what was waited for goes on'],
      ['10', 'the run failed'],
      ['11', 'the run was cancelled'],
      ['12', 'the run ended at a limit'],
      ['13', 'the run waits for an approval'],
      ['130', 'interrupted'],
    ]),
  ].join('\n');
