import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** What the tests need is not here and cannot be fetched; the message is the reason that a reader gets. */
export class NotToBeHad extends Error {}

/** Where what was fetched is kept between runs. */
export const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'yardmaster', 'llama-test');

/** The python of a virtual environment in the cache. Throws NotToBeHad where there is no python with venv and pip. */
export function python(): string {
  const venv = join(cache, 'venv');
  const file = join(venv, 'bin', 'python');
  if (!existsSync(file)) {
    mkdirSync(cache, { recursive: true });
    const made = spawnSync('python3', ['-m', 'venv', venv], { encoding: 'utf8' });
    if (made.status !== 0) throw new NotToBeHad(`no python3 with venv (${lastLine(made.stderr) || 'not installed'})`);
  }
  return file;
}

/** Runs pip; the reason why it failed, or undefined. */
export function pip(args: string[]): string | undefined {
  const { status, stderr } = spawnSync(python(), ['-m', 'pip', '--disable-pip-version-check', '-q', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'inherit', 'pipe'],
    maxBuffer: 64 << 20,
  });
  return status === 0 ? undefined : `pip: ${lastLine(stderr) || `exit code ${status}`}`;
}

/** The last line that names an error, else the last one. */
function lastLine(text: string | undefined | null): string {
  const lines = (text ?? '').trim().split('\n');
  return (lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1) ?? '').trim();
}
