import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RedisUser } from '@yardmaster/contracts';
import { programs } from './config.js';
import { newPassword } from './credentials.js';
import { Server, type ServerOptions, startServer } from './server.js';

export interface RedisOptions extends ServerOptions {
  /** ACL users. Without them the server is open: for tests of what is not about permissions. */
  users?: readonly RedisUser[];
  /** Passwords by user; what is missing gets a random one. */
  passwords?: Readonly<Record<string, string>>;
  /** `everysec` (default), `always`, or `off` for no append-only file at all: then a restart finds nothing. */
  persistence?: 'everysec' | 'always' | 'off';
}

/** A running redis-server. */
export class RedisServer extends Server {
  readonly url = `redis://127.0.0.1:${this.port}`;
  #passwordOf: (user: string) => string;

  constructor(started: ConstructorParameters<typeof Server>[0], passwordOf: (user: string) => string) {
    super(started);
    this.#passwordOf = passwordOf;
  }

  /** The address with the credentials of a user, for `YM_REDIS_URL`. */
  urlFor(user: string): string {
    return `redis://${encodeURIComponent(user)}:${this.#passwordOf(user)}@127.0.0.1:${this.port}`;
  }
}

/**
 * The ACL file: hashes of the passwords only, the default user off. Off means that nobody can be it, but Redis itself
 * is: it reads its append-only file as the default user and leaves out, with a log line, every transaction that this
 * user may not run. Without these rights a restart would lose what functions and transactions have written.
 */
export function redisAcl(users: readonly RedisUser[], passwordOf: (user: string) => string): string {
  const hash = (user: string) => createHash('sha256').update(passwordOf(user)).digest('hex');
  return [
    'user default off resetpass ~* resetchannels +@all',
    ...users.map(({ user, rules }) => `user ${user} on #${hash(user)} resetchannels ${rules.join(' ')}`),
    '',
  ].join('\n');
}

/** Starts redis-server on a free loopback port; ends with this process. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const passwords = new Map(Object.entries(options.passwords ?? {}));
  const passwordOf = (user: string) => {
    if (!passwords.has(user)) passwords.set(user, newPassword());
    return passwords.get(user)!;
  };
  const first = options.users?.[0]?.user;
  const persistence = options.persistence ?? 'everysec';
  const started = await startServer(
    {
      name: 'redis',
      prepare: (port, dir) => {
        const file = join(dir, 'redis.conf');
        const lines = [
          'bind 127.0.0.1',
          `port ${port}`,
          `dir ${JSON.stringify(dir)}`,
          'save ""',
          `appendonly ${persistence === 'off' ? 'no' : 'yes'}`,
          `appendfsync ${persistence === 'always' ? 'always' : 'everysec'}`,
          // A history is never evicted to make room: writes fail instead, and the run says so.
          'maxmemory-policy noeviction',
        ];
        if (options.users !== undefined) {
          const acl = join(dir, 'users.acl');
          writeFileSync(acl, redisAcl(options.users, passwordOf), { mode: 0o600 });
          lines.push(`aclfile ${JSON.stringify(acl)}`);
        }
        writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
        return [programs().redis, file];
      },
      // A password that only our server knows, or its process id, proves that it is not another one on this port.
      say: first === undefined ? 'INFO server\r\n' : `AUTH ${first} ${passwordOf(first)}\r\n`,
      accept: (answer, pid) =>
        first === undefined ? answer.includes(`process_id:${pid}\r`) : answer.startsWith('+OK'),
    },
    options,
  );
  return new RedisServer(started, passwordOf);
}
