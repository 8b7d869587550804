import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

/** How a test starts one of our programs as a user without privileges. */
export interface OrdinaryUser {
  uid: number;
  /** What to put in front of the program's arguments; it ends in a Node. */
  command: string[];
  /** The program's file as that user sees it. */
  entry: string;
}

const UID = 12_345;
const DROP = ['setpriv', '--reuid', String(UID), '--regid', String(UID), '--clear-groups'];
const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
/** Where a user who may not enter the checkout sees it: in a mount namespace of its own, so nothing is left of it. */
const SEEN = '/mnt';
const SHOW = `mount -t tmpfs none ${SEEN} && mkdir ${SEEN}/repo && : > ${SEEN}/node &&
mount --bind "$1" ${SEEN}/repo && mount --bind "$2" ${SEEN}/node && shift 2 && exec "$@"`;

/**
 * A user without privileges to start `entry` (a file of this checkout) as: this one, or for root another one. Answers
 * why there is none where root can give nothing up, or nobody else may read the checkout.
 */
export function ordinaryUser(entry: string): OrdinaryUser | string {
  if (process.getuid?.() !== 0) return { uid: process.getuid?.() ?? 0, command: [process.execPath], entry };
  const open: OrdinaryUser = { uid: UID, command: [...DROP, process.execPath], entry };
  const shown: OrdinaryUser = {
    uid: UID,
    command: [
      ...['unshare', '--mount', '--propagation', 'private', '/bin/sh', '-c', SHOW, 'sh', ROOT, process.execPath],
      ...DROP,
      join(SEEN, 'node'),
    ],
    entry: join(SEEN, 'repo', relative(ROOT, entry)),
  };
  let why = '';
  for (const user of [open, shown]) {
    const [program, ...args] = user.command;
    const look = `const fs = require('node:fs'); fs.accessSync(${JSON.stringify(user.entry)}); fs.accessSync(${JSON.stringify(tmpdir())}, fs.constants.W_OK)`;
    try {
      execFileSync(program!, [...args, '-e', look], { stdio: ['ignore', 'ignore', 'pipe'] });
      return user;
    } catch (error) {
      const { stderr, message } = error as { stderr?: Buffer; message: string };
      why = (
        stderr
          ?.toString()
          .split('\n')
          .find((line) => /error|denied|permitted/i.test(line)) ?? message
      ).trim();
    }
  }
  return `root cannot start it as another user here (${why})`;
}
