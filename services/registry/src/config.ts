import { ServiceConfig } from '@yardmaster/service-kit';

/** The registry has the shared variables only. */
export class RegistryConfig extends ServiceConfig {}
