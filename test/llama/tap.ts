import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request that went through, and what came back. */
export interface Passed {
  path: string;
  body: Record<string, unknown>;
  status: number;
  answer: string;
}

export interface Tap {
  /** Where the router is sent to, with `/v1`. */
  url: string;
  passed: Passed[];
  close(): Promise<void>;
}

/**
 * Stands between router and server and writes down what each of them said; bytes go through as they come. With
 * `withoutChat` it plays a server that knows `/v1/responses` only.
 */
export async function startTap(target: string, { withoutChat = false } = {}): Promise<Tap> {
  const passed: Passed[] = [];
  const to = new URL(target);
  const server = createServer((incoming: IncomingMessage, outgoing: ServerResponse) => {
    const pieces: Buffer[] = [];
    incoming.on('data', (bytes: Buffer) => pieces.push(bytes));
    incoming.on('end', () => {
      const body = Buffer.concat(pieces);
      const entry: Passed = { path: incoming.url ?? '', body: parse(body.toString()), status: 0, answer: '' };
      passed.push(entry);
      if (withoutChat && entry.path === '/v1/chat/completions') {
        entry.status = 404;
        outgoing.writeHead(404, { 'content-type': 'application/json' });
        outgoing.end('{"error":{"message":"File Not Found","type":"not_found_error","code":404}}');
        return;
      }
      const { host: _host, ...headers } = incoming.headers;
      const onward = request(
        { host: to.hostname, port: to.port, path: entry.path, method: incoming.method, headers },
        (answer) => {
          entry.status = answer.statusCode ?? 0;
          outgoing.writeHead(entry.status, answer.headers);
          const decoder = new TextDecoder();
          answer.on('data', (bytes: Buffer) => {
            entry.answer += decoder.decode(bytes, { stream: true });
            outgoing.write(bytes);
          });
          answer.on('end', () => outgoing.end());
          answer.on('error', () => outgoing.destroy());
        },
      );
      onward.on('error', () => outgoing.destroy());
      outgoing.on('close', () => outgoing.writableFinished || onward.destroy());
      onward.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    passed,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function parse(text: string): Record<string, unknown> {
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

/** The events of a recorded stream. */
export const eventsOf = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice('data: '.length)) as Record<string, unknown>);

interface ChatEvent {
  choices?: {
    delta?: {
      content?: string | null;
      tool_calls?: { index: number; function: { name?: string; arguments?: string } }[];
    };
  }[];
}

/** What a recorded chat stream says, put together without any of our own code. */
export function readChat(text: string): { text: string; calls: { name: string; arguments: string }[] } {
  const calls: { name: string; arguments: string }[] = [];
  let content = '';
  for (const event of eventsOf(text) as ChatEvent[])
    for (const { delta } of event.choices ?? []) {
      content += delta?.content ?? '';
      for (const { index, function: part } of delta?.tool_calls ?? []) {
        calls[index] ??= { name: '', arguments: '' };
        calls[index].name += part.name ?? '';
        calls[index].arguments += part.arguments ?? '';
      }
    }
  return { text: content, calls };
}
