import { type DynamicModule, Inject, Module, type OnApplicationShutdown } from '@nestjs/common';
import { Bus, type BusOptions } from '../bus.js';

/** Injects the `Bus`: `constructor(@Inject(BUS) private readonly bus: Bus)`. */
export const BUS = Symbol('yardmaster.Bus');

/** One connection for the whole application, closed when everything that serves has stopped. */
@Module({})
export class BusModule implements OnApplicationShutdown {
  readonly #bus: Bus;

  constructor(@Inject(BUS) bus: Bus) {
    this.#bus = bus;
  }

  /** Connects at start-up; a factory gets its arguments from `inject`. */
  static forRoot(
    options:
      | BusOptions
      | {
          useFactory: (...args: never[]) => BusOptions | Promise<BusOptions>;
          inject?: (string | symbol | (abstract new (...args: never[]) => unknown))[];
        },
  ): DynamicModule {
    const provider =
      'useFactory' in options
        ? {
            provide: BUS,
            inject: options.inject ?? [],
            useFactory: async (...args: unknown[]) => Bus.connect(await options.useFactory(...(args as never[]))),
          }
        : { provide: BUS, useFactory: () => Bus.connect(options) };
    return { module: BusModule, global: true, providers: [provider], exports: [BUS] };
  }

  // Not earlier: Nest stops HTTP and the transports between onModuleDestroy and this, and running handlers need the bus.
  async onApplicationShutdown(): Promise<void> {
    await this.#bus.close();
  }
}
