import type { Bus } from '@yardmaster/bus';
import type { Health } from './health.js';
import type { Logger } from './logging.js';
import type { ServiceConfig } from './service-config.js';

/** Injection tokens of what every service has. */
export const BUS = Symbol('yardmaster.bus');
export const LOGGER = Symbol('yardmaster.logger');
export const HEALTH = Symbol('yardmaster.health');
export const SERVICE = Symbol('yardmaster.service');

/** What `startService` gives to the modules of a service. */
export interface ServiceContext<C extends ServiceConfig = ServiceConfig> {
  name: string;
  /** Another one after every start: names this process in leases and claims. */
  instance: string;
  config: C;
  log: Logger;
  health: Health;
  bus: Bus;
  /** Called after all work has ended, before the bus is closed; last registered first. */
  onClose(close: () => Promise<void> | void): void;
}
