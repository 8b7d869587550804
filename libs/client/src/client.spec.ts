import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { type RunEvent, Yardmaster } from './index.js';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void;

/** A server that answers each request with the next handler; the last one stays. */
async function serve(...handlers: Handler[]) {
  const seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    seen.push({ method: request.method!, url: request.url!, headers: request.headers, body });
    (handlers[seen.length - 1] ?? handlers.at(-1)!)(request, response, body);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { seen, apiUrl, client: new Yardmaster({ apiUrl, apiKey: 'ym_key' }) };
}
const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Handler =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
const event = (id: number | undefined, type: string, data: object = {}): string =>
  `${id === undefined ? '' : `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify({ id, type, run_id: 'r', at: '', data })}\n\n`;
const sse =
  (text: string, end: 'close' | 'break' = 'close'): Handler =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(text);
    setTimeout(() => (end === 'close' ? response.end() : response.destroy()), 20);
  };
async function collect(events: AsyncIterable<RunEvent>): Promise<(number | string)[]> {
  const found: (number | string)[] = [];
  for await (const { id, type } of events) found.push(id ?? type);
  return found;
}

test('a start has a key of its own, and is repeated with it while the server is away', async () => {
  const { client, seen } = await serve(
    json(503, { class: 'UNAVAILABLE', code: 'YM-X', detail: 'not now' }, { 'retry-after': '0' }),
    json(201, { id: 'r1', state: 'queued' }),
  );
  const run = await client.runs.start({ input: 'hi', agent: 'coder' });
  expect(run.id).toBe('r1');
  expect(seen).toHaveLength(2);
  expect(seen[0]!.headers['idempotency-key']).toBe(seen[1]!.headers['idempotency-key']);
  expect(seen[0]!.headers.authorization).toBe('Bearer ym_key');
  expect(JSON.parse(seen[0]!.body)).toEqual({ input: 'hi', agent: 'coder' });
});

test('an error says what the server said, and is not repeated when that would not help', async () => {
  const problem = {
    status: 404,
    class: 'NOT_FOUND',
    code: 'YM-AGENT-UNKNOWN',
    detail: 'There is no agent "x".',
    known: ['coder'],
  };
  const { client, seen } = await serve(json(404, problem, { 'x-request-id': 'abc' }));
  await expect(client.runs.start({ input: 'x', agent: 'x' })).rejects.toMatchObject({
    name: 'ApiError',
    class: 'NOT_FOUND',
    code: 'YM-AGENT-UNKNOWN',
    status: 404,
    requestId: 'abc',
    message: 'There is no agent "x".',
    problem: { known: ['coder'] },
  });
  expect(seen).toHaveLength(1);
});

test('a page that is not ours is still an error with a class', async () => {
  const { client } = await serve((_request, response) => response.writeHead(403).end('<html>no</html>'));
  await expect(client.me()).rejects.toMatchObject({ class: 'DENIED', code: 'YM-HTTP-403', status: 403 });
});

test('nobody there is said so', async () => {
  const client = new Yardmaster({ apiUrl: 'http://127.0.0.1:1', apiKey: 'k', retries: 0 });
  await expect(client.me()).rejects.toMatchObject({ class: 'UNAVAILABLE', code: 'YM-UNREACHABLE' });
});

test('events go on from the last number after a lost connection, none twice', async () => {
  const { client, seen } = await serve(
    sse(event(1, 'run.started') + event(undefined, 'message.delta') + event(2, 'step.started'), 'break'),
    json(503, { class: 'UNAVAILABLE', code: 'YM-X', detail: '' }),
    sse(event(2, 'step.started') + event(3, 'message.completed')),
    sse(': keep-alive\n\n' + event(4, 'run.completed') + event(5, 'never')),
  );
  const reconnects: number[] = [];
  const events = client.runs.events('r', { onReconnect: (attempt) => reconnects.push(attempt) });
  expect(await collect(events)).toEqual([1, 'message.delta', 2, 3, 4]);
  expect(seen.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '2', '2', '3']);
  expect(reconnects).toEqual([1, 2, 1]);
});

test('a stream that is over ends, a run that is not there is an error', async () => {
  const over = await serve((_request, response) => response.writeHead(204).end());
  expect(await collect(over.client.runs.events('r', { after: 9 }))).toEqual([]);
  const missing = await serve(json(404, { class: 'NOT_FOUND', code: 'YM-RUN-UNKNOWN', detail: 'no' }));
  await expect(collect(missing.client.runs.events('r'))).rejects.toMatchObject({ code: 'YM-RUN-UNKNOWN' });
});

test('a reader who leaves closes the connection', async () => {
  let closed: (() => void) | undefined;
  const gone = new Promise<void>((resolve) => (closed = resolve));
  const { client } = await serve((_request, response) => {
    response.on('close', () => closed!());
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(event(1, 'run.started'));
  });
  for await (const { id } of client.runs.events('r')) {
    expect(id).toBe(1);
    break;
  }
  await gone;
  const leaving = new AbortController();
  const reading = collect(client.runs.events('r', { signal: leaving.signal }));
  setTimeout(() => leaving.abort(new Error('left')), 50);
  await expect(reading).rejects.toThrow('left');
});

test('lists are fetched a page at a time', async () => {
  const { client, seen } = await serve(
    json(200, { items: [{ id: 'a' }, { id: 'b' }], next_cursor: 'n' }),
    json(200, { items: [{ id: 'c' }], next_cursor: null }),
  );
  const ids: string[] = [];
  for await (const run of client.runs.list({ state: 'queued', limit: 2 })) ids.push(run.id);
  expect(ids).toEqual(['a', 'b', 'c']);
  expect(seen.map(({ url }) => url)).toEqual([
    '/v1/runs?state=queued&limit=2',
    '/v1/runs?state=queued&limit=2&cursor=n',
  ]);
});

test('the result of a run is read after its last event', async () => {
  const { client } = await serve(
    sse(event(1, 'run.started') + event(2, 'run.completed')),
    json(200, { id: 'r', state: 'running' }),
    json(200, { id: 'r', state: 'completed', output: 'done' }),
  );
  expect((await client.runs.result('r')).output).toBe('done');
});
