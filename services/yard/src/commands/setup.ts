import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { connectRedis, loadFunctions } from '@yardmaster/conversation';
import {
  apiKeyEntryName,
  BUCKETS,
  BUILT_IN_EXECUTORS,
  mintApiKey,
  redisUsers,
  ROLES,
  tenantId,
} from '@yardmaster/contracts';
import { natsConfig, natsTable, redisAcl } from '@yardmaster/local-stack';
import { EXIT } from '../exit-codes.js';

/**
 * What an installation does once, and again at every upgrade: `setup files` writes the servers' configuration and a
 * password for every login, `setup bootstrap` makes streams, buckets and Redis functions.
 */
export async function setup(verb: string, args: string[]): Promise<number> {
  switch (verb) {
    case 'files':
      return files(args);
    case 'bootstrap':
      return bootstrap(args);
    default:
      process.stderr.write(`unknown command "setup ${verb}"; there are: setup files, setup bootstrap\n`);
      return EXIT.usage;
  }
}

const kindsOf = (text: string | undefined) =>
  text === undefined ? [...BUILT_IN_EXECUTORS] : text.split(',').filter((kind) => kind !== '');

/** `DIR/nats.conf`, `DIR/users.acl`, `DIR/secrets/{nats,redis}-<login>`; passwords that are there stay. */
function files(args: string[]): number {
  const { values } = parseArgs({
    args,
    options: {
      out: { type: 'string' },
      executors: { type: 'string' },
      listen: { type: 'string', default: '0.0.0.0:4222' },
      'store-dir': { type: 'string', default: '/data' },
    },
  });
  if (values.out === undefined) {
    process.stderr.write('setup files needs --out DIR\n');
    return EXIT.usage;
  }
  const secrets = join(values.out, 'secrets');
  mkdirSync(secrets, { recursive: true });
  const password = (server: string) => (user: string) => {
    const file = join(secrets, `${server}-${user}`);
    if (!existsSync(file)) writeFileSync(file, randomBytes(24).toString('base64url'), { mode: 0o644 });
    return readFileSync(file, 'utf8').trim();
  };
  const table = natsTable(kindsOf(values.executors));
  writeFileSync(
    join(values.out, 'nats.conf'),
    natsConfig({
      listen: values.listen,
      serverName: 'yardmaster',
      storeDir: values['store-dir'],
      accounts: { table, passwordOf: password('nats') },
    }),
  );
  writeFileSync(join(values.out, 'users.acl'), redisAcl(redisUsers(), password('redis')));
  process.stderr.write(`wrote nats.conf, users.acl and secrets/ in ${values.out}\n`);
  return EXIT.ok;
}

/** Needs YM_NATS_URL, YM_NATS_PASSWORD_FILE (login `setup`), YM_REDIS_URL, YM_REDIS_PASSWORD_FILE (login `bootstrap`). */
async function bootstrap(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      executors: { type: 'string' },
      tenant: { type: 'string' },
      'key-file': { type: 'string' },
      share: { type: 'string' },
      replicas: { type: 'string' },
    },
  });
  const {
    YM_NATS_URL: natsUrl,
    YM_NATS_PASSWORD_FILE: natsPassword,
    YM_REDIS_URL: redisUrl,
    YM_REDIS_PASSWORD_FILE: redisPassword,
  } = process.env;
  if (natsUrl === undefined || redisUrl === undefined) {
    process.stderr.write('setup bootstrap needs YM_NATS_URL and YM_REDIS_URL\n');
    return EXIT.usage;
  }
  const secret = (file: string | undefined) => (file === undefined ? undefined : readFileSync(file, 'utf8').trim());
  const natsSecret = secret(natsPassword);
  const bus = await Bus.connect({
    url: natsUrl,
    user: 'setup',
    ...(natsSecret === undefined ? {} : { pass: natsSecret }),
  });
  try {
    const report = await ensureTopology(bus, {
      kinds: kindsOf(values.executors),
      ...(values.share === undefined ? {} : { share: Number(values.share) }),
      ...(values.replicas === undefined ? {} : { replicas: Number(values.replicas) }),
    });
    for (const name of report.created) process.stderr.write(`created ${name}\n`);
    for (const name of report.updated) process.stderr.write(`updated ${name}\n`);
    for (const problem of report.problems) process.stderr.write(`PROBLEM ${problem}\n`);
    if (values.tenant !== undefined && values['key-file'] !== undefined && !existsSync(values['key-file'])) {
      const tenant = tenantId(values.tenant);
      const { key, entry } = await mintApiKey(tenant, { name: 'first key', roles: [...ROLES] });
      await bus.kv(BUCKETS.tenants).put(apiKeyEntryName(tenant, entry.id), JSON.stringify(entry));
      writeFileSync(values['key-file'], `${key}\n`, { mode: 0o600 });
      process.stderr.write(`wrote a key of tenant ${tenant} to ${values['key-file']}\n`);
    }
    const redisSecret = secret(redisPassword);
    const redis = connectRedis({
      url: redisUrl,
      ...(redisSecret === undefined ? {} : { username: 'bootstrap', password: redisSecret }),
    });
    try {
      await loadFunctions(redis);
      process.stderr.write('loaded the Redis functions\n');
    } finally {
      redis.disconnect();
    }
    return report.problems.length === 0 ? EXIT.ok : EXIT.conflict;
  } finally {
    await bus.close();
  }
}
