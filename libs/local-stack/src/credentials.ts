import { randomBytes } from 'node:crypto';

/** A password of 192 random bits, in letters that need no quoting in any configuration file or URL. */
export function newPassword(): string {
  return randomBytes(24).toString('base64url');
}
