import { BUCKETS, MCP_KIND, mayEmbed, type ServiceName, STREAMS, toolStream } from './catalogue.js';
import { subjectToken } from './ids.js';

/**
 * Who may say what: the one table from which the NATS accounts and the Redis ACL are generated.
 * Inside one NATS account subject permissions do not hold against a hostile login, because reply subjects are not
 * checked: so every executor lives in an account of its own, without JetStream, and reaches only what is exported to it.
 */
export interface NatsUser {
  user: string;
  publish: string[];
  subscribe: string[];
}

/** Prefix of the inboxes of one login; the bus answers only to these and to `_R_.` (imported services). */
export const inboxPrefix = (user: string) => `_INBOX_${user.replaceAll('-', '_')}`;

const kvRead = (bucket: string) => [
  `$JS.API.STREAM.INFO.KV_${bucket}`,
  `$JS.API.STREAM.MSG.GET.KV_${bucket}`,
  `$JS.API.DIRECT.GET.KV_${bucket}`,
  `$JS.API.DIRECT.GET.KV_${bucket}.>`,
  `$JS.API.CONSUMER.CREATE.KV_${bucket}`,
  `$JS.API.CONSUMER.CREATE.KV_${bucket}.>`,
  `$JS.API.CONSUMER.DELETE.KV_${bucket}.>`,
  `$JS.API.CONSUMER.INFO.KV_${bucket}.>`,
  `$JS.API.CONSUMER.MSG.NEXT.KV_${bucket}.>`,
  `$JS.FC.KV_${bucket}.>`,
  `$JS.ACK.KV_${bucket}.>`,
];
const kvWrite = (bucket: string) => [...kvRead(bucket), `$KV.${bucket}.>`];
/** For the service that deletes keys: it removes the marks that these leave. */
const kvSweep = (bucket: string) => `$JS.API.STREAM.MSG.DELETE.KV_${bucket}`;
const readStream = (stream: string) => [
  `$JS.API.STREAM.INFO.${stream}`,
  `$JS.API.STREAM.MSG.GET.${stream}`,
  `$JS.API.DIRECT.GET.${stream}`,
  `$JS.API.DIRECT.GET.${stream}.>`,
  `$JS.API.CONSUMER.CREATE.${stream}`,
  `$JS.API.CONSUMER.CREATE.${stream}.>`,
  `$JS.API.CONSUMER.DELETE.${stream}.>`,
  `$JS.API.CONSUMER.INFO.${stream}.>`,
  `$JS.API.CONSUMER.MSG.NEXT.${stream}.>`,
  `$JS.FC.${stream}.>`,
];
const workOn = (stream: string) => [
  `$JS.API.STREAM.INFO.${stream}`,
  `$JS.API.CONSUMER.INFO.${stream}.*`,
  `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`,
  `$JS.ACK.${stream}.>`,
];
const janitorOf = (stream: string) => [
  `$JS.API.STREAM.INFO.${stream}`,
  `$JS.API.STREAM.MSG.GET.${stream}`,
  `$JS.API.STREAM.MSG.DELETE.${stream}`,
];
const ANY_API = ['$JS.API.INFO', '$JS.API.STREAM.NAMES'];

