import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { programs } from './config.js';
import { assertDataReadable } from './nats-data.js';
import { newPassword } from './credentials.js';
import { natsConfig, type NatsTable } from './nats-config.js';
import { Server, type ServerOptions, startServer } from './server.js';

export interface NatsOptions extends ServerOptions {
  /** Who may log in. Without it the server is open: for tests of what is not about permissions. */
  accounts?: NatsTable;
  /** Passwords by user; what is missing gets a random one. */
  passwords?: Readonly<Record<string, string>>;
}

export interface Login {
  user: string;
  pass: string;
}

/** A running nats-server with JetStream. */
export class NatsServer extends Server {
  readonly url = `nats://127.0.0.1:${this.port}`;
  #configure: (port: number, dir: string, table?: NatsTable) => string;
  #passwordOf: (user: string) => string;

  constructor(
    started: ConstructorParameters<typeof Server>[0],
    configure: (port: number, dir: string, table?: NatsTable) => string,
    passwordOf: (user: string) => string,
  ) {
    super(started);
    this.#configure = configure;
    this.#passwordOf = passwordOf;
  }

  /** The credentials of a user of the table, in the client's own words. */
  login(user: string): Login {
    return { user, pass: this.#passwordOf(user) };
  }

  /** The address with the credentials of a user, for `YM_NATS_URL`. */
  urlFor(user: string): string {
    return `nats://${encodeURIComponent(user)}:${this.#passwordOf(user)}@127.0.0.1:${this.port}`;
  }

  /** Changes who may log in while everybody stays connected. Throws with the server's words when it refuses the table. */
  async reload(table: NatsTable): Promise<void> {
    this.#configure(this.port, this.dir, table);
    // Twice: after a reload that follows another one, requests from an account that came with it get no answer
    // (seen with 2.9.10) until the server has read the same configuration once more.
    await this.#readAgain();
    await this.#readAgain();
  }

  async #readAgain(): Promise<void> {
    const before = readFileSync(this.log).length;
    this.signal('SIGHUP');
    for (let waited = 0; waited < 10_000; waited += 20) {
      const said = readFileSync(this.log).subarray(before).toString();
      if (/Reloaded server configuration/.test(said)) return;
      const refused = /Failed to reload server configuration: (.*)/.exec(said);
      if (refused !== null) throw new Error(`nats-server refused its new configuration: ${refused[1]}`);
      await sleep(20);
    }
    throw new Error(`nats-server did not reload its configuration in 10 s (log: ${this.log})`);
  }
}

/** Starts nats-server with JetStream on a free loopback port; ends with this process. */
export async function startNats(options: NatsOptions = {}): Promise<NatsServer> {
  const passwords = new Map(Object.entries(options.passwords ?? {}));
  const passwordOf = (user: string) => {
    if (!passwords.has(user)) passwords.set(user, newPassword());
    return passwords.get(user)!;
  };
  // The name proves that what answers is ours and not another server that took the port in between.
  const serverName = `yardmaster-${newPassword()}`;
  let current = options.accounts;
  const configure = (port: number, dir: string, table = current): string => {
    current = table;
    const file = join(dir, 'nats.conf');
    const config = natsConfig({
      listen: `127.0.0.1:${port}`,
      serverName,
      storeDir: join(dir, 'jetstream'),
      ...(table !== undefined && { accounts: { table, passwordOf } }),
    });
    writeFileSync(file, config, { mode: 0o600 });
    return file;
  };
  if (options.dir !== undefined) assertDataReadable(options.dir, programs().nats);
  const started = await startServer(
    {
      name: 'nats',
      prepare: (port, dir) => [programs().nats, '-c', configure(port, dir)],
      accept: (answer) => answer.includes(`"server_name":"${serverName}"`),
    },
    options,
  );
  return new NatsServer(started, configure, passwordOf);
}
