import { startService } from '@yardmaster/service-kit';
import { RouterConfig } from './config.js';
import { RouterModule } from './router.module.js';
import { boundYoungGeneration } from './young-generation.js';

boundYoungGeneration(16 * 1024 * 1024);
await startService({ name: 'router', config: RouterConfig, module: RouterModule });
