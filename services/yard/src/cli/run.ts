import { EXIT } from '../exit-codes.js';
import { isGroup, type Tree } from './command.js';
import { parseCommandLine } from './parse.js';
import { UsageError } from './usage-error.js';

/** Runs a command line and returns its exit code. Nothing beyond the tree is loaded before the command is known. */
export async function run(tree: Tree, argv: readonly string[]): Promise<number> {
  // A reader that has seen enough (`| head`) is no failure.
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(EXIT.ok);
      throw error;
    });
  try {
    const parsed = parseCommandLine(tree, argv);
    const { path, command, flags } = parsed;
    if (command === undefined || flags['help'] === true) {
      const help = await import('./help.js');
      const noun = path[0] === undefined ? undefined : tree[path[0]];
      const text =
        command !== undefined
          ? help.commandHelp(path, command)
          : noun !== undefined && isGroup(noun)
            ? help.groupHelp(path[0]!, noun)
            : help.topHelp(tree);
      // Help that was asked for is the result; help in place of a missing verb is a hint.
      const asked = flags['help'] === true || path.length === 0;
      (asked ? process.stdout : process.stderr).write(`${text}\n`);
      return asked ? EXIT.ok : EXIT.usage;
    }
    const { Invocation } = await import('./invocation.js');
    const invocation = new Invocation(parsed);
    try {
      if (command.destroys !== undefined) {
        const what = command.destroys.replace('$1', parsed.args[0] ?? '');
        if (!(await invocation.confirm(what))) {
          process.stderr.write('nothing was changed\n');
          return EXIT.ok;
        }
      }
      const handler = await command.load();
      return (await handler(invocation)) ?? EXIT.ok;
    } catch (error) {
      const { reportFailure } = await import('./failure.js');
      return reportFailure(error, { source: invocation.source, verbose: invocation.on('verbose') });
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    process.stderr.write(`yard: ${[error.message, ...error.more].join('\n  ')}\n`);
    return EXIT.usage;
  }
}
