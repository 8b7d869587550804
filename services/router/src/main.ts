import { boundNewSpace, boundOldSpaceGrowth, startService } from '@yardmaster/service-kit';
import { RouterConfig } from './config.js';
import { RouterModule } from './router.module.js';

boundNewSpace(16 * 1024 * 1024);
boundOldSpaceGrowth(40);
await startService({ name: 'router', config: RouterConfig, module: RouterModule });
