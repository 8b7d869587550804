import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A provider whose wire is not that of chat completions. */
export interface OtherProvider {
  url: string;
  /** Every request, in order. */
  bodies: Record<string, unknown>[];
  stop(): void;
}

/** Answers each request with what `answer` makes of its body. */
export async function startOther(answer: (body: Record<string, unknown>) => unknown): Promise<OtherProvider> {
  const bodies: Record<string, unknown>[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
      bodies.push(body);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(await answer(body)));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    bodies,
    stop: () => void server.close(),
  };
}
