import { spawn } from 'node:child_process';
import { invalidPattern, ownMatcher } from './own-matcher.js';
import { excerpt, type Hit, type Matcher, type Query, type Target } from './search.js';

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
    const hits = read(stdout, targets, query);
    // 1: nothing found; 2: something could not be searched, or the pattern is wrong.
    if (code === 2 && /regex|pattern/i.test(stderr) && hits.length === 0)
      throw invalidPattern(
        stderr
          .replace(/^regex parse error:\s*/, '')
          .replaceAll(/\s+/g, ' ')
          .trim(),
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
  stdout: Buffer;
  stderr: string;
}

function run(program: string, targets: readonly Target[], { pattern, regex, wanted, signal }: Query): Promise<Ran> {
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
      bytes += chunk.length;
      if (bytes > MAX_OUTPUT_BYTES) kill();
      else stdout.push(chunk);
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
      else resolve({ code, stdout: Buffer.concat(stdout), stderr });
    });
    if (signal.aborted) kill();
  });
}

const LINE = /^\/proc\/self\/fd\/(\d+)\0(\d+):(.*)$/;
const BINARY = /^(?:Binary file )?\/proc\/self\/fd\/(\d+)\0?:? (?:binary file matches|matches)/;

function read(stdout: Buffer, targets: readonly Target[], { pattern, regex }: Query): Hit[] {
  const byTarget = targets.map((): Hit[] => []);
  const binary = new Set<number>();
  for (const raw of stdout.toString('utf8').split('\n')) {
    const found = LINE.exec(raw.replace(/\r$/, ''));
    if (found === null) {
      const told = BINARY.exec(raw);
      if (told !== null) binary.add(Number(told[1]) - FIRST_FD);
      continue;
    }
    const index = Number(found[1]) - FIRST_FD;
    const text = found[3]!;
    const at = regex ? 0 : Math.max(0, text.indexOf(pattern));
    byTarget[index]?.push({ path: targets[index]!.path, line: Number(found[2]), text: excerpt(text, at) });
  }
  // ripgrep takes several files at once; the order is ours.
  return byTarget.flatMap((hits, index) => (binary.has(index) ? [] : hits));
}
