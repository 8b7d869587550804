import { MOST_COMMAND_CHARS } from '@yardmaster/contracts';
import { Refuse, Walker } from './walker.js';
import { parseShell, SyntaxProblem } from './syntax.js';

/** Why a command is refused before anything runs. */
export interface Interception {
  /** Stable name of the rule. */
  rule: string;
  /** What was seen and what to do instead. */
  reason: string;
}

/** Where the command would run, for judging its paths. */
export interface InterceptContext {
  /** The workspace inside the sandbox. */
  workspace: string;
  /** The same on the machine, which a model may have seen in a path. */
  hostWorkspace?: string;
  /** The working directory inside the sandbox. */
  cwd: string;
  home: string;
  /** Variables that the command starts with. */
  env?: Readonly<Record<string, string>>;
}

/** Longest text that is analysed, here-documents aside. */
export const MOST_ANALYSED_CHARS = 64 * 1024;

/**
 * Stage 2: refuses a command that would destroy, escape or hide what it does. It is a guard rail that saves a model from
 * its mistakes and says what to do instead; what it lets through is contained all the same. Null = let it run.
 */
export function intercept(command: string, context: InterceptContext): Interception | null {
  if (command.trim() === '') return { rule: 'empty', reason: 'The command is empty: say what to run.' };
  if (command.includes('\0'))
    return {
      rule: 'nul-byte',
      reason: 'The command contains a NUL byte, which is invalid: what would run is not what is written.',
    };
  const tooLong = (limit: number): Interception => ({
    rule: 'too-long',
    reason:
      limit === MOST_COMMAND_CHARS
        ? `The command is too long (${command.length} characters, limit ${limit}): write the content to a file with the file tools first.`
        : `The command is too long outside its here-documents (${command.length} characters with them, limit ${limit} without): write a script file and run that.`,
  });
  if (command.length > MOST_COMMAND_CHARS) return tooLong(MOST_COMMAND_CHARS);
  // Checked before parsing by a cheap look, and after it by what really were here-documents.
  if (command.length > MOST_ANALYSED_CHARS && withoutDocuments(command) > MOST_ANALYSED_CHARS)
    return tooLong(MOST_ANALYSED_CHARS);
  try {
    const { tree, documentChars } = parseShell(command);
    if (command.length - documentChars > MOST_ANALYSED_CHARS) return tooLong(MOST_ANALYSED_CHARS);
    new Walker(context).judge(tree);
    return null;
  } catch (error) {
    if (error instanceof Refuse) return { rule: error.rule, reason: error.message };
    if (error instanceof SyntaxProblem)
      return {
        rule: 'syntax',
        reason: `The command could not be parsed (syntax error: ${error.message}). Check quotes and brackets; it was not run.`,
      };
    if (error instanceof RangeError)
      return {
        rule: 'too-complex',
        reason: 'The command is nested too deeply to be analysed: split it, or write a script file.',
      };
    throw error;
  }
}

/** Characters outside anything that looks like a here-document. */
function withoutDocuments(command: string): number {
  const lines = command.split('\n');
  let count = 0;
  const waiting: string[] = [];
  for (const line of lines) {
    if (waiting.length > 0) {
      if (line.replace(/^\t+/, '') === waiting[0]) waiting.shift();
      continue;
    }
    count += line.length + 1;
    if (count > MOST_ANALYSED_CHARS) break;
    for (const match of line.slice(0, 4096).matchAll(/<<-?\s*(?:'([^']+)'|"([^"]+)"|\\?([\w.-]+))/g))
      waiting.push(match[1] ?? match[2] ?? match[3] ?? '');
  }
  return count;
}
