import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Role, TenantId } from '@yardmaster/contracts';
import type { FastifyRequest } from 'fastify';

/** Who asks: taken from the API key and from nowhere else. */
export interface Caller {
  tenant: TenantId;
  keyId: string;
  keyName: string;
  roles: readonly Role[];
}

/** A request on its way through the api. */
export interface ApiRequest extends FastifyRequest {
  caller: Caller;
  /** W3C traceparent, passed on to whom we ask. */
  trace: string;
  traceId: string;
}

/** The caller, as a parameter of a handler. */
export const CurrentCaller = createParamDecorator((_: unknown, context: ExecutionContext): Caller => {
  return context.switchToHttp().getRequest<ApiRequest>().caller;
});
