import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
import type { Invocation } from '../cli/invocation.js';
import { UsageError } from '../cli/usage-error.js';
import { EXIT } from '../exit-codes.js';

const kindsOf = (text: string | undefined) =>
  text === undefined ? [...BUILT_IN_EXECUTORS] : text.split(',').filter((kind) => kind !== '');

/** The login with which clustered NATS servers find each other; it is no client's. */
const ROUTES_USER = 'routes';

/**
 * `DIR/nats.conf`, `DIR/users.acl`, `DIR/secrets/{nats,redis}-<login>`; passwords that are there stay.
 * With `--secrets` they are only read, and one that is missing is an error: a cluster brings them in a Secret.
 * All of it has passwords in it, so only the caller may read it, unless `--readable-by-others` says that servers run as others.
 */
export async function files(invocation: Invocation): Promise<number> {
  const [out, only, routes] = [invocation.text('out'), invocation.text('only'), invocation.text('routes')];
  if (out === undefined) throw new UsageError('setup files needs --out DIR');
  if (only !== undefined && only !== 'nats' && only !== 'redis')
    throw new UsageError('setup files: --only must be nats or redis');
  const given = invocation.text('secrets');
  const secrets = given ?? join(out, 'secrets');
  const [folderMode, fileMode] = invocation.on('readable-by-others') ? [0o755, 0o644] : [0o700, 0o600];
  const write = (file: string, text: string) => {
    writeFileSync(file, text, { mode: fileMode });
    chmodSync(file, fileMode); // what was there keeps its mode otherwise, and the umask may take from it
  };
  // A folder that is there already is the caller's, with the mode that it has.
  for (const folder of given === undefined ? [out, secrets] : [out])
    if (mkdirSync(folder, { recursive: true, mode: folderMode }) !== undefined) chmodSync(folder, folderMode);
  if (given === undefined) chmodSync(secrets, folderMode);
  const missing: string[] = [];
  const password = (server: string) => (user: string) => {
    const file = join(secrets, `${server}-${user}`);
    if (!existsSync(file)) {
      if (given !== undefined) {
        missing.push(`${server}-${user}`);
        return '';
      }
      write(file, randomBytes(24).toString('base64url'));
    } else if (given === undefined) chmodSync(file, fileMode);
    return readFileSync(file, 'utf8').trim();
  };
  const written = new Map<string, string>();
  if (only !== 'redis') {
    const passwordOf = password('nats');
    written.set(
      'nats.conf',
      natsConfig({
        listen: invocation.text('listen') ?? '0.0.0.0:4222',
        serverName: 'yardmaster',
        storeDir: invocation.text('store-dir') ?? '/data',
        accounts: { table: natsTable(kindsOf(invocation.text('executors'))), passwordOf },
      }),
    );
    if (routes !== undefined) written.set('routes.conf', routesConfig(routes.split(','), passwordOf(ROUTES_USER)));
  }
  if (only !== 'nats') written.set('users.acl', redisAcl(redisUsers(), password('redis')));
  if (missing.length > 0) {
    process.stderr.write(`setup files: there is no password in ${secrets} for: ${missing.join(', ')}\n`);
    return EXIT.notFound;
  }
  for (const [name, text] of written) write(join(out, name), text);
  const all = [...written.keys(), ...(given === undefined ? ['secrets/'] : [])];
  process.stderr.write(`wrote ${all.join(', ')} in ${out}\n`);
  return EXIT.ok;
}

/** What a server's `cluster` block includes: where the others are (`host:port`) and how they prove themselves. */
function routesConfig(hosts: readonly string[], password: string): string {
  const login = `${ROUTES_USER}:${encodeURIComponent(password)}`;
  const routes = hosts.map((host) => `nats-route://${login}@${host}`);
  return `routes: ${JSON.stringify(routes)}\nauthorization: ${JSON.stringify({ user: ROUTES_USER, password })}\n`;
}

/** Needs YM_NATS_URL, YM_NATS_PASSWORD_FILE (login `setup`), YM_REDIS_URL, YM_REDIS_PASSWORD_FILE (login `bootstrap`). */
export async function bootstrap(invocation: Invocation): Promise<number> {
  const {
    YM_NATS_URL: natsUrl,
    YM_NATS_PASSWORD_FILE: natsPassword,
    YM_REDIS_URL: redisUrl,
    YM_REDIS_PASSWORD_FILE: redisPassword,
  } = process.env;
  if (natsUrl === undefined || redisUrl === undefined)
    throw new UsageError('setup bootstrap needs YM_NATS_URL and YM_REDIS_URL');
  const [share, replicas] = [invocation.number('share'), invocation.number('replicas')];
  const [forTenant, keyFile] = [invocation.text('tenant'), invocation.text('key-file')];
  const secret = (file: string | undefined) => (file === undefined ? undefined : readFileSync(file, 'utf8').trim());
  const natsSecret = secret(natsPassword);
  const bus = await Bus.connect({
    url: natsUrl,
    user: 'setup',
    ...(natsSecret === undefined ? {} : { pass: natsSecret }),
  });
  try {
    const report = await ensureTopology(bus, {
      kinds: kindsOf(invocation.text('executors')),
      ...(share === undefined ? {} : { share }),
      ...(replicas === undefined ? {} : { replicas }),
    });
    for (const name of report.created) process.stderr.write(`created ${name}\n`);
    for (const name of report.updated) process.stderr.write(`updated ${name}\n`);
    for (const problem of report.problems) process.stderr.write(`PROBLEM ${problem}\n`);
    if (forTenant !== undefined && keyFile !== undefined && !existsSync(keyFile)) {
      const tenant = tenantId(forTenant);
      const { key, entry } = await mintApiKey(tenant, { name: 'first key', roles: [...ROLES] });
      await bus.kv(BUCKETS.tenants).put(apiKeyEntryName(tenant, entry.id), JSON.stringify(entry));
      writeFileSync(keyFile, `${key}\n`, { mode: 0o600 });
      process.stderr.write(`wrote a key of tenant ${tenant} to ${keyFile}\n`);
    }
    const importFrom = invocation.text('import-key');
    if (importFrom !== undefined) {
      const { tenant, entry } = await importedKey(readFileSync(importFrom, 'utf8').trim());
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
