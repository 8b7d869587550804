import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const versionIn = (text: string) => /(\d+)\.(\d+)\.\d+/.exec(text);

/**
 * Notes in `dir` which nats-server wrote the data there. Throws when that was a newer one than `program`: the older one
 * would start, misread what it does not know, and take messages that nobody ever gets.
 */
export function assertDataReadable(dir: string, program: string): void {
  const found = versionIn(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout ?? '');
  // A program that cannot be run is reported by its start.
  if (found === null) return;
  const file = join(dir, 'nats-version');
  const noted = existsSync(file) ? versionIn(readFileSync(file, 'utf8')) : null;
  const order = (version: RegExpExecArray) => Number(version[1]) * 1000 + Number(version[2]);
  if (noted !== null && order(noted) > order(found))
    throw new Error(
      `the data in ${dir} are those of nats-server ${noted[0]}, and ${program} is ${found[0]}, which cannot read them: ` +
        'use the newer one (YM_NATS_SERVER names it), or remove the data (yard dev reset)',
    );
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(file, `${found[0]}\n`, { mode: 0o600 });
}
