import { connect, PermissionViolationError } from '@nats-io/transport-node';
import { executorAccount, inboxPrefix, type NatsUser, serviceUsers, STREAMS } from '@yardmaster/contracts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { natsTable } from './nats-config.js';
import { type NatsServer, startNats } from './nats-server.js';

const KINDS = ['shell', 'files', 'shell-gvisor'];
const USERS: NatsUser[] = [...serviceUsers(KINDS), ...KINDS.map(executorAccount)];

/** One concrete subject of a pattern. */
const instance = (pattern: string) => pattern.replaceAll('*', 'one').replace(/>$/, 'one.two');

/** What every login is tried with: one subject of each pattern of every login, and what nobody should reach. */
const PUBLISHED = [
  ...new Set([
    ...USERS.flatMap(({ publish, subscribe }) => [...publish, ...subscribe].map(instance)),
    ...Object.values(STREAMS).flatMap(({ name }) =>
      ['DELETE', 'PURGE', 'UPDATE', 'CREATE', 'SNAPSHOT', 'RESTORE'].map(
        (operation) => `$JS.API.STREAM.${operation}.${name}`,
      ),
    ),
    '$SYS.REQ.SERVER.PING',
    '$JS.API.ACCOUNT.PURGE.YM',
    '$O.artifacts.C.x',
    '_INBOX.x.y',
    'ym',
    'other',
  ]),
];
const SUBSCRIBED = [
  ...new Set([
    ...USERS.flatMap(({ publish, subscribe }) => [...publish, ...subscribe]),
    '>',
    '*',
    '*.>',
    'ym.>',
    '_INBOX.>',
    '$SYS.>',
    '$JS.>',
    '$KV.>',
  ]),
];

/** Does the pattern cover everything that `subject`, itself perhaps a pattern, can be? */
function covers(pattern: string, subject: string): boolean {
  const [p, s] = [pattern.split('.'), subject.split('.')];
  for (const [i, token] of p.entries()) {
    if (token === '>') return s.length > i;
    if (i >= s.length || s[i] === '>') return false;
    if (token !== '*' && token !== s[i]) return false;
  }
  return p.length === s.length;
}

let nats: NatsServer;
beforeAll(async () => {
  nats = await startNats({ accounts: natsTable(KINDS) });
});
afterAll(() => nats.stop());

test.each(USERS)(
  '$user may say and hear what the table says, and nothing else',
  async ({ user, publish, subscribe }) => {
    const nc = await connect({ servers: nats.url, ...nats.login(user), inboxPrefix: inboxPrefix(user) });
    const refused = { publish: new Set<string>(), subscription: new Set<string>() };
    void (async () => {
      for await (const status of nc.status())
        if (status.type === 'error' && status.error instanceof PermissionViolationError)
          refused[status.error.operation].add(status.error.subject);
    })();
    for (const subject of PUBLISHED) nc.publish(subject, '');
    for (const subject of SUBSCRIBED) nc.subscribe(subject, { callback: () => {} });
    for (let i = 0; i < 3; i++) await nc.flush();
    const may = (patterns: string[], subject: string) => patterns.some((pattern) => covers(pattern, subject));
    expect(PUBLISHED.filter((subject) => !refused.publish.has(subject))).toEqual(
      PUBLISHED.filter((subject) => may(publish, subject)),
    );
    expect(SUBSCRIBED.filter((subject) => !refused.subscription.has(subject))).toEqual(
      SUBSCRIBED.filter((subject) => may(subscribe, subject)),
    );
    await nc.close();
  },
);

test('a pattern covers what it should', () => {
  expect(covers('a.>', 'a')).toBe(false);
  expect(covers('a.>', 'a.b.c')).toBe(true);
  expect(covers('a.*', 'a.>')).toBe(false);
  expect(covers('a.*', 'a.*')).toBe(true);
  expect(covers('>', '*.>')).toBe(true);
  expect(covers('a.b', 'a.*')).toBe(false);
});
