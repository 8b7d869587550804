import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
import type { Invocation } from '../cli/invocation.js';
import { UsageError } from '../cli/usage-error.js';
import { EXIT } from '../exit-codes.js';

const kindsOf = (text: string | undefined) =>
  text === undefined ? [...BUILT_IN_EXECUTORS] : text.split(',').filter((kind) => kind !== '');

/** `DIR/nats.conf`, `DIR/users.acl`, `DIR/secrets/{nats,redis}-<login>`; passwords that are there stay. */
export async function files(invocation: Invocation): Promise<void> {
  const out = invocation.text('out');
  if (out === undefined) throw new UsageError('setup files needs --out DIR');
  const secrets = join(out, 'secrets');
  mkdirSync(secrets, { recursive: true });
  const password = (server: string) => (user: string) => {
    const file = join(secrets, `${server}-${user}`);
    if (!existsSync(file)) writeFileSync(file, randomBytes(24).toString('base64url'), { mode: 0o644 });
    return readFileSync(file, 'utf8').trim();
  };
  const table = natsTable(kindsOf(invocation.text('executors')));
  writeFileSync(
    join(out, 'nats.conf'),
    natsConfig({
      listen: invocation.text('listen') ?? '0.0.0.0:4222',
      serverName: 'yardmaster',
      storeDir: invocation.text('store-dir') ?? '/data',
      accounts: { table, passwordOf: password('nats') },
    }),
  );
  writeFileSync(join(out, 'users.acl'), redisAcl(redisUsers(), password('redis')));
  process.stderr.write(`wrote nats.conf, users.acl and secrets/ in ${out}\n`);
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
