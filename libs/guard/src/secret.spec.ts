import { format, inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Secret } from './secret.js';

test('a secret is shown nowhere, and revealed on request', () => {
  const secret = new Secret('hunter2');
  const holder = { provider: 'x', key: secret, list: [secret], map: new Map([['k', secret]]) };
  const shown = [
    String(secret),
    `${secret}`,
    secret + '',
    JSON.stringify(holder),
    inspect(holder, { depth: null, showHidden: true }),
    format('%s %o %O %j', secret, secret, holder, holder),
    new Error(`failed with ${secret}`).message,
    inspect(new Error('failed', { cause: holder })),
    Object.entries(secret).join(),
    JSON.stringify(structuredClone({ ...secret })),
    Buffer.from(String(secret)).toString('base64'),
  ];
  for (const text of shown) {
    expect(text).not.toContain('hunter2');
    expect(text).not.toContain(Buffer.from('hunter2').toString('base64'));
  }
  expect(secret.reveal()).toBe('hunter2');
});

test('secrets are compared by what they hold', () => {
  expect(new Secret('a').equals(new Secret('a'))).toBe(true);
  expect(new Secret('a').equals(new Secret('ab'))).toBe(false);
});
