import { type ErrorClass, YardError } from '@yardmaster/contracts';
import { NothingFound } from '../connection/fragments.js';
import { OnlyShown } from '../connection/session.js';
import { NoAddress } from '../connection/settings.js';
import { EXIT } from '../exit-codes.js';
import { StackError } from '../stack/stack-error.js';
import { printable } from '../terminal.js';
import { Interrupted, StillRunning } from './interruptions.js';
import { UsageError } from './usage-error.js';

const EXIT_OF_CLASS: Readonly<Record<ErrorClass, number>> = {
  INVALID: EXIT.usage,
  DENIED: EXIT.denied,
  NOT_FOUND: EXIT.notFound,
  CONFLICT: EXIT.conflict,
  EXHAUSTED: EXIT.quota,
  TIMEOUT: EXIT.waitedTooLong,
  UNAVAILABLE: EXIT.unreachable,
  INTERNAL: EXIT.bug,
};

/** The command that shows what there is, for what was not found. */
const LISTED_BY: Readonly<Record<string, string>> = {
  'YM-RUN-UNKNOWN': 'yard run list',
  'YM-CONVERSATION-UNKNOWN': 'yard conversation list',
  'YM-TOOL-UNKNOWN': 'yard tool list',
  'YM-MODEL-UNKNOWN': 'yard model list',
  'YM-KEY-UNKNOWN': 'yard key list',
  'YM-APPROVAL-UNKNOWN': 'yard approval list',
};

/** The exit code for an error of the API. A reused idempotency key is a conflict, whatever its HTTP status. */
export const exitCodeOfError = (error: YardError): number =>
  error.code === 'YM-IDEMPOTENCY-MISMATCH' ? EXIT.conflict : EXIT_OF_CLASS[error.class];

/** Says on stderr what went wrong and what to do; returns the exit code. */
export function reportFailure(
  error: unknown,
  { source, verbose }: { source: string | undefined; verbose: boolean },
): number {
  const say = (text: string) => process.stderr.write(`${printable(text)}\n`);
  if (error instanceof UsageError) {
    say(`yard: ${[error.message, ...error.more].join('\n  ')}`);
    return EXIT.usage;
  }
  if (error instanceof NothingFound) {
    say(`yard: ${error.message}`);
    return EXIT.notFound;
  }
  if (error instanceof NoAddress) {
    say(`yard: ${error.message}  [YM-UNREACHABLE]`);
    return EXIT.unreachable;
  }
  if (error instanceof StackError) {
    say(`yard: ${error.message}`);
    return error.exitCode;
  }
  if (error instanceof Interrupted || error instanceof StillRunning) {
    say(error.message);
    return error instanceof Interrupted ? EXIT.interrupted : EXIT.waitedTooLong;
  }
  if (YardError.is(error)) {
    if (error.cause instanceof OnlyShown) {
      process.stdout.write(`${error.cause.words}\n`);
      return EXIT.ok;
    }
    if (error.code === 'YM-UNREACHABLE')
      say(
        `yard: ${error.message} The address comes from ${source ?? 'the settings'}; start one with: npm start  [${error.code}]`,
      );
    else say(`yard: ${error.message}  [${error.code}]`);
    for (const line of problemLines(error, verbose)) say(`  ${line}`);
    return exitCodeOfError(error);
  }
  say(`yard: ${error instanceof Error ? error.message : String(error)}`);
  if (verbose && error instanceof Error) say(error.stack ?? '');
  else say('  this is a fault of yard; -v shows where');
  return EXIT.bug;
}

/** What a problem of the API says beside its message: each fault of the request, names that exist, the trace. */
function problemLines(error: YardError, verbose: boolean): string[] {
  const details = error.details ?? {};
  const lines: string[] = [];
  for (const fault of (Array.isArray(details['errors']) ? details['errors'] : []) as Record<string, unknown>[]) {
    const text = `${String(fault['pointer'] ?? '')} ${String(fault['message'] ?? fault['rule'] ?? '')}`.trim();
    if (!error.message.includes(text)) lines.push(text);
  }
  const known = (details['known'] ?? (details['details'] as Record<string, unknown> | undefined)?.['known']) as unknown;
  if (Array.isArray(known)) lines.push(`there are: ${known.slice(0, 30).join(', ')}${known.length > 30 ? ', …' : ''}`);
  const list = LISTED_BY[error.code];
  if (list !== undefined) lines.push(`see: ${list}`);
  if (error.class !== 'NOT_FOUND' && error.code.startsWith('YM-') && error.code !== 'YM-UNREACHABLE')
    lines.push(`what it means: yard explain ${error.code}`);
  if ((verbose || error.class === 'INTERNAL') && typeof details['trace_id'] === 'string')
    lines.push(`trace ${details['trace_id']}`);
  return lines;
}
