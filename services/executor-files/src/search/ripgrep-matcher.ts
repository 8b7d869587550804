import { spawn } from 'node:child_process';
import { refusal } from '../refusal.js';
import { ownMatcher } from './own-matcher.js';
import { type Matcher, named, type Query, type Target } from './search.js';

/** Standard input, output and error come first. */
const FIRST_FD = 3;
const MAX_OUTPUT_BYTES = 16_000_000;
const MAX_COLUMNS = '2000';

/**
 * Searches with ripgrep. It gets no paths but the files that we hold open, as /proc/self/fd/N: what is searched cannot
 * be exchanged by links between our look and its own.
 */
export function ripgrepMatcher(program: string): Matcher {
  return async (targets, query) => {
    if (targets.length === 0) return [];
    const ran = await run(program, targets, query).catch((error: NodeJS.ErrnoException) => {
      // It was there when the service started: an update may be on its way.
      if (error.code === 'ENOENT' || error.code === 'EACCES') return undefined;
      throw error;
    });
    if (ran === undefined) return ownMatcher(targets, query);
    const { code, stdout, stderr } = ran;
    const { pattern, regex, content, context } = query;
    const give = { stdout, firstFd: FIRST_FD, files: targets.length, pattern, regex };
    const hits = named(targets, (await content.run('collect', give, context)).hits);
    // 1: nothing found; 2: something could not be searched, or the pattern is wrong.
    if (code === 2 && /regex|pattern/i.test(stderr) && hits.length === 0)
      throw refusal(
        'invalid_input',
        `The pattern is no regular expression that can be run here (look-around and back-references are not): ${inOneLine(stderr)}. For plain text leave regex out.`,
      );
    return hits;
  };
}

/** The version of a ripgrep program, or undefined when it cannot be run. */
export async function ripgrepVersion(program: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(program, ['--version'], {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: environment(),
      timeout: 5_000,
    });
    let text = '';
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
    child.on('error', () => resolve(undefined));
    child.on('close', (code) => resolve(code === 0 ? /^ripgrep (\S+)/.exec(text)?.[1] : undefined));
  });
}

/** Nothing of ours: no login, no configuration file. */
const environment = () => ({ PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C.UTF-8' });

interface Ran {
  code: number | null;
  stdout: Uint8Array;
  stderr: string;
}

function run(
  program: string,
  targets: readonly Target[],
  { pattern, regex, wanted, context: { signal } }: Query,
): Promise<Ran> {
  const paths = targets.map((_, index) => `/proc/self/fd/${FIRST_FD + index}`);
  const options = [
    '--no-config',
    '--no-ignore',
    '--no-mmap',
    '--color=never',
    '--no-heading',
    '--with-filename',
    '--null',
  ];
  options.push('--line-number', '--crlf', '--threads=2', `--max-count=${wanted}`, `--max-columns=${MAX_COLUMNS}`);
  options.push('--max-columns-preview', '--no-messages');
  if (!regex) options.push('--fixed-strings');
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...options, '--regexp', pattern, '--', ...paths], {
      stdio: ['ignore', 'pipe', 'pipe', ...targets.map(({ handle }) => handle.fd)],
      env: environment(),
      cwd: '/',
    });
    const stdout: Buffer[] = [];
    let bytes = 0;
    let stderr = '';
    const kill = () => child.kill('SIGKILL');
    signal.addEventListener('abort', kill, { once: true });
    child.stdout!.on('data', (chunk: Buffer) => {
      if (bytes + chunk.length > MAX_OUTPUT_BYTES) return void kill();
      bytes += chunk.length;
      stdout.push(chunk);
    });
    child.stderr!.on('data', (chunk: Buffer) => {
      if (stderr.length < 4_000) stderr += chunk.toString('utf8');
    });
    child.on('error', (error) => {
      signal.removeEventListener('abort', kill);
      reject(error);
    });
    child.on('close', (code) => {
      signal.removeEventListener('abort', kill);
      if (signal.aborted) reject(signal.reason as Error);
      else resolve({ code, stdout: joined(stdout, bytes), stderr });
    });
    if (signal.aborted) kill();
  });
}

const inOneLine = (stderr: string) =>
  stderr
    .replace(/^regex parse error:\s*/, '')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .slice(0, 300);

/** Pieces with memory of their own, so that it can be moved to a thread. */
function joined(pieces: readonly Buffer[], bytes: number): Uint8Array {
  const all = new Uint8Array(bytes);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
