import type { ApiKey } from '@yardmaster/client';
import type { Invocation } from '../cli/invocation.js';
import { fields } from '../cli/output.js';
import { ago } from '../cli/table.js';
import { UsageError } from '../cli/usage-error.js';
import { findByFragment } from '../connection/fragments.js';
import { durationMs } from './duration.js';

/** `yard key create NAME`: the key alone on stdout, so that it can be piped into a secret store. */
export async function create(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const roles = invocation.list('role') as ApiKey['roles'] | undefined;
  const age = invocation.text('expires-in');
  const ms = age === undefined ? undefined : durationMs(age);
  if (age !== undefined && ms === undefined)
    throw new UsageError(`--expires-in must be such as 12h or 90d (got "${age.slice(0, 60)}")`);
  const made = await session.api.keys.create(session.tenant, {
    name: invocation.args[0]!,
    ...(roles === undefined ? {} : { roles }),
    ...(ms === undefined ? {} : { expires_in_s: Math.ceil(ms / 1000) }),
  });
  if (!invocation.output.structured && invocation.output.form !== 'name')
    invocation.output.note(
      fields([
        ['id', made.id],
        ['roles', made.roles.join(', ')],
        ['expires', made.expires_at ?? 'never'],
        ['key', 'on stdout, this once:'],
      ]),
    );
  await invocation.output.object(made, () => made.key);
}

/** `yard key list` */
export async function list(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const items = await session.api.keys.list(session.tenant);
  await invocation.output.page(
    { items, next_cursor: null } as { items: ApiKey[] },
    [
      { name: 'id', of: (key) => key.id },
      { name: 'name', of: (key) => key.name, max: 40 },
      { name: 'roles', of: (key) => key.roles.join(', ') },
      { name: 'created', of: (key) => ago(key.created_at) },
      { name: 'expires', of: (key) => key.expires_at ?? 'never' },
    ],
    'the tenant has no keys',
  );
}

/** `yard key revoke KEY` */
export async function revoke(invocation: Invocation): Promise<void> {
  const session = await invocation.session();
  const items = await session.lookup.keys.list(session.tenant);
  const given = invocation.args[0]!;
  const key =
    items.find((item) => item.id === given) ??
    (await findByFragment(given, { what: 'key', listCommand: 'yard key list' }, items, (item) => item.name));
  await session.api.keys.revoke(session.tenant, key.id);
  invocation.output.note(`revoked ${key.id} (${key.name})`);
}
