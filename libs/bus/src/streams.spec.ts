import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageShape } from '@bufbuild/protobuf';
import { type ChatFrameSchema, Router, tenantId, YardError } from '@yardmaster/contracts';
import { type Servers, startServers } from '@yardmaster/testkit';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { encodeDataFrame, encodeFrame } from './frame.js';
import { Bus, type Served, type StreamContext } from './index.js';

const TENANT = tenantId('acme');
type Context = StreamContext<typeof ChatFrameSchema>;
let servers: Servers;
let dispatcher: Bus;
const routers: Bus[] = [];
let served: Served | undefined;

const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const login = (user: string) => Bus.connect({ url: servers.natsUrl, ...servers.nats.login(user), log: quiet });
beforeAll(async () => {
  servers = await startServers({ executors: ['shell'] });
  dispatcher = await login('dispatcher');
});
afterEach(async () => {
  await served?.stop();
  served = undefined;
  await Promise.all(routers.splice(0).map((bus) => bus.close()));
});
afterAll(async () => {
  await dispatcher.close();
  await servers.stop();
});

const serve = async (handler: (context: Context) => Promise<void>) => {
  const router = await login('router');
  routers.push(router);
  router.serveStream(Router.chat, (_, context) => handler(context));
  await router.flush();
  return router;
};
/** A router that does not keep the protocol: sends what it is given. */
const fake = async (...frames: Uint8Array[]) => {
  const router = await login('router');
  routers.push(router);
  router.nc.subscribe('ym.rpc.router.chat.*', {
    callback: (_, message) => frames.forEach((frame) => message.respond(frame)),
  });
  await router.flush();
};
let requests = 0;
const ask = (options = {}) =>
  dispatcher.stream(Router.chat, TENANT, {}, { requestId: `r${++requests}`, timeoutMs: 20_000, ...options });
const delta = (value: string) => ({ kind: { case: 'delta' as const, value } });
async function collect(stream: AsyncIterable<MessageShape<typeof ChatFrameSchema>>) {
  const seen: unknown[] = [];
  try {
    for await (const { kind } of stream) seen.push(kind.value);
    return { seen, error: undefined };
  } catch (error) {
    return { seen, error: error as YardError };
  }
}
const aborted = (signal: AbortSignal) =>
  new Promise<YardError>((resolve) => signal.addEventListener('abort', () => resolve(signal.reason as YardError)));

it('frames arrive in order, a thousand in one burst too, then the end', async () => {
  await serve(async ({ send }) => {
    for (let i = 0; i < 1000; i++) send(delta(String(i)));
  });
  const { seen, error } = await collect(ask());
  expect(error).toBeUndefined();
  expect(seen).toEqual(Array.from({ length: 1000 }, (_, i) => String(i)));
});

it('an error ends the stream after the frames before it', async () => {
  await serve(async ({ send }) => {
    send(delta('a'));
    throw new YardError('UNAVAILABLE', 'YM-LLM-EXHAUSTED', 'Nothing is left to try.', { details: { attempts: 3 } });
  });
  const { seen, error } = await collect(ask());
  expect(seen).toEqual(['a']);
  expect(error).toMatchObject({ class: 'UNAVAILABLE', code: 'YM-LLM-EXHAUSTED', details: { attempts: 3 } });
});

it('nobody to answer is an error at once', async () => {
  expect((await collect(ask())).error?.code).toBe('YM-NO-RESPONDERS');
});

it('a frame that is missing is noticed', async () => {
  await fake(
    encodeDataFrame(0, new Uint8Array()),
    encodeDataFrame(2, new Uint8Array()),
    encodeFrame(3, { case: 'end', value: true }),
  );
  const { seen, error } = await collect(ask());
  expect(seen).toHaveLength(1);
  expect([error?.class, error?.code]).toEqual(['UNAVAILABLE', 'YM-STREAM-GAP']);
});

it('a frame that cannot be read is an error, not a hang', async () => {
  await fake(Uint8Array.of(0xff, 0xff));
  expect((await collect(ask())).error?.code).toBe('YM-STREAM-FRAME');
});

it('a reader that leaves early cancels at once', async () => {
  let reason: Promise<YardError> | undefined;
  await serve(async ({ send, signal }) => {
    reason = aborted(signal);
    send(delta('a'));
    await reason;
  });
  const began = performance.now();
  for await (const _ of ask()) break;
  expect((await reason)?.code).toBe('YM-CANCELLED');
  expect(performance.now() - began).toBeLessThan(1500); // not at the next beat
});

it('a reader that is aborted cancels at once, also while it waits for a frame', async () => {
  const abort = new AbortController();
  let reason: Promise<YardError> | undefined;
  await serve(async ({ signal }) => void (await (reason = aborted(signal))));
  const collected = collect(ask({ signal: abort.signal }));
  await expect.poll(() => reason !== undefined).toBe(true);
  abort.abort(new Error('no longer wanted'));
  expect((await collected).error?.message).toBe('no longer wanted');
  expect((await reason)?.code).toBe('YM-CANCELLED');
});

it('a cancel reaches the request that it names and no other', async () => {
  const ended: string[] = [];
  await serve(async ({ signal, send, tenant }) => {
    send(delta('a'));
    await Promise.race([aborted(signal).then(() => ended.push(tenant)), sleep(300)]);
    send(delta('b'));
  });
  const other = collect(ask());
  for await (const _ of ask()) break;
  expect((await other).seen).toEqual(['a', 'b']);
  expect(ended).toHaveLength(1);
});

it('the deadline ends both sides', async () => {
  let reason: Promise<YardError> | undefined;
  await serve(async ({ signal }) => void (await (reason = aborted(signal))));
  expect((await collect(ask({ timeoutMs: 100 }))).error).toMatchObject({ class: 'TIMEOUT' });
  expect(['YM-TIMEOUT', 'YM-CANCELLED']).toContain((await reason)?.code);
});

it('the same request id twice is refused, and the first one is not disturbed', async () => {
  await serve(async ({ send }) => {
    await sleep(100);
    send(delta('a'));
  });
  const first = collect(ask({ requestId: 'same' }));
  await sleep(20);
  expect((await collect(ask({ requestId: 'same' }))).error?.class).toBe('CONFLICT');
  expect((await first).seen).toEqual(['a']);
});

it('a long silence is bridged by beats, and renewals keep the server going', async () => {
  await serve(async ({ send }) => {
    await sleep(7_000); // longer than three beats: without beats or renewals either side would give up
    send(delta('late'));
  });
  expect(await collect(ask())).toEqual({ seen: ['late'], error: undefined });
});

it('a server that fell silent is given up after three beats', async () => {
  await fake(encodeDataFrame(0, new Uint8Array()));
  const { seen, error } = await collect(ask());
  expect(seen).toHaveLength(1);
  expect([error?.class, error?.code]).toEqual(['UNAVAILABLE', 'YM-STREAM-SILENT']);
});

it('a server whose reader is gone ends its work after three beats', async () => {
  let reason: Promise<YardError> | undefined;
  await serve(async ({ signal }) => void (await (reason = aborted(signal))));
  const reader = await login('dispatcher');
  void collect(reader.stream(Router.chat, TENANT, {}, { requestId: 'gone', timeoutMs: 60_000 }));
  await expect.poll(() => reason !== undefined).toBe(true);
  await reader.nc.close(); // as a kill: it says nothing any more
  expect((await reason)?.code).toBe('YM-READER-GONE');
});
