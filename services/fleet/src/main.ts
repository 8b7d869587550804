import { startService } from '@yardmaster/service-kit';
import { FleetConfig } from './config.js';
import { FleetModule } from './fleet.module.js';

await startService({ name: 'fleet', config: FleetConfig, module: FleetModule });
