import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { Session } from '../connection/session.js';
import { Terminal } from '../terminal.js';
import type { OutputForm } from './command.js';
import { Interrupted } from './interruptions.js';
import { Output } from './output.js';
import type { FlagValue, Parsed } from './parse.js';
import { UsageError } from './usage-error.js';

/** One call of a command: its words, its flags, where its output goes, and the API once it is asked for. */
export class Invocation {
  readonly args: readonly string[];
  /** Everything after the command's words, unread. */
  readonly rest: readonly string[];
  readonly output: Output;
  /** For progress: on stderr. */
  readonly terminal: Terminal;
  private opened: Session | undefined;

  constructor(private readonly parsed: Parsed) {
    this.args = parsed.args;
    this.rest = parsed.rest;
    this.output = new Output((this.text('output') as OutputForm | undefined) ?? 'table', this.on('quiet'));
    this.terminal = new Terminal(process.stderr, { noColour: this.on('no-color'), silent: this.on('quiet') });
  }

  text(name: string): string | undefined {
    const value = this.flag(name);
    return typeof value === 'string' ? value : undefined;
  }

  number(name: string): number | undefined {
    const value = this.flag(name);
    return typeof value === 'number' ? value : undefined;
  }

  list(name: string): string[] | undefined {
    const value = this.flag(name);
    return Array.isArray(value) ? value : undefined;
  }

  on(name: string): boolean {
    return this.flag(name) === true;
  }

  private flag(name: string): FlagValue | undefined {
    return this.parsed.flags[name];
  }

  get path(): string {
    return this.parsed.path.join(' ');
  }

  /** May questions be asked? */
  get interactive(): boolean {
    return !this.on('no-input') && process.stdin.isTTY === true && process.stderr.isTTY === true;
  }

  /** The longest wait, in milliseconds. */
  get waitMs(): number | undefined {
    const seconds = this.number('timeout');
    return seconds === undefined ? undefined : seconds * 1000;
  }

  /** The API, found by flags, environment, context or the stack of this checkout. `waits`: --timeout is not for requests. */
  async session(options: { waits?: boolean } = {}): Promise<Session> {
    if (this.opened !== undefined) return this.opened;
    const [{ Session }, { resolveSettings }] = await Promise.all([
      import('../connection/session.js'),
      import('../connection/settings.js'),
    ]);
    const settings = resolveSettings({ apiUrl: this.text('api-url'), context: this.text('context') });
    this.opened = new Session(settings, {
      curl: this.on('curl'),
      dryRun: this.on('dry-run'),
      requestTimeoutMs: options.waits ? undefined : this.waitMs,
      onRequest: this.on('verbose') ? (line) => process.stderr.write(`${line}\n`) : undefined,
    });
    const tenant = this.text('tenant');
    if (tenant !== undefined && tenant !== this.opened.tenant)
      throw new UsageError(
        `the key (of ${settings.source}) is of tenant ${this.opened.tenant}, not ${tenant.slice(0, 60)}: choose another with --context or YM_API_KEY`,
      );
    return this.opened;
  }

  /** Where the address of the API came from, once it is known. */
  get source(): string | undefined {
    return this.opened?.settings.source;
  }

  /** Asks on the terminal; `undefined` when nothing may be asked. */
  async ask(question: string): Promise<string | undefined> {
    if (!this.interactive) return undefined;
    const lines = createInterface({ input: process.stdin, output: process.stderr });
    const stop = new AbortController();
    // On a terminal that is being read, Ctrl-C is a key and no signal.
    lines.once('SIGINT', () => stop.abort());
    try {
      return (await lines.question(question, { signal: stop.signal })).trim();
    } catch (error) {
      throw stop.signal.aborted ? new Interrupted('\ninterrupted, nothing was decided') : error;
    } finally {
      lines.close();
    }
  }

  /** Goes on only with --yes or a yes on the terminal; with --dry-run it is asked nothing, as nothing will happen. */
  async confirm(what: string): Promise<boolean> {
    if (this.on('yes') || this.on('dry-run') || this.on('curl')) return true;
    if (!this.interactive)
      throw new UsageError(
        `\`yard ${this.path}\` ${what}: without a terminal it needs --yes (or --dry-run to see what would go)`,
      );
    return /^y(es)?$/i.test((await this.ask(`${what}. Go on? [y/N] `)) ?? '');
  }
}

/** All of stdin as text. */
export async function readStdin(): Promise<string> {
  const chunks: Buffer[] = [];
  process.stdin.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(process.stdin, 'end');
  return Buffer.concat(chunks).toString('utf8');
}
