import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { YardError } from '@yardmaster/contracts';
import type { Logger } from '@yardmaster/service-kit';
import type { FastifyReply } from 'fastify';

import { isOpenAiPath, statusOf, toOpenAiError, toProblem } from './problem.js';
import type { ApiRequest } from './request.js';

/** Every error of every route, in one shape. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly logger: Logger) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    this.reply(exception, http.getRequest<ApiRequest>(), http.getResponse<FastifyReply>());
  }

  /** Answers a request with what went wrong. */
  reply(exception: unknown, request: ApiRequest, reply: FastifyReply): void {
    const error = translate(exception, request);
    const status = statusOf(error);
    if (status >= 500)
      this.logger.error(
        { trace: request.traceId, method: request.method, url: pathOf(request), err: exception },
        error.message,
      );
    // A stream that has begun cannot change its status any more: its end is the message.
    if (reply.raw.headersSent) {
      reply.raw.destroy();
      return;
    }
    if (status === 401) void reply.header('www-authenticate', 'Bearer realm="yardmaster"');
    if (error.retryAfterMs !== undefined)
      void reply.header('retry-after', String(Math.ceil(error.retryAfterMs / 1000)));
    if (status === 413) readToItsEnd(request, reply);
    const path = pathOf(request);
    void reply
      .status(status)
      .header('content-type', isOpenAiPath(path) ? 'application/json' : 'application/problem+json')
      .send(
        JSON.stringify(
          isOpenAiPath(path)
            ? toOpenAiError(error, request.traceId)
            : toProblem(error, { instance: path, traceId: request.traceId }),
        ),
      );
  }
}

/** Longer announced bodies are cut off, whether or not their sender reads why. */
const MOST_READ_BYTES = 64 * 1_048_576;

/**
 * Fastify closes the connection on a body that is too large; one who is still sending would meet a reset before the
 * answer. So what was announced is read (by Node, after the answer) and forgotten, within the server's request timeout.
 */
function readToItsEnd(request: ApiRequest, reply: FastifyReply): void {
  if (Number(request.headers['content-length']) <= MOST_READ_BYTES) void reply.removeHeader('connection');
}

const pathOf = (request: ApiRequest) => request.url.split('?')[0] ?? '/';

/** Errors of the framework in our terms. */
function translate(exception: unknown, request: ApiRequest): YardError {
  if (YardError.is(exception)) return exception;
  const status =
    exception instanceof HttpException
      ? exception.getStatus()
      : ((exception as { statusCode?: unknown } | null)?.statusCode ?? 500);
  switch (status) {
    case 404:
      return new YardError(
        'NOT_FOUND',
        'YM-ROUTE-UNKNOWN',
        `There is no ${request.method} ${pathOf(request)}; see /docs.`,
      );
    case 414:
      return new YardError('NOT_FOUND', 'YM-ROUTE-UNKNOWN', 'Nothing has a name as long as that in the path.');
    case 413:
      return new YardError(
        'INVALID',
        'YM-BODY-SIZE',
        `The request body is larger than the ${request.routeOptions.bodyLimit} bytes that this route takes.`,
      );
    case 415:
      return new YardError('INVALID', 'YM-MEDIA-TYPE', 'Send the body as application/json.');
    default:
      if (typeof status === 'number' && status >= 400 && status < 500)
        return new YardError(
          'INVALID',
          'YM-REQ-INVALID',
          exception instanceof Error ? exception.message : 'The request is malformed.',
        );
      return YardError.from(exception);
  }
}
