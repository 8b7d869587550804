// Load on a gateway: over HTTP as callers send it, or over NATS as the services do.
import { Agent, request } from 'node:http';
import { Bus } from '@yardmaster/bus';
import { newId, Router, tenantId } from '@yardmaster/contracts';

const { load } = await import(new URL('../../floors/lib/load.mjs', import.meta.url).href);
const { role } = await import(new URL('../../floors/lib/processes.mjs', import.meta.url).href);

interface Options {
  natsUrl: string;
  natsPass: string;
}
interface HttpLoad {
  url: string;
  headers: Record<string, string>;
  model: string;
  stream: boolean;
  inFlight: number;
  seconds: number;
}

const agent = new Agent({ keepAlive: true, maxSockets: 1_000 });
const TENANT = tenantId('demo');
const ASKED = 'What is the answer? '.repeat(20);
const messages = [{ role: 'user', content: ASKED }];
const inlineMessagesJson = JSON.stringify([{ type: 'chat', role: 'user', content: ASKED }]);

/** One request; throws for anything but a whole answer of status 200. */
function post({ url, headers, model, stream }: HttpLoad): Promise<void> {
  const body = JSON.stringify({ model, messages, stream });
  return new Promise((resolve, reject) => {
    const sent = request(
      `${url}/v1/chat/completions`,
      {
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json', 'content-length': body.length, ...headers },
      },
      (response) => {
        let last = '';
        response.on('data', (chunk: Buffer) => {
          last = (last + chunk.toString('latin1')).slice(-200);
        });
        response.on('error', reject);
        response.on('end', () => {
          const whole = stream ? last.includes('[DONE]') : last.endsWith('}');
          if (response.statusCode === 200 && whole) resolve();
          else reject(new Error(`status ${response.statusCode}: ${last}`));
        });
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}

role(async ({ natsUrl, natsPass }: Options) => {
  const bus = await Bus.connect({ url: natsUrl, user: 'api', pass: natsPass });
  const ask = async (model: string, timeoutMs = 110_000): Promise<number> => {
    const requestId = newId();
    let frames = 0;
    let ended = false;
    for await (const frame of bus.stream(
      Router.chat,
      TENANT,
      { requestId, model, inlineMessagesJson },
      { requestId, timeoutMs },
    )) {
      frames++;
      if (frame.kind.case === 'end') ended = true;
    }
    if (!ended) throw new Error('an answer broke off');
    return frames;
  };
  return {
    http: (options: HttpLoad) => load({ ...options, operation: () => post(options) }),
    nats: ({ model, ...level }: { model: string; inFlight: number; seconds: number }) =>
      load({ ...level, operation: () => ask(model) }),
    count: async ({ model, requests, inFlight }: { model: string; requests: number; inFlight: number }) => {
      let left = requests;
      await Promise.all(
        Array.from({ length: inFlight }, async () => {
          while (left-- > 0) await ask(model);
        }),
      );
    },
    /** Requests one after another; how many were not served. */
    unserved: async ({ model, requests, pauseMs }: { model: string; requests: number; pauseMs: number }) => {
      let failed = 0;
      for (let i = 0; i < requests; i++) {
        await ask(model, 10_000).catch(() => failed++);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      return failed;
    },
  };
});
