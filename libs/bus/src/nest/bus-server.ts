import type { MessageInitShape } from '@bufbuild/protobuf';
import { type CustomTransportStrategy, type MessageHandler, Server } from '@nestjs/microservices';
import { YardError } from '@yardmaster/contracts';
import { isObservable, lastValueFrom } from 'rxjs';
import type { Bus } from '../bus.js';
import type { WorkOptions } from '../work.js';
import { BUS_TRANSPORT, REGISTRATION, type Registration } from './handlers.js';

export interface BusServerOptions {
  /** By stream: what configuration decides about a queue (slots, attempts); comes on top of the decorator's options. */
  work?: Readonly<Record<string, Partial<WorkOptions>>>;
}

/** Serves the bus's handlers among a Nest application's: `connectMicroservice({ strategy: new BusServer(bus) })`. */
export class BusServer extends Server implements CustomTransportStrategy {
  override readonly transportId = BUS_TRANSPORT;
  // The handler's observable is awaited here, so its errors are the bus's: Nest must not report them a second time.
  override readonly propagatesEventHandlerErrors = true;
  readonly #bus: Bus;
  readonly #options: BusServerOptions;
  readonly #running: { stop(): Promise<void> }[] = [];

  constructor(bus: Bus, options: BusServerOptions = {}) {
    super();
    this.#bus = bus;
    this.#options = options;
  }

  /** Two handlers for one operation or queue are a mistake that Nest would hide: the last one would win. */
  override addHandler(
    pattern: unknown,
    callback: MessageHandler,
    isEventHandler = false,
    extras: Record<string, unknown> = {},
  ): void {
    if (!isEventHandler && this.messageHandlers.has(this.normalizePattern(pattern as string)))
      throw new YardError('INVALID', 'YM-DUPLICATE-HANDLER', `There are two handlers for "${String(pattern)}".`);
    super.addHandler(pattern, callback, isEventHandler, extras);
  }

  listen(callback: (error?: unknown) => void): void {
    this.#listen().then(() => callback(), callback);
  }

  async #listen(): Promise<void> {
    for (const handler of this.messageHandlers.values()) {
      const registration = handler.extras?.[REGISTRATION] as Registration | undefined;
      if (registration !== undefined) this.#register(registration, handler);
    }
    await this.#bus.flush();
  }

  #register(registration: Registration, handler: MessageHandler): void {
    const call = async (message: unknown, context: unknown): Promise<unknown> => {
      const result: unknown = await handler(message, context);
      // Errors come through the observable only: Nest's proxy never throws.
      return isObservable(result) ? lastValueFrom(result, { defaultValue: undefined }) : result;
    };
    switch (registration.kind) {
      case 'serves': {
        const { operation } = registration;
        if (operation.kind === 'rpc')
          this.#running.push(
            this.#bus.serve(
              operation,
              async (request, context) =>
                ((await call(request, context)) ?? {}) as MessageInitShape<typeof operation.response>,
            ),
          );
        else
          this.#running.push(
            this.#bus.serveStream(operation, async (request, context) => void (await call(request, context))),
          );
        return;
      }
      case 'works': {
        const { work } = registration;
        const options = { slots: 1, ...registration.options, ...this.#options.work?.[work.stream] };
        this.#running.push(
          this.#bus.work(work, async (message, context) => void (await call(message, context)), options),
        );
        return;
      }
      case 'hears': {
        const deaf = this.#bus.hear(
          registration.subject,
          registration.schema,
          async (message, context) => void (await call(message, context)),
        );
        this.#running.push({ stop: async () => deaf() });
      }
    }
  }

  /** No new work, then a wait for what runs. The connection stays: handlers need it to finish. */
  async close(): Promise<void> {
    await Promise.all(this.#running.splice(0).map((each) => each.stop()));
  }

  on(): never {
    throw new Error('The bus has no events: watch bus.status().');
  }

  unwrap<T>(): T {
    return this.#bus as T;
  }
}
