import { startService } from '@yardmaster/service-kit';
import { ExecutorFilesConfig } from './config.js';
import { ExecutorFilesModule } from './executor-files.module.js';

await startService({ name: 'executor-files', config: ExecutorFilesConfig, module: ExecutorFilesModule });
