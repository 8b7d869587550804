import type { LoggerService } from '@nestjs/common';
import pino, { type Logger } from 'pino';

export type { Logger } from 'pino';

const REDACTED = ['password', 'pass', 'secret', 'token', 'authorization', 'api_key', 'apiKey', 'key'];

/** A JSON logger on stdout. Values under well-known secret names are replaced; errors are written without their input. */
export function createLogger(service: string, level: string): Logger {
  return pino({
    level,
    base: { service },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: REDACTED.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]), censor: '[secret]' },
    serializers: { err: serializeError, error: serializeError },
  });
}

function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  const fields = error as { code?: unknown; class?: unknown };
  return {
    name,
    message,
    ...(fields.class === undefined ? {} : { class: fields.class }),
    ...(fields.code === undefined ? {} : { code: fields.code }),
    stack: stack?.split('\n').slice(1, 6).join('\n'),
    ...(cause === undefined ? {} : { cause: serializeError(cause) }),
  };
}

/** Nest's own lines through pino; its start-up chatter goes to debug. */
export class NestLogger implements LoggerService {
  constructor(private readonly logger: Logger) {}
  log(message: unknown, context?: string): void {
    this.logger.debug({ context }, String(message));
  }
  error(message: unknown, stack?: string, context?: string): void {
    this.logger.error({ context, stack }, String(message));
  }
  warn(message: unknown, context?: string): void {
    this.logger.warn({ context }, String(message));
  }
  debug(message: unknown, context?: string): void {
    this.logger.debug({ context }, String(message));
  }
  verbose(message: unknown, context?: string): void {
    this.logger.trace({ context }, String(message));
  }
  fatal(message: unknown, context?: string): void {
    this.logger.fatal({ context }, String(message));
  }
}
