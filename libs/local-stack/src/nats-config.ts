import { type ExecutorAccount, executorAccount, type NatsUser, serviceUsers } from '@yardmaster/contracts';

/** Name of the account that has JetStream and all our own services. */
export const CORE_ACCOUNT = 'YM';

/** Who may log in: the services, and the executors, each in an account of its own. */
export interface NatsTable {
  users: readonly NatsUser[];
  executors: readonly ExecutorAccount[];
}

/** The table of an installation with these executor kinds. */
export function natsTable(kinds: readonly string[]): NatsTable {
  return { users: serviceUsers(kinds), executors: kinds.map(executorAccount) };
}

export interface NatsConfigOptions {
  listen: string;
  serverName: string;
  storeDir: string;
  /** Without it everybody may do everything: for tests of what is not about permissions. */
  accounts?: { table: NatsTable; passwordOf: (user: string) => string };
}

/** The configuration file of nats-server, generated: allow-lists only, since deny rules have been bypassed before. */
export function natsConfig(options: NatsConfigOptions): string {
  const parts: Record<string, unknown> = {
    server_name: options.serverName,
    listen: options.listen,
    jetstream: { store_dir: options.storeDir },
    // The default, written down because the bus relies on it.
    max_payload: 1_048_576,
  };
  if (options.accounts !== undefined) parts['accounts'] = accounts(options.accounts.table, options.accounts.passwordOf);
  // The configuration language is a superset of JSON.
  return `${JSON.stringify(parts, null, 2)}\n`;
}

function accounts({ users, executors }: NatsTable, passwordOf: (user: string) => string): Record<string, unknown> {
  const login = ({ user, publish, subscribe }: NatsUser) => ({
    user,
    password: passwordOf(user),
    permissions: { publish: { allow: [...new Set(publish)] }, subscribe: { allow: [...new Set(subscribe)] } },
  });
  // One export per subject, with all accounts that may import it: nobody else can, whatever they configure.
  const exported = new Map<string, Record<string, unknown> & { accounts: string[] }>();
  const share = (key: 'service' | 'stream', subject: string, account: string, more: Record<string, unknown>) => {
    const entry = exported.get(`${key} ${subject}`) ?? { [key]: subject, ...more, accounts: [] };
    entry.accounts.push(account);
    exported.set(`${key} ${subject}`, entry);
  };
  for (const executor of executors) {
    for (const { subject, stream } of executor.services)
      share('service', subject, executor.account, stream ? { response_type: 'stream' } : {});
    for (const subject of executor.streams) share('stream', subject, executor.account, {});
  }
  const from = (subject: string) => ({ account: CORE_ACCOUNT, subject });
  return {
    [CORE_ACCOUNT]: { jetstream: 'enabled', users: users.map(login), exports: [...exported.values()] },
    // No `jetstream` here: the server's acknowledgements and errors go to whatever reply subject a client names, and
    // inside an account with JetStream such a reply reaches its API.
    ...Object.fromEntries(
      executors.map((executor) => [
        executor.account,
        {
          users: [login(executor)],
          imports: [
            ...executor.services.map(({ subject }) => ({ service: from(subject) })),
            ...executor.streams.map((subject) => ({ stream: from(subject) })),
          ],
        },
      ]),
    ),
  };
}
