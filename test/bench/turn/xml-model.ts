// The floor's mock model for a model without native tool calls: the same chunks, the call written as text.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

const { role } = await import(new URL('../../floors/lib/processes.mjs', import.meta.url).href);
const PIECE = 'word '.repeat(40);
const CALL = '<tool_call>\n{"name":"echo","arguments":{"command":"echo hello"}}\n</tool_call>';
const callPieces = [...Array<string>(4).fill(PIECE), CALL.slice(0, 30), CALL.slice(30, 60), CALL.slice(60)];
const textPieces = [...Array<string>(5).fill(PIECE), 'the ', 'end'];

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    const last = body.lastIndexOf('"role":"');
    void stream(response, body.indexOf('[Tool results]', last) >= 0 ? textPieces : callPieces);
  });
});

async function stream(response: http.ServerResponse, pieces: string[]): Promise<void> {
  const head = { id: 'r', object: 'chat.completion.chunk', created: 1, model: 'mock' };
  const chunk = (choices: unknown[], more = {}) =>
    response.write(`data: ${JSON.stringify({ ...head, choices, ...more })}\n\n`);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const content of pieces) {
    chunk([{ index: 0, delta: { content }, finish_reason: null }]);
    await new Promise(setImmediate);
  }
  chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  chunk([], { usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 } });
  response.end('data: [DONE]\n\n');
}

role(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { ready: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
});
