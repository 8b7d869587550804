import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { Outbound, OutboundPools } from './outbound.js';
import { operatorPolicy, tenantPolicy } from './policy.js';

let server: Server;
let port: number;
let sockets = 0;
let hits: { url: string; headers: Record<string, unknown> }[] = [];
const open: Outbound[] = [];
const out = (...args: ConstructorParameters<typeof Outbound>) => {
  const outbound = new Outbound(...args);
  open.push(outbound);
  return outbound;
};

beforeAll(async () => {
  server = createServer((request, response) => {
    hits.push({ url: request.url!, headers: request.headers });
    if (request.url === '/redirect') response.writeHead(302, { location: 'https://169.254.169.254/' }).end();
    else response.end('ok');
  });
  server.on('connection', () => sockets++);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
beforeEach(() => {
  sockets = 0;
  hits = [];
});
afterAll(async () => {
  await Promise.all(open.map((outbound) => outbound.close()));
  server.closeAllConnections();
  server.close();
});

test("the operator's own address is reached, with one resolution for a socket and none for the next request", async () => {
  let asked = 0;
  const resolve = async () => (asked++, ['127.0.0.1']);
  const outbound = out(operatorPolicy(`http://model.test:${port}/v1`), { resolve, connections: 1 });
  for (let i = 0; i < 3; i++) {
    const response = await outbound.request(`http://model.test:${port}/v1/models?n=${i}`);
    expect(await response.body.text()).toBe('ok');
  }
  expect(hits.map(({ url }) => url)).toEqual(['/v1/models?n=0', '/v1/models?n=1', '/v1/models?n=2']);
  expect(hits[0]!.headers['host']).toBe(`model.test:${port}`);
  expect({ asked, sockets }).toEqual({ asked: 1, sockets: 1 });
});

test('an IPv6 literal of the operator is reached', async (context) => {
  const six = createServer((_, response) => response.end('six'));
  const listening = await new Promise<boolean>((resolve) => {
    six.once('error', () => resolve(false)).listen(0, '::1', () => resolve(true));
  });
  if (!listening) context.skip('this machine has no IPv6 loopback');
  const url = `http://[::1]:${(six.address() as AddressInfo).port}/`;
  expect(await (await out(operatorPolicy(url)).request(url)).body.text()).toBe('six');
  six.closeAllConnections();
  six.close();
});

test('a second look-up that answers otherwise changes nothing', async () => {
  let asked = 0;
  const resolve = async () => (asked++ === 0 ? ['127.0.0.1'] : ['203.0.113.1']);
  const outbound = out(operatorPolicy(`http://rebind.test:${port}`), { resolve });
  expect((await outbound.request(`http://rebind.test:${port}/`)).statusCode).toBe(200);
  expect(asked).toBe(1);
});

test('one address that does not answer is passed over for the next that was checked', async () => {
  const outbound = out(operatorPolicy(`http://two.test:${port}`), { resolve: async () => ['::1', '127.0.0.1'] });
  expect((await outbound.request(`http://two.test:${port}/`)).statusCode).toBe(200);
});

test('a socket that one policy opened serves no other policy', async () => {
  const resolve = async () => ['127.0.0.1'];
  const mine = out(operatorPolicy(`http://shared.test:${port}`), { resolve });
  await (await mine.request(`http://shared.test:${port}/`)).body.dump();
  const theirs = out(tenantPolicy({ allow: [{ host: 'shared.test', private: true, http: true }] }), { resolve });
  await expect(theirs.request(`http://shared.test:${port}/`)).rejects.toMatchObject({ details: { reason: 'never' } });
  expect(hits).toHaveLength(1);
});

test.each(['127.0.0.1', '[::ffff:127.0.0.1]', '0x7f.1', '2130706433', '①②⑦.⓪.⓪.①', 'localhost', 'a.example'])(
  'a tenant does not reach the loopback as %s',
  async (host) => {
    const outbound = out(tenantPolicy({ allow: [{ cidr: '0.0.0.0/0', http: true }] }), {
      resolve: async () => ['127.0.0.1'],
    });
    await expect(outbound.request(`http://${host}:${port}/`)).rejects.toMatchObject({ class: 'DENIED' });
    // The same through the dispatcher alone, for libraries that bring their own request.
    const origin = new URL(`http://${host}:${port}`).origin;
    await expect(outbound.dispatcher.request({ origin, path: '/', method: 'GET' })).rejects.toMatchObject({
      class: 'DENIED',
    });
    expect(hits).toHaveLength(0);
  },
);

test('redirects are answers, and followed only where asked and allowed', async () => {
  const outbound = out(operatorPolicy(`http://127.0.0.1:${port}`));
  const response = await outbound.request(`http://127.0.0.1:${port}/redirect`);
  expect(response.statusCode).toBe(302);
  await response.body.dump();
  await expect(outbound.requestFollowing(`http://127.0.0.1:${port}/redirect`)).rejects.toMatchObject({
    class: 'DENIED',
  });
  expect(await (await outbound.requestFollowing(`http://127.0.0.1:${port}/`)).body.text()).toBe('ok');
});

test('a name without an answer is unavailable, not denied', async () => {
  const resolve = async (): Promise<string[]> => {
    throw new Error('ENOTFOUND');
  };
  await expect(out(tenantPolicy(), { resolve }).request('https://gone.example/')).rejects.toMatchObject({
    class: 'UNAVAILABLE',
  });
});

test('pools are kept by key, and the one unused for longest makes room', async () => {
  const pools = new OutboundPools({}, 2);
  const policy = () => tenantPolicy();
  const a = pools.for('acme:1:key', policy);
  expect(pools.for('acme:1:key', policy)).toBe(a);
  const b = pools.for('acme:2:key', policy);
  expect(b).not.toBe(a);
  pools.for('acme:1:key', policy);
  pools.for('beta:1:key', policy);
  expect(pools.for('acme:1:key', policy)).toBe(a);
  expect(pools.for('acme:2:key', policy)).not.toBe(b);
  await pools.close();
});
