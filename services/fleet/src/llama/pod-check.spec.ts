import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { PodCheck } from './pod-check.js';

let server: Server | undefined;
let check: PodCheck | undefined;
afterEach(async () => {
  await check?.close();
  server?.closeAllConnections();
  await new Promise((resolve) => server?.close(resolve) ?? resolve(undefined));
});

/** Asks a server whose `/props` is this; its `/health` is fine. */
async function ask(props: RequestListener, key?: string) {
  const seen: { url: string; key: string | undefined }[] = [];
  server = createServer((request, response) => {
    seen.push({ url: request.url!, key: request.headers.authorization });
    if (request.url === '/health') response.end('{"status":"ok"}');
    else props(request, response);
  });
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  check = new PodCheck({ timeoutMs: 400 });
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { result: await check.check(address, true, key, new AbortController().signal), seen };
}

describe('what a pod answers is data', () => {
  it.each<[string, RequestListener, string]>([
    ['more than it may be', (_, response) => response.end(Buffer.alloc(5_000_000, ' ')), 'UND_ERR_RES_EXCEEDED'],
    ['nothing', () => undefined, 'no answer in time'],
    ['a little at a time, for ever', drip, 'no answer in time'],
    ['no JSON', (_, response) => response.end('<secret words of a pod>'), 'something that is no JSON'],
    ['brackets without end', (_, response) => response.end('['.repeat(900_000)), 'something that is no JSON'],
    ['another status', (_, response) => response.writeHead(500).end('<secret words of a pod>'), '/props answers 500'],
    ['a broken answer', ({ socket }) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{'), '/props'],
  ])('%s: the pod is used, and what it can do is not known', async (_, props, problem) => {
    const { result } = await ask(props);
    expect(result).toEqual({ health: 'ok', propsProblem: expect.stringContaining(problem) as string });
    expect(JSON.stringify(result)).not.toContain('secret words');
  });

  it.each([
    [{ total_slots: 'many', default_generation_settings: [], modalities: null, model_alias: { a: 1 } }],
    [[1, 2, 3]],
    ['text'],
    [null],
    [{ __proto__: null, constructor: 1, total_slots: 1.5 }],
  ])('%j says nothing', async (said) => {
    const { result } = await ask((_, response) => response.end(JSON.stringify(said)));
    expect(result).toEqual({ health: 'ok', capabilities: {} });
  });

  it('the key goes to /props of that address and nowhere else, wherever an answer points', async () => {
    const elsewhere: string[] = [];
    const other = createServer((request, response) => {
      elsewhere.push(String(request.headers.authorization));
      response.end('{}');
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/props`;
    const { result, seen } = await ask((_, response) => response.writeHead(307, { location }).end(), 'the-key');
    expect(result).toEqual({ health: 'ok', propsProblem: '/props answers 307' });
    expect(seen).toEqual([
      { url: '/health', key: undefined },
      { url: '/props', key: 'Bearer the-key' },
    ]);
    expect(elsewhere).toEqual([]);
    await new Promise((resolve) => other.close(resolve));
  });
});

/** Never silent for long, and never at an end. */
function drip(...[, response]: Parameters<RequestListener>): void {
  const timer = setInterval(() => response.write(' '), 50);
  response.on('close', () => clearInterval(timer));
}
