import { startService } from '@yardmaster/service-kit';
import { ExecutorShellConfig } from './config.js';
import { ExecutorShellModule } from './executor-shell.module.js';

await startService({ name: 'executor-shell', config: ExecutorShellConfig, module: ExecutorShellModule });
