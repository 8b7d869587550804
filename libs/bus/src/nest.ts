import 'reflect-metadata';
import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import { type CustomTransportStrategy, MessagePattern, type MessageHandler, Server } from '@nestjs/microservices';
import type { Rpc, StreamedRpc, Work } from '@yardmaster/contracts';
import { lastValueFrom, type Observable, throwError } from 'rxjs';
import type { Bus } from './bus.js';
import type { Served } from './rpc-server.js';
import type { WorkOptions, Worker } from './work.js';

/** Handlers of Nest on the bus: `@Serves(Router.plan)`, `@Works(Runs.work)`; arguments by `@Payload()` and `@Ctx()`. */
type Operation = Rpc | StreamedRpc | Work;

interface Registered {
  operation: Operation;
  options: WorkOptions | undefined;
}

const registered = new Map<string, Registered>();

function patternOf(operation: Operation): string {
  return operation.kind === 'work' ? `work ${operation.stream}` : `${operation.service}.${operation.operation}`;
}

function register(operation: Operation, options?: WorkOptions): MethodDecorator {
  const pattern = patternOf(operation);
  registered.set(pattern, { operation, options });
  // The typed overloads of Nest want to know the handler's arguments; the catalogue knows them.
  return MessagePattern(pattern) as unknown as MethodDecorator;
}

/** Answers an operation of the catalogue. The handler gets the request and a `ServeContext` (streamed: `StreamContext`). */
export const Serves = (operation: Rpc | StreamedRpc): MethodDecorator => register(operation);

/** Works on a queue of the catalogue. The handler gets the message and a `WorkContext`. */
export const Works = (work: Work, options: WorkOptions): MethodDecorator => register(work, options);

/** Nest's transport over the bus: handlers stay ordinary Nest message handlers, with its injection and its filters. */
export class BusServer extends Server implements CustomTransportStrategy {
  private readonly served: (Served | Worker)[] = [];

  constructor(private readonly bus: Bus) {
    super();
  }

  /** Two handlers for one operation would race for its messages: the start fails instead. */
  override addHandler(
    pattern: string,
    callback: MessageHandler,
    isEventHandler = false,
    extras: Record<string, unknown> = {},
  ): void {
    if (this.messageHandlers.has(pattern)) throw new Error(`two handlers serve "${pattern}"`);
    super.addHandler(pattern, callback, isEventHandler, extras);
  }

  listen(callback: (error?: unknown) => void): void {
    try {
      for (const [pattern, handler] of this.messageHandlers) this.serve(pattern, handler);
      callback();
    } catch (error) {
      callback(error);
    }
  }

  private serve(pattern: string, handler: MessageHandler): void {
    const found = registered.get(pattern);
    if (found === undefined) throw new Error(`"${pattern}" is no operation of the catalogue: use @Serves or @Works`);
    // Nest answers with an observable, and its error can be seen nowhere else.
    const call = async (data: unknown, context: unknown): Promise<unknown> =>
      lastValueFrom(this.transformToObservable((await handler(data, context)) as Observable<unknown>), {
        defaultValue: undefined,
      });
    const { operation, options } = found;
    if (operation.kind === 'rpc')
      this.served.push(this.bus.serve(operation, (request, context) => call(request, context) as Promise<never>));
    else if (operation.kind === 'streamed-rpc')
      this.served.push(
        this.bus.serveStream(operation, async (request, context) => void (await call(request, context))),
      );
    else
      this.served.push(
        this.bus.work(operation, async (message, context) => void (await call(message, context)), options!),
      );
  }

  /** Takes nothing new and waits for what runs. */
  async close(): Promise<void> {
    await Promise.all(this.served.map((each) => each.stop()));
  }

  on(): void {
    // Nest asks for it; the bus reports its state through readiness.
  }

  unwrap<T>(): T {
    return this.bus as unknown as T;
  }
}

/** Keeps errors as they are: Nest's own filter turns everything it does not know into "Internal server error". */
@Catch()
export class RethrowFilter implements ExceptionFilter {
  catch(error: unknown, _host: ArgumentsHost): Observable<never> {
    return throwError(() => error);
  }
}