/** Logins of our own services, all in the account that has JetStream. `kinds`: the executor kinds declared. */
export function serviceUsers(kinds: readonly string[]): NatsUser[] {
  const toolStreams = [...new Set([...kinds, MCP_KIND])].map(toolStream);
  const user = (name: ServiceName | 'setup', publish: string[], subscribe: string[]): NatsUser => ({
    user: name,
    publish: name === 'setup' ? publish : [...ANY_API, ...publish],
    subscribe: [`${inboxPrefix(name)}.>`, ...subscribe],
  });
  // A service answers callers on their inboxes, and nobody else.
  const answers = (...callers: ServiceName[]) => callers.map((caller) => `${inboxPrefix(caller)}.>`);
  return [
    user(
      'api',
      [
        'ym.rpc.>',
        'ym.run.>',
        'ym.cmd.>',
        'ym.cancel.>',
        'ym.ctl.>',
        'ym.dlq.>',
        'ym.evt.>',
        'ym.audit.>',
        ...readStream(STREAMS.audit.name),
        ...readStream(STREAMS.events.name),
        ...readStream(STREAMS.deadLetters.name),
        ...janitorOf(STREAMS.deadLetters.name),
        ...janitorOf(STREAMS.runs.name),
        ...toolStreams.flatMap((stream) => [`$JS.API.STREAM.INFO.${stream}`, `$JS.API.CONSUMER.INFO.${stream}.*`]),
        ...kvWrite(BUCKETS.tenants),
        kvSweep(BUCKETS.tenants),
        ...[BUCKETS.tools, BUCKETS.providers, BUCKETS.fleet, BUCKETS.grants].flatMap(kvRead),
      ],
      ['ym.evt.>', 'ym.delta.>', 'ym.rpc.api.>'],
    ),
    user(
      'dispatcher',
      [
        'ym.rpc.router.>',
        'ym.rpc.registry.>',
        'ym.run.>',
        'ym.tool.>',
        'ym.res.>',
        'ym.evt.>',
        'ym.delta.>',
        'ym.cmd.>',
        'ym.cancel.>',
        'ym.ctl.>',
        'ym.dlq.>',
        'ym.audit.>',
        ...workOn(STREAMS.runs.name),
        ...janitorOf(STREAMS.runs.name),
        ...readStream(STREAMS.results.name),
        ...readStream(STREAMS.events.name),
        ...readStream(STREAMS.commands.name),
        ...readStream(STREAMS.claims.name),
        ...toolStreams.flatMap((stream) => [...janitorOf(stream), `$JS.API.CONSUMER.INFO.${stream}.*`]),
        ...kvRead(BUCKETS.tools),
        ...kvRead(BUCKETS.tenants),
        ...kvWrite(BUCKETS.grants),
        ...kvRead(BUCKETS.providers),
        ...answers('api'),
        // Executors' questions come through the server's mapping of imports, which makes such a reply of theirs.
        '_R_.>',
      ],
      ['ym.res.>', 'ym.cmd.>', 'ym.cancel.>', 'ym.rpc.dispatcher.>', '$JS.EVENT.ADVISORY.CONSUMER.>'],
    ),
    user(
      'router',
      [
        ...kvRead(BUCKETS.tools),
        ...kvRead(BUCKETS.providers),
        ...kvRead(BUCKETS.tenants),
        ...answers('api', 'dispatcher', 'registry'),
      ],
      ['ym.rpc.router.>', 'ym.ctl.>'],
    ),
    user(
      'registry',
      [
        'ym.rpc.router.embed.>',
        // It runs the calls of MCP tools itself.
        ...['ym.res.>', 'ym.claim.>', 'ym.delta.>', `ym.dlq.${toolStream(MCP_KIND)}.*`],
        ...workOn(toolStream(MCP_KIND)),
        ...readStream(STREAMS.claims.name),
        ...kvWrite(BUCKETS.tools),
        kvSweep(BUCKETS.tools),
        ...kvWrite(BUCKETS.grants),
        ...kvRead(BUCKETS.tenants),
        ...answers('api', 'dispatcher', 'router'),
      ],
      ['ym.rpc.registry.>', 'ym.cancel.>'],
    ),
    user(
      'fleet',
      [
        ...toolStreams.flatMap((stream) => [`$JS.API.STREAM.INFO.${stream}`, `$JS.API.CONSUMER.INFO.${stream}.*`]),
        `$JS.API.STREAM.INFO.${STREAMS.runs.name}`,
        `$JS.API.CONSUMER.INFO.${STREAMS.runs.name}.*`,
        ...kvWrite(BUCKETS.providers),
        ...kvWrite(BUCKETS.fleet),
        ...answers('api'),
      ],
      ['ym.rpc.fleet.>'],
    ),
    // Creates streams, consumers and buckets at installation and upgrade, and takes backups: the pieces of a stream that
    // leave the server are acknowledged, and those that come back are sent, under $JS.SNAPSHOT. No service runs with it.
    user('setup', ['$JS.API.>', '$JS.SNAPSHOT.>', '$KV.>', 'ym.>'], ['ym.>', '$JS.EVENT.>']),
  ];
}

/** What the account with JetStream exports to the account of one executor kind, and what its login may do with it. */
export interface ExecutorAccount {
  kind: string;
  account: string;
  user: string;
  /** Exported services, with the server's `response_type` where an answer is more than one message. */
  services: { subject: string; stream?: true }[];
  /** Exported streams (heard by the executor). */
  streams: string[];
  publish: string[];
  subscribe: string[];
}

