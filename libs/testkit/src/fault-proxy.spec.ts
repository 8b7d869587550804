import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FaultProxy } from './fault-proxy.js';
import { until } from './until.js';

let echo: Server;
let proxy: FaultProxy;
const sockets: Socket[] = [];
beforeEach(async () => {
  echo = createServer({ allowHalfOpen: true }, (socket) => socket.on('error', () => {}).pipe(socket));
  await once(echo.listen(0, '127.0.0.1'), 'listening');
  proxy = await FaultProxy.start((echo.address() as AddressInfo).port);
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await proxy.stop();
  echo.close();
});

async function dial() {
  const socket = connect(proxy.port, '127.0.0.1');
  sockets.push(socket);
  const state = { text: '', error: '', ended: false, closed: false };
  socket.on('data', (data) => (state.text += data.toString()));
  socket.on('error', (error: NodeJS.ErrnoException) => (state.error = error.code ?? ''));
  socket.on('end', () => (state.ended = true));
  socket.on('close', () => (state.closed = true));
  await once(socket, 'connect');
  return { socket, state };
}

test('without faults everything passes, ends included', async () => {
  const { socket, state } = await dial();
  const text = 'x'.repeat(300_000);
  socket.end(text);
  await until(() => state.ended);
  expect(state.text).toBe(text);
  await until(() => proxy.open === 0);
});

test('latency is added each way and keeps the order', async () => {
  proxy.set({ latencyMs: 50, jitterMs: 30 });
  const { socket, state } = await dial();
  const from = performance.now();
  for (const piece of ['a', 'b', 'c']) {
    socket.write(piece);
    await sleep(5);
  }
  await until(() => state.text.length === 3);
  expect(performance.now() - from).toBeGreaterThan(100);
  expect(state.text).toBe('abc');
});

test('a connection is reset after so many bytes', async () => {
  proxy.set({ resetAfterBytes: 10 });
  const { socket, state } = await dial();
  socket.write('x'.repeat(100));
  await until(() => state.closed);
  expect(state).toMatchObject({ text: 'x'.repeat(10), error: 'ECONNRESET' });
});

test.each([['up' as const], ['down' as const]])(
  'a link stalled %s tells nobody, and delivers when healed',
  async (direction) => {
    const { socket, state } = await dial();
    socket.write('before ');
    await until(() => state.text === 'before ');
    proxy.set({ stalled: [direction] });
    socket.write('during');
    await sleep(100);
    expect(state).toMatchObject({ text: 'before ', closed: false, error: '' });
    const late = await dial(); // accepted, and silent
    late.socket.write('late');
    await sleep(50);
    expect(late.state.text).toBe('');
    proxy.heal();
    await until(() => state.text === 'before during' && late.state.text === 'late');
  },
);

test('nobody hears through a stalled link that the other side has gone', async () => {
  const { socket, state } = await dial();
  socket.write('a');
  await until(() => state.text === 'a');
  proxy.set({ stalled: ['up', 'down'] });
  socket.destroy();
  await sleep(100);
  const count = () => new Promise<number>((resolve) => echo.getConnections((_, n) => resolve(n)));
  expect(await count()).toBe(1);
  proxy.heal();
  await until(async () => (await count()) === 0);
});

test('open connections can be reset, and new ones refused', async () => {
  const { state } = await dial();
  proxy.reset();
  await until(() => state.closed);
  proxy.set({ refuse: true });
  const refused = connect(proxy.port, '127.0.0.1').on('error', () => {});
  await new Promise((resolve) => refused.once('close', resolve));
  expect(proxy.accepted).toBe(2);
});

test('a rate is kept', async () => {
  proxy.set({ bytesPerSecond: 100_000 });
  const { socket, state } = await dial();
  const from = performance.now();
  socket.write('x'.repeat(20_000));
  await until(() => state.text.length === 20_000);
  expect(performance.now() - from).toBeGreaterThan(200);
});
