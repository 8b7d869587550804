import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Bus, ensureTopology } from '@yardmaster/bus';
import { connectRedis, loadFunctions } from '@yardmaster/conversation';
import {
  type ApiKeyEntry,
  apiKeyEntryName,
  BUCKETS,
  BUILT_IN_EXECUTORS,
  mintApiKey,
  parseApiKey,
  redisUsers,
  ROLES,
  type TenantId,
  tenantId,
  YardError,
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

/** The login with which clustered NATS servers find each other; it is no client's. */
const ROUTES_USER = 'routes';

/**
 * `DIR/nats.conf`, `DIR/users.acl`, `DIR/secrets/{nats,redis}-<login>`; passwords that are there stay.
 * With `--secrets` they are only read, and one that is missing is an error: a cluster brings them in a Secret.
 */
function files(args: string[]): number {
  const { values } = parseArgs({
    args,
    options: {
      out: { type: 'string' },
      executors: { type: 'string' },
      listen: { type: 'string', default: '0.0.0.0:4222' },
      'store-dir': { type: 'string', default: '/data' },
      only: { type: 'string' },
      secrets: { type: 'string' },
      routes: { type: 'string' },
    },
  });
  const { out, only, routes } = values;
  if (out === undefined) {
    process.stderr.write('setup files needs --out DIR\n');
    return EXIT.usage;
  }
  if (only !== undefined && only !== 'nats' && only !== 'redis') {
    process.stderr.write('setup files: --only must be nats or redis\n');
    return EXIT.usage;
  }
  const secrets = values.secrets ?? join(out, 'secrets');
  mkdirSync(values.secrets === undefined ? secrets : out, { recursive: true });
  const missing: string[] = [];
  const password = (server: string) => (user: string) => {
    const file = join(secrets, `${server}-${user}`);
    if (!existsSync(file)) {
      if (values.secrets !== undefined) {
        missing.push(`${server}-${user}`);
        return '';
      }
      writeFileSync(file, randomBytes(24).toString('base64url'), { mode: 0o644 });
    }
    return readFileSync(file, 'utf8').trim();
  };
  const written = new Map<string, string>();
  if (only !== 'redis') {
    const passwordOf = password('nats');
    written.set(
      'nats.conf',
      natsConfig({
        listen: values.listen,
        serverName: 'yardmaster',
        storeDir: values['store-dir'],
        accounts: { table: natsTable(kindsOf(values.executors)), passwordOf },
      }),
    );
    if (routes !== undefined) written.set('routes.conf', routesConfig(routes.split(','), passwordOf(ROUTES_USER)));
  }
  if (only !== 'nats') written.set('users.acl', redisAcl(redisUsers(), password('redis')));
  if (missing.length > 0) {
    process.stderr.write(`setup files: there is no password in ${secrets} for: ${missing.join(', ')}\n`);
    return EXIT.notFound;
  }
  for (const [name, text] of written) writeFileSync(join(out, name), text);
  process.stderr.write(`wrote ${[...written.keys()].join(', ')} in ${out}\n`);
  return EXIT.ok;
}

/** What a server's `cluster` block includes: where the others are (`host:port`) and how they prove themselves. */
function routesConfig(hosts: readonly string[], password: string): string {
  const login = `${ROUTES_USER}:${encodeURIComponent(password)}`;
  const routes = hosts.map((host) => `nats-route://${login}@${host}`);
  return `routes: ${JSON.stringify(routes)}\nauthorization: ${JSON.stringify({ user: ROUTES_USER, password })}\n`;
}

/** Needs YM_NATS_URL, YM_NATS_PASSWORD_FILE (login `setup`), YM_REDIS_URL, YM_REDIS_PASSWORD_FILE (login `bootstrap`). */
async function bootstrap(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      executors: { type: 'string' },
      tenant: { type: 'string' },
      'key-file': { type: 'string' },
      'import-key': { type: 'string' },
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
    if (values['import-key'] !== undefined) {
      const { tenant, entry } = await importedKey(readFileSync(values['import-key'], 'utf8').trim());
      await bus.kv(BUCKETS.tenants).put(apiKeyEntryName(tenant, entry.id), JSON.stringify(entry));
      process.stderr.write(`key ${entry.id} of tenant ${tenant} may be used\n`);
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

/** The entry of a key that somebody else made, in the form `ym_<tenant>_<id>_<64 hex digits>`. Throws INVALID. */
async function importedKey(key: string): Promise<{ tenant: TenantId; entry: ApiKeyEntry }> {
  const parts = parseApiKey(key);
  if (parts === undefined)
    throw new YardError(
      'INVALID',
      'YM-SETUP-KEY',
      'The key of --import-key must have the form ym_<tenant>_<id of 8 to 32 letters and digits>_<64 hex digits>.',
    );
  return {
    tenant: parts.tenant,
    entry: {
      id: parts.id,
      name: 'imported at set-up',
      hash: createHash('sha256').update(parts.secret).digest('hex'),
      roles: [...ROLES],
      created_ms: Date.now(),
    },
  };
}
