import { YardError } from './yard-error.js';

declare const brand: unique symbol;
type Branded<T extends string> = string & { readonly [brand]: T };

/** `[a-z0-9][a-z0-9-]{0,39}`: a NATS subject token, a Redis hash-tag part and a Kubernetes name alike. */
export type TenantId = Branded<'tenant'>;

const TENANT = /^[a-z0-9][a-z0-9-]{0,39}$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TOKEN = /^[A-Za-z0-9_-]{1,128}$/;

/** The tenant id in `text`. Throws INVALID when it is none. */
export function tenantId(text: string): TenantId {
  if (!TENANT.test(text))
    throw new YardError(
      'INVALID',
      'YM-TENANT-ID',
      `"${text.slice(0, 60)}" is no tenant id: it must match ${TENANT.source}.`,
    );
  return text as TenantId;
}

/** Is this a run or conversation id that the server made (UUIDv7)? */
export function isServerId(text: string): boolean {
  return UUID.test(text);
}

/** `text` as one token of a subject. Throws INVALID when it could be read as more than one, or as a wildcard. */
export function subjectToken(text: string): string {
  if (!TOKEN.test(text))
    throw new YardError(
      'INVALID',
      'YM-SUBJECT-TOKEN',
      `"${text.slice(0, 60)}" cannot be part of a subject: letters, digits, - and _ only.`,
    );
  return text;
}

let lastMs = 0;
let counter = 0;

/** A new UUIDv7; ids made in one process sort in the order of their making, within one millisecond too. */
export function newId(
  now = Date.now(),
  random: (bytes: Uint8Array<ArrayBuffer>) => unknown = (bytes) => crypto.getRandomValues(bytes),
): string {
  const bytes = new Uint8Array(16);
  random(bytes);
  if (now > lastMs) {
    lastMs = now;
    counter = ((bytes[6]! & 0x07) << 8) | bytes[7]!;
  } else if (++counter > 0xfff) {
    counter = 0;
    lastMs++;
  }
  const ms = lastMs;
  for (let i = 0; i < 6; i++) bytes[i] = Math.floor(ms / 2 ** (8 * (5 - i))) & 0xff;
  bytes[6] = 0x70 | (counter >> 8);
  bytes[7] = counter & 0xff;
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
