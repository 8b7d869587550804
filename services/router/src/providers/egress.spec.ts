import { afterEach, describe, expect, it } from 'vitest';
import { startFaultServer, type FaultServer } from '@yardmaster/testkit';
import { classifyFailure } from '@yardmaster/llm-wire';
import { Egress } from './egress.js';
import { UndiciTransport } from './undici-transport.js';

const egress = new Egress(4);
const transport = new UndiciTransport({ dispatcherFor: (...args) => egress.dispatcherFor(...args) });
let server: FaultServer | undefined;

afterEach(async () => {
  await egress.close();
  await server?.close();
});

const send = (url: string, signal = new AbortController().signal) =>
  transport.send({ provider: 'p', url, headers: {}, body: '{}', connectTimeoutMs: 500, signal });

describe('the way out to providers', () => {
  it('an operator address on loopback is reached, by name and by number', async () => {
    server = await startFaultServer((_request, connection) => connection.json(200, { ok: true }));
    for (const url of [server.url, server.url.replace('127.0.0.1', 'localhost')]) {
      const response = await send(`${url}/v1/chat/completions`);
      expect(response.status).toBe(200);
      response.release();
    }
  });

  it.each([
    'http://169.254.169.254/latest',
    'http://2852039166/',
    'http://0xa9fea9fe/',
    'http://[fe80::1]/',
    'http://[fd00:ec2::254]/',
    'http://[::ffff:169.254.169.254]/',
    'http://100.100.100.200/',
  ])('%s is refused before anything is sent, and nobody tries it again', async (url) => {
    const error = await send(url).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ class: 'DENIED', code: 'YM-URL-REFUSED' });
    expect(classifyFailure({ error }).class).toBe('next_provider');
  });

  it('a host that is down is a transient failure', async () => {
    const error = await send('http://127.0.0.1:9/').then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(classifyFailure({ error })).toMatchObject({ class: 'retry', reason: 'network' });
  });
});
