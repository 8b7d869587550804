import type { AddressInfo } from 'node:net';
import { type DynamicModule } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { childTrace } from '@yardmaster/bus';
import { YardError } from '@yardmaster/contracts';
import { type ServiceContext } from '@yardmaster/service-kit';
import { parseJson } from '@yardmaster/guard';
import { type Health, type Logger, NestLogger } from '@yardmaster/service-kit';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { TenantKeys } from '../auth/tenant-keys.js';
import { ApiConfig } from '../config.js';
import { installDocs } from './docs.js';
import { ProblemFilter } from './problem.filter.js';
import { RateLimit } from './rate-limit.js';
import type { ApiRequest } from './request.js';

/** Routes that need no key, by their pattern: however a path is spelt, what it leads to decides. Undefined is a 404. */
const isPublic = (route: string | undefined) =>
  route === undefined || route === '/openapi.json' || /^\/(livez|readyz|errors|docs)(\/|-|$)/.test(route);

const LOOPBACK = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i;

/** A page of another site can have its own name lead to us: only the names that we go by are answered. */
function assertHost(request: FastifyRequest, config: ApiConfig): void {
  const host = request.headers.host ?? '';
  const names = config.hosts?.split(',').map((name) => name.trim().toLowerCase());
  const ours =
    LOOPBACK.test(host) ||
    (names === undefined
      ? !['127.0.0.1', 'localhost', '::1'].includes(config.host)
      : names.includes(host.toLowerCase()) || names.includes(host.toLowerCase().replace(/:\d+$/, '')));
  if (!ours) throw new YardError('INVALID', 'YM-HOST', 'This server does not go by the name in the Host header.');
}

/** Characters of an id or a name in a path; nothing that is there has a longer one. */
const MOST_PARAM = 200;

/** The HTTP application over `module`, ready to listen. */
export async function createApi(
  module: DynamicModule,
  context: { log: Logger; health: Health; config: ApiConfig },
): Promise<NestFastifyApplication> {
  const adapter = new FastifyAdapter({
    bodyLimit: context.config.maxBodyBytes,
    // One proxy in front at most is trusted by what is in front; nothing here depends on the caller's address.
    trustProxy: false,
    requestTimeout: 30_000,
    return503OnClosing: true,
    // A stream that is open when the service stops is ended by its reader's feed; idle sockets must not hold it up.
    forceCloseConnections: true,
    routerOptions: { maxParamLength: MOST_PARAM },
    // What the router refuses before there is a route has our shape too.
    frameworkErrors: (error: Error, request: unknown, reply: unknown) => {
      (request as ApiRequest).traceId = childTrace(undefined).slice(3, 35);
      new ProblemFilter(context.log).reply(error, request as ApiRequest, reply as FastifyReply);
    },
  });
  const app = await NestFactory.create<NestFastifyApplication>(module, adapter, {
    logger: new NestLogger(context.log),
    abortOnError: false,
    bodyParser: false,
  });
  app.useGlobalFilters(new ProblemFilter(context.log));
  const keys = app.get(TenantKeys, { strict: false });
  const limit = app.get(RateLimit, { strict: false });
  const fastify = adapter.getInstance() as unknown as FastifyInstance;

  fastify.addHook('onRequest', async (incoming, reply) => {
    const request = incoming as ApiRequest;
    const given = request.headers.traceparent;
    request.trace = childTrace(typeof given === 'string' ? given : undefined);
    request.traceId = request.trace.slice(3, 35);
    void reply.header('x-request-id', request.traceId);
    void reply.header('x-content-type-options', 'nosniff');
    if (request.headers['content-encoding'] !== undefined && request.headers['content-encoding'] !== 'identity')
      throw new YardError('INVALID', 'YM-CONTENT-ENCODING', 'Compressed bodies are not taken; send the body as it is.');
    assertHost(request, context.config);
    if (isPublic(request.routeOptions.url)) return;
    // Before the body is read: nobody without a key makes us parse a megabyte.
    request.caller = keys.authenticate(request.headers.authorization);
    await limit.take(request.caller.tenant, (name, value) => void reply.header(name, value));
  });

  fastify.removeAllContentTypeParsers();
  fastify.addContentTypeParser(/^application\/(.+\+)?json\s*(;|$)/, { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      const bytes = body as Buffer;
      done(null, bytes.length === 0 ? {} : parseJson(bytes, { maxBytes: context.config.maxBodyBytes }));
    } catch (error) {
      done(error as Error);
    }
  });
  // A POST without a body needs no content type.
  fastify.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => {
    if ((body as Buffer).length === 0) done(null, {});
    else done(new YardError('INVALID', 'YM-MEDIA-TYPE', 'Send the body as application/json.'));
  });
  fastify.addHook('preHandler', async (request) => {
    if (request.body === undefined || request.body === null) request.body = {};
  });

  for (const path of ['/livez', '/readyz'])
    fastify.get(path, async (_request, reply) => {
      const probe = await context.health.probe(path);
      await reply.status(probe?.status ?? 404).send(probe?.body ?? {});
    });
  installDocs(app, fastify);
  await app.init();
  return app;
}

/** Listens on the configured port, or on a free one when that is in use and `portFallback` allows it. */
export async function listen(
  app: NestFastifyApplication,
  { config, log }: Pick<ServiceContext<ApiConfig>, 'config' | 'log'>,
): Promise<{ app: NestFastifyApplication; listening: { api_url: string } }> {
  try {
    await app.listen(config.port, config.host);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || !config.portFallback) throw error;
    log.warn({ port: config.port }, 'the port is in use by another program: a free one is taken');
    await app.listen(0, config.host);
  }
  const { port } = app.getHttpServer().address() as AddressInfo;
  const host = config.host === '0.0.0.0' ? '127.0.0.1' : config.host;
  return { app, listening: { api_url: `http://${host}:${port}` } };
}
