import { boundNewSpace, boundOldSpaceGrowth, startService } from '@yardmaster/service-kit';
import { RegistryConfig } from './config.js';
import { RegistryModule } from './registry.module.js';

boundNewSpace(16 * 1024 * 1024);
boundOldSpaceGrowth(40);
await startService({ name: 'registry', config: RegistryConfig, module: RegistryModule });
