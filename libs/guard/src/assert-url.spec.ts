import { YardError } from '@yardmaster/contracts';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { assertUrl, type Refusal } from './assert-url.js';
import { operatorPolicy, tenantPolicy, type TenantPolicyOptions } from './policy.js';

const never = async (): Promise<string[]> => {
  throw new Error('the resolver was asked');
};

async function verdict(url: string, options: TenantPolicyOptions = {}, answers?: string[]): Promise<'allow' | Refusal> {
  try {
    await assertUrl(url, tenantPolicy(options), answers === undefined ? never : async () => answers);
    return 'allow';
  } catch (error) {
    expect(YardError.is(error)).toBe(true);
    return (error as YardError).details!['reason'] as Refusal;
  }
}

/** Ways to write one IPv4 address that the URL parser reads as that address. */
const spellings: ((address: number) => string)[] = [
  (a) => [24, 16, 8, 0].map((shift) => (a >>> shift) & 255).join('.'),
  (a) => String(a),
  (a) => `0x${a.toString(16)}`,
  (a) => `0${a.toString(8)}`,
  (a) => `${a >>> 24}.${a & 0xffffff}`,
  (a) => `0x${(a >>> 24).toString(16)}.0${((a >>> 16) & 255).toString(8)}.${a & 0xffff}`,
  (a) => [24, 16, 8, 0].map((shift) => `%3${[...String((a >>> shift) & 255)].join('%3')}`).join('.'),
  (a) =>
    [24, 16, 8, 0]
      .map((shift) => [...String((a >>> shift) & 255)].map((digit) => '０１２３４５６７８９'[Number(digit)]).join(''))
      .join('。'),
  (a) => `${[24, 16, 8, 0].map((shift) => (a >>> shift) & 255).join('.')}.`,
  (a) => `[::ffff:${[24, 16, 8, 0].map((shift) => (a >>> shift) & 255).join('.')}]`,
  (a) => `[0:0:0:0:0:FFFF:${(a >>> 16).toString(16)}:${(a & 0xffff).toString(16)}]`,
  (a) => `[64:ff9b::${(a >>> 16).toString(16)}:${(a & 0xffff).toString(16)}]`,
];

/** Addresses near the borders of the special ranges, and anything else. */
const addresses = fc.oneof(
  fc.nat({ max: 0xffffffff }),
  fc
    .tuple(
      fc.constantFrom(
        '0.0.0.0',
        '10.0.0.0',
        '100.64.0.0',
        '100.100.100.200',
        '127.0.0.0',
        '168.63.129.16',
        '169.254.0.0',
        '172.16.0.0',
        '172.32.0.0',
        '192.0.0.192',
        '192.168.0.0',
        '198.18.0.0',
        '198.20.0.0',
        '224.0.0.0',
        '240.0.0.0',
        '255.255.255.255',
      ),
      fc.integer({ min: -2, max: 2 }),
    )
    .map(
      ([text, by]) => (text.split('.').reduce((value, part) => value * 256 + Number(part), 0) + by + 2 ** 32) % 2 ** 32,
    ),
);

describe('the verdict on an address', () => {
  test('does not depend on how it is written', async () => {
    await fc.assert(
      fc.asyncProperty(addresses, fc.constantFrom(...spellings), async (address, spell) => {
        const plain = spellings[0]!(address);
        const options = { allow: [{ cidr: '10.20.0.0/16' }], platformDeny: ['10.20.0.0/28', '8.8.8.0/24'] };
        const expected = await verdict(`https://${plain}/`, options);
        expect(await verdict(`https://${spell(address)}/`, options)).toBe(expected);
        expect(await verdict('https://name.example/', options, [plain])).toBe(expected);
        const inside = spell(address);
        if (inside.startsWith('['))
          expect(await verdict('https://name.example/', options, [inside.slice(1, -1)])).toBe(expected);
      }),
      { numRuns: 2000 },
    );
  });

  test('of IPv6 does not depend on how it is written', async () => {
    await fc.assert(
      fc.asyncProperty(fc.ipV6(), async (text) => {
        const canonical = URL.parse(`https://[${text}]/`)?.hostname;
        if (canonical === undefined) return;
        const expected = await verdict(`https://${canonical}/`);
        expect(await verdict(`https://[${text.toUpperCase()}]/`)).toBe(expected);
        expect(await verdict('https://name.example/', {}, [text])).toBe(expected);
      }),
    );
  });

  test('is a refusal and never another error, whatever the text', async () => {
    const pieces = fc.constantFrom(
      'http',
      'https',
      ':',
      '/',
      '//',
      '@',
      '[',
      ']',
      '127.0.0.1',
      '.',
      '%',
      '%31',
      '\\',
      '#',
      '?',
      'a.example',
      '\t',
      '１',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string({ unit: 'binary' }),
          fc.array(pieces).map((parts) => parts.join('')),
        ),
        async (text) => {
          await verdict(text, {}, ['1.1.1.1']);
        },
      ),
    );
  });
});

