// The mock provider of the router's benchmark: answers at once, whole or in 50 chunks; can be slow, or down.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

const { role } = await import(new URL('../../floors/lib/processes.mjs', import.meta.url).href);

const USAGE = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 };
const TEXT = 'word '.repeat(140);
const PIECE = 'word '.repeat(3);
const CHUNKS = 50;
const HEAD = { id: 'r', object: 'chat.completion.chunk', created: 1, model: 'mock' };

const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (content: string) => event({ ...HEAD, choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const TAIL =
  event({ ...HEAD, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) +
  event({ ...HEAD, choices: [], usage: USAGE }) +
  'data: [DONE]\n\n';
const WHOLE = JSON.stringify({
  id: 'r',
  object: 'chat.completion',
  created: 1,
  model: 'mock',
  choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' }],
  usage: USAGE,
});

let down = false;
let requests: number[] = [];

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    requests.push(Date.now());
    if (down) {
      response.writeHead(503, { 'content-type': 'application/json' });
      response.end('{"error":{"message":"down"}}');
      return;
    }
    const body = Buffer.concat(chunks);
    if (!body.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': WHOLE.length });
      response.end(WHOLE);
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (body.includes('"model":"chunks"')) void inChunks(response);
    else if (body.includes('"model":"slow"')) void slowly(response);
    else response.end(delta(TEXT) + TAIL);
  });
});

/** Each chunk is written by itself, as a provider does. */
async function inChunks(response: http.ServerResponse): Promise<void> {
  for (let i = 0; i < CHUNKS; i++) {
    response.write(delta(PIECE));
    await new Promise(setImmediate);
  }
  response.end(TAIL);
}

/** 50 pieces a second for 20 seconds. */
async function slowly(response: http.ServerResponse): Promise<void> {
  for (let i = 0; i < 1000 && !response.destroyed; i++) {
    response.write(delta(PIECE));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  response.end(TAIL);
}

role(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    ready: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setDown: (value: boolean) => {
      down = value;
    },
    /** Moments of the requests since the last time. */
    seen: () => requests.splice(0),
    forget: () => {
      requests = [];
    },
  };
});
