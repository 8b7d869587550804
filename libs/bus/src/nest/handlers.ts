import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { applyDecorators, type ArgumentsHost, Catch, type ExceptionFilter, UseFilters } from '@nestjs/common';
import { Ctx, EventPattern, MessagePattern, Payload } from '@nestjs/microservices';
import type { Rpc, StreamedRpc, Work } from '@yardmaster/contracts';
import { type Observable, throwError } from 'rxjs';
import type { ServeContext } from '../rpc-server.js';
import type { StreamContext } from '../stream-server.js';
import type { WorkContext, WorkOptions } from '../work.js';

/** Marks the handlers that the bus serves among those of other transports. */
export const BUS_TRANSPORT = Symbol('yardmaster.bus');

/** What a decorator leaves for the server to find. */
export type Registration =
  | { kind: 'serves'; operation: Rpc | StreamedRpc }
  | { kind: 'works'; work: Work; options: Partial<WorkOptions> }
  | { kind: 'hears'; subject: string; schema: DescMessage };

export const REGISTRATION = 'yardmaster';

/** Nest turns every error that is not its own into "Internal server error"; the bus has a better use for it. */
@Catch()
export class RethrowFilter implements ExceptionFilter {
  catch(error: unknown, _host: ArgumentsHost): Observable<never> {
    return throwError(() => error);
  }
}

type Handler<A extends unknown[], R> = <T extends (...args: A) => R>(
  target: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<T>,
) => void;
type Answer<T> = T | Promise<T> | Observable<T>;

/** Without parameter decorators Nest hands over the payload alone; every handler gets the context too. */
const BothArguments: MethodDecorator = (target, key) => {
  Payload()(target, key, 0);
  Ctx()(target, key, 1);
};

const decorate = (pattern: MethodDecorator) =>
  applyDecorators(pattern, BothArguments, UseFilters(RethrowFilter)) as never;

/** Answers an operation: `(request, context) => answer`; of a streamed one `(request, context) => void`, with `context.send`. */
export function Serves<Q extends DescMessage, A extends DescMessage>(
  operation: Rpc<Q, A>,
): Handler<[request: MessageShape<Q>, context: ServeContext], Answer<MessageInitShape<A>>>;
export function Serves<Q extends DescMessage, F extends DescMessage>(
  operation: StreamedRpc<Q, F>,
): Handler<[request: MessageShape<Q>, context: StreamContext<F>], Answer<void>>;
export function Serves(operation: Rpc | StreamedRpc): never {
  const registration: Registration = { kind: 'serves', operation };
  return decorate(
    MessagePattern(`serves ${operation.service}.${operation.operation}`, BUS_TRANSPORT, {
      [REGISTRATION]: registration,
    }),
  );
}

/** Works on a queue: `(message, context) => void`; returning acknowledges. Options given to the server come on top. */
export function Works<M extends DescMessage>(
  work: Work<M>,
  options: Partial<WorkOptions> = {},
): Handler<[message: MessageShape<M>, context: WorkContext], Answer<void>> {
  const registration: Registration = { kind: 'works', work: work as unknown as Work, options };
  return decorate(MessagePattern(`works ${work.stream}`, BUS_TRANSPORT, { [REGISTRATION]: registration }));
}

/** Hears what is said on a subject: `(message, {subject, trace}) => void`. Several handlers may hear the same. */
export function Hears<M extends DescMessage>(
  subject: string,
  schema: M,
): Handler<[message: MessageShape<M>, context: { subject: string; trace: string | undefined }], Answer<void>> {
  const registration: Registration = { kind: 'hears', subject, schema };
  return decorate(EventPattern(`hears ${subject}`, BUS_TRANSPORT, { [REGISTRATION]: registration }) as MethodDecorator);
}
