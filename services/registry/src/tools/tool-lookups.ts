import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import { type Bus, type Served } from '@yardmaster/bus';
import { Registry } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { ToolCatalogue } from './tool-catalogue.js';
import { ToolsService } from './tools.service.js';

/**
 * Answers `Registry.get`, by far the most frequent question, without Nest's layers between the bus and the catalogue:
 * they cost several times what a look-up does.
 */
@Injectable()
export class ToolLookups implements OnApplicationBootstrap, OnApplicationShutdown {
  private served: Served | undefined;

  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly catalogue: ToolCatalogue,
    private readonly tools: ToolsService,
  ) {}

  onApplicationBootstrap(): void {
    this.served = this.bus.serve(Registry.get, ({ name }, { tenant }) =>
      this.catalogue.answer(this.tools.get(tenant, name)),
    );
  }

  async onApplicationShutdown(): Promise<void> {
    await this.served?.stop();
  }
}