export function executorAccount(kind: string): ExecutorAccount {
  const stream = toolStream(kind);
  const user = `executor-${subjectToken(kind)}`;
  const services: ExecutorAccount['services'] = [
    { subject: `$JS.API.CONSUMER.MSG.NEXT.${stream}.work`, stream: true },
    { subject: `$JS.ACK.${stream}.work.>` },
    { subject: 'ym.res.>' },
    { subject: 'ym.claim.>' },
    { subject: 'ym.delta.>' },
    // What it gives up of its own queue, and of no other.
    { subject: `ym.dlq.${stream}.*` },
    { subject: `$JS.API.DIRECT.GET.${STREAMS.claims.name}.>` },
    // The dispatcher checks that the question is of a call that this tenant has under way.
    ...(mayEmbed(kind) ? [{ subject: 'ym.rpc.dispatcher.embed.*' }] : []),
  ];
  return {
    kind,
    account: `EXEC_${stream.slice('YM_TOOL_'.length)}`,
    user,
    services,
    streams: ['ym.cancel.>'],
    publish: services.map((service) => service.subject),
    subscribe: [`${inboxPrefix(user)}.>`, 'ym.cancel.>'],
  };
}

/** One Redis ACL user; `rules` are ACL terms without the password. */
export interface RedisUser {
  user: string;
  rules: string[];
}

const HISTORY_KEYS = ['~ym:h:*', '~ym:m:*'];
const RUN_KEYS = ['~ym:r:*', '~ym:q:*', '~ym:ix:*', '~ym:t:*', '~ym:idem:*'];
// Not `client|setinfo`: Redis 7.0 refuses to start on an ACL with commands that it does not know, and clients do without.
const CONNECTION = [
  '+ping',
  '+hello',
  '+auth',
  '+select',
  '+client|setname',
  '+client|id',
  '+info',
  '+command',
  '+quit',
];
const READ = [
  '+get',
  '+mget',
  '+hget',
  '+hmget',
  '+hgetall',
  '+exists',
  '+type',
  '+ttl',
  '+pttl',
  '+xrange',
  '+xrevrange',
  '+xlen',
  '+zrange',
  '+zcard',
  '+zscore',
  '+zcount',
  '+lrange',
  '+llen',
  '+lpos',
  '+smembers',
  '+sismember',
  '+time',
];
// A function runs with its caller's rights, so what the library uses must be granted too; the key patterns still hold.
const FUNCTIONS = [
  '+fcall',
  '+fcall_ro',
  '+set',
  '+del',
  '+unlink',
  '+expire',
  '+pexpire',
  '+hset',
  '+hdel',
  '+hincrby',
  '+hincrbyfloat',
  '+hsetnx',
  '+xadd',
  '+xdel',
  '+xtrim',
  '+zadd',
  '+zrem',
  '+zremrangebylex',
  '+rpush',
  '+lpush',
  '+lpop',
  '+lrem',
  '+sadd',
  '+srem',
  '+incrby',
  '+incr',
  '+incrbyfloat',
];

/** Redis logins. Executors have none. `bootstrap` loads the function libraries and is used by no service. */
export function redisUsers(): RedisUser[] {
  return [
    {
      user: 'api',
      rules: [...HISTORY_KEYS, ...RUN_KEYS, '~ym:b:*', '~ym:rate:*', '~ym:use:*', ...CONNECTION, ...READ, ...FUNCTIONS],
    },
    {
      user: 'dispatcher',
      rules: [
        ...HISTORY_KEYS,
        ...RUN_KEYS,
        '~ym:lead:*',
        '~ym:timer:*',
        '~ym:use:*',
        ...CONNECTION,
        ...READ,
        ...FUNCTIONS,
      ],
    },
    {
      user: 'router',
      rules: [
        '%R~ym:h:*',
        '%R~ym:m:*',
        '%R~ym:b:*',
        '~ym:key:*',
        '~ym:brk:*',
        '~ym:use:*',
        '~ym:rate:*',
        ...CONNECTION,
        ...READ,
        ...FUNCTIONS,
      ],
    },
    { user: 'bootstrap', rules: [...CONNECTION, '+function', '+acl|whoami', '+bgsave', '+lastsave'] },
  ];
}