test.each<[string, string, 'allow' | Refusal, TenantPolicyOptions?, string[]?]>([
  [
    'a wildcard does not cover its apex',
    'https://corp.example/',
    'private',
    { allow: [{ host: '*.corp.example', private: true }] },
    ['10.0.0.1'],
  ],
  [
    'a wildcard does not match a literal',
    'https://10.0.0.8/',
    'private',
    { allow: [{ host: '*.0.0.8', private: true }] },
  ],
  ['a literal may be listed as a host', 'https://10.0.0.8/', 'allow', { allow: [{ host: '10.0.0.8', private: true }] }],
  [
    'a listed inside name is resolved',
    'https://redis/',
    'allow',
    { allow: [{ host: 'Redis.', private: true }] },
    ['10.0.0.9'],
  ],
  [
    'a listed name is not thereby private',
    'https://a.corp.example/',
    'private',
    { allow: [{ host: 'a.corp.example' }] },
    ['10.0.0.1'],
  ],
  [
    'a name may be opened by the range of its answer',
    'https://a.corp.example/',
    'allow',
    { allow: [{ cidr: '10.0.0.0/8' }] },
    ['10.0.0.1'],
  ],
  [
    'http needs an entry that covers every answer',
    'http://a.corp.example/',
    'http',
    { allow: [{ cidr: '10.0.0.0/9', http: true }, { cidr: '10.128.0.0/9' }] },
    ['10.0.0.1', '10.200.0.1'],
  ],
  [
    'http to a listed public host',
    'http://a.example/',
    'allow',
    { allow: [{ host: 'a.example', http: true }] },
    ['1.1.1.1'],
  ],
  [
    'the platform is closed in IPv6 spelling too',
    'https://[::ffff:10.20.0.9]/',
    'platform',
    { allow: [{ cidr: '10.0.0.0/8' }], platformDeny: ['10.20.0.0/28'] },
  ],
  ['an answer with a zone cannot be judged', 'https://a.example/', 'private', {}, ['fe80::1%eth0']],
  ['trailing dots are the same name', 'https://localhost../', 'name', {}, ['1.1.1.1']],
])('%s', async (_, url, expected, options, answers) => {
  expect(await verdict(url, options, answers)).toBe(expected);
});

test('a list with a range that is none is refused when it is made', () => {
  for (const cidr of ['10.0.0.0/33', 'ten/8', '10.0.0.0/8/8', '', '::/129', '10.0.0.0/'])
    expect(() => tenantPolicy({ allow: [{ cidr }] })).toThrow(/no CIDR range/);
});

test("the operator's policy allows its own origin, loopback and http included, and nothing else", async () => {
  const policy = operatorPolicy('http://127.0.0.1:8080/v1');
  expect((await assertUrl('http://127.0.0.1:8080/v1/models', policy, never)).address).toBe('127.0.0.1');
  for (const url of [
    'http://127.0.0.1:8081/',
    'https://127.0.0.1:8080/',
    'http://localhost:8080/',
    'http://u:p@127.0.0.1:8080/',
  ])
    await expect(assertUrl(url, policy, async () => ['127.0.0.1'])).rejects.toMatchObject({ class: 'DENIED' });
});

test("not even the operator's policy leads to link-local addresses and metadata services", async () => {
  for (const address of [
    '169.254.169.254',
    '::ffff:169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '168.63.129.16',
    'fe80::1',
    'fd00:ec2::254',
  ])
    await expect(
      assertUrl('http://model.corp/v1', operatorPolicy('http://model.corp'), async () => ['10.0.0.1', address]),
    ).rejects.toMatchObject({ details: { reason: 'never' } });
  const literal = 'http://169.254.169.254/';
  await expect(assertUrl(literal, operatorPolicy(literal), never)).rejects.toMatchObject({
    details: { reason: 'never' },
  });
});

test('a refusal names the host and nothing else of the address', async () => {
  const error = await assertUrl('https://10.0.0.8/path?key=hunter2', tenantPolicy(), never).catch((e: unknown) => e);
  expect(String(error)).toContain('10.0.0.8');
  expect(String(error)).not.toContain('hunter2');
});
