import { describe, expect, it } from 'vitest';
import { TREE } from '../tree.js';
import { isGroup } from './command.js';
import { commandHelp, groupHelp, topHelp } from './help.js';
import { editDistance, nearest } from './nearest.js';
import { parseCommandLine } from './parse.js';
import { UsageError } from './usage-error.js';

const parse = (line: string) =>
  parseCommandLine(
    TREE,
    line.split(' ').filter((word) => word !== ''),
  );
const message = (line: string) => {
  try {
    parse(line);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
  return 'accepted';
};

describe('reading a command line', () => {
  it.each([
    ['run get 7c41e9 -o json', ['run', 'get'], ['7c41e9'], { output: 'json' }],
    ['-o json run get 7c41e9', ['run', 'get'], ['7c41e9'], { output: 'json' }],
    [
      'run list --state=failed --limit 5 -qv',
      ['run', 'list'],
      [],
      { state: 'failed', limit: 5, quiet: true, verbose: true },
    ],
    ['run list -ojson', ['run', 'list'], [], { output: 'json' }],
    ['ask do -- --this', ['ask'], ['do', '--this'], {}],
    ['ask -', ['ask'], ['-'], {}],
    ['ask x --tool a --tool b', ['ask'], ['x'], { tool: ['a', 'b'] }],
    ['run', ['run'], [], {}],
    ['', [], [], {}],
    ['run get --help', ['run', 'get'], [], { help: true }],
  ])('%s', (line, path, args, flags) => {
    expect(parse(line)).toMatchObject({ path, args, flags });
  });

  it.each([
    ['run strat', 'unknown command "run strat", did you mean `yard run start`?'],
    ['rnu list', 'unknown command "rnu", did you mean `yard run`?'],
    ['cancel', 'unknown command "cancel", did you mean `yard run cancel`?'],
    ['frobnicate', 'unknown command "frobnicate"'],
    ['toString', 'unknown command "toString"'],
    ['run constructor', 'unknown command "run constructor"'],
    ['run list --stat x', 'unknown flag "--stat", did you mean --state?'],
    ['run list -x', 'unknown flag "-x"; see: yard run list --help'],
    ['run list --__proto__ x', 'unknown flag "--__proto__"; see: yard run list --help'],
    ['run list --limit', '--limit needs a value: --limit N'],
    ['run list --limit 1.5', '--limit must be a whole number of at least 0 (got "1.5")'],
    ['run list --all=yes', '--all takes no value'],
    [
      'run list --state faild',
      '--state must be one of queued, running, waiting_approval, cancelling, completed, failed, cancelled, incomplete (got "faild"; did you mean failed?)',
    ],
    ['run get', 'yard run get RUN: RUN is missing (id of a run, or any six or more characters of it)'],
    ['run get a b', '"b" is too much: yard run get RUN'],
  ])('%s: %s', (line, expected) => {
    expect(message(line)).toBe(expected);
  });
});

describe('help', () => {
  it('of yard alone fits on a screen and begins with examples', () => {
    const lines = topHelp(TREE).split('\n');
    expect(lines.length).toBeLessThanOrEqual(30);
    expect(lines.slice(2, 7).every((line) => line.startsWith('  yard '))).toBe(true);
  });

  it('there is some for every command', () => {
    for (const [noun, entry] of Object.entries(TREE)) {
      if (isGroup(entry)) {
        expect(groupHelp(noun, entry)).toContain(entry.summary);
        for (const [verb, command] of Object.entries(entry.verbs))
          expect(commandHelp([noun, verb], command)).toContain(`yard ${noun} ${verb}`);
      } else expect(commandHelp([noun], entry)).toContain(`yard ${noun}`);
    }
  });

  it('every command can be loaded', async () => {
    const commands = Object.values(TREE).flatMap((entry) => (isGroup(entry) ? Object.values(entry.verbs) : [entry]));
    for (const command of commands) expect(await command.load()).toBeTypeOf('function');
  });
});

describe('the nearest name', () => {
  it('counts a swap of neighbours as one step', () => {
    expect(editDistance('strat', 'start')).toBe(1);
    expect(editDistance('', 'abc')).toBe(3);
    expect(editDistance('kitten', 'sitting')).toBe(3);
  });
  it('is not far-fetched', () => {
    expect(nearest('xyz', ['run', 'ask'])).toBeUndefined();
    expect(nearest('conv', ['context', 'conversation'])).toBe('conversation');
  });
});
