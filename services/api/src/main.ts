import { startService } from '@yardmaster/service-kit';
import { ApiModule } from './api.module.js';
import { ApiConfig } from './config.js';
import { createApi, listen } from './http/application.js';

await startService({
  name: 'api',
  config: ApiConfig,
  module: ApiModule,
  createApplication: async (module, context) => listen(await createApi(module, context), context),
});
