import { startService } from '@yardmaster/service-kit';
import { DispatcherConfig } from './config.js';
import { DispatcherModule } from './dispatcher.module.js';

await startService({ name: 'dispatcher', config: DispatcherConfig, module: DispatcherModule });
