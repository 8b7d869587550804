import { startService } from '@yardmaster/service-kit';
import { RouterConfig } from './config.js';
import { RouterModule } from './router.module.js';

await startService({ name: 'router', config: RouterConfig, module: RouterModule });
