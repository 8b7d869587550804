import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BUILT_IN_EXECUTORS } from '@yardmaster/contracts';
import { type NatsOptions, type NatsServer, PortTaken, startNats } from '@yardmaster/local-stack';

/** Is this the password file of an executor that is not Yardmaster's own? */
export function isOwnExecutors(file: string): boolean {
  const kind = /^nats-executor-(.+)$/.exec(file)?.[1];
  return kind !== undefined && !(BUILT_IN_EXECUTORS as readonly string[]).includes(kind);
}

/** Passwords of executors that others run, from the time before, by user: those that still run can log in again. */
export function keptPasswords(state: string): Record<string, string> {
  const folder = join(state, 'secrets');
  return Object.fromEntries(
    readdirSync(folder)
      .filter(isOwnExecutors)
      .map((name): [string, string] => [name.slice('nats-'.length), readFileSync(join(folder, name), 'utf8').trim()])
      .filter(([, password]) => password !== ''),
  );
}

/** Where the port of nats-server is kept, so that executors that others run find it again. */
const NATS_PORT = 'nats-port';

/** nats-server on the port of the time before where that is free, else on another one, which is said. */
export async function startNatsAsBefore(
  state: string,
  say: (words: string) => void,
  options: NatsOptions,
): Promise<NatsServer> {
  const file = join(state, NATS_PORT);
  const before = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0;
  const usable = Number.isInteger(before) && before > 0 && before < 65_536;
  let nats = usable
    ? await startNats({ ...options, port: before }).catch((error: unknown) => {
        if (error instanceof PortTaken) return undefined;
        throw error;
      })
    : undefined;
  if (nats === undefined) {
    nats = await startNats(options);
    if (usable)
      say(
        `${before} is in use by another program, so nats-server takes ${nats.port}: executors of your own need YM_NATS_URL=${nats.url}`,
      );
  }
  writeFileSync(file, `${nats.port}\n`, { mode: 0o600 });
  return nats;
}
