import { Module } from '@nestjs/common';
import { ConversationStore } from '@yardmaster/conversation';
import { connectionOf, platformConfigProvider, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { Accounting } from './accounting/accounting.service.js';
import { ChatController } from './chat/chat.controller.js';
import { ChatService } from './chat/chat.service.js';
import { RouterConfig } from './config.js';
import { EmbedController } from './embed/embed.controller.js';
import { EmbedService } from './embed/embed.service.js';
import { PromptService } from './prompt/prompt.service.js';
import { FailoverState } from './providers/failover-state.js';
import { ProviderDirectory } from './providers/provider-directory.js';
import { ProvidersController } from './providers/providers.controller.js';

@Module({
  controllers: [ChatController, EmbedController, ProvidersController],
  providers: [
    { provide: RouterConfig, useFactory: (service: ServiceContext) => service.config, inject: [SERVICE] },
    {
      provide: ConversationStore,
      inject: [SERVICE],
      useFactory: async (service: ServiceContext) => {
        const store = await ConversationStore.connect({
          ...connectionOf(service.config),
          owner: service.instance,
          mode: 'worker',
        });
        service.health.addReadiness('redis', () => store.checkReady().then(() => undefined));
        service.onClose(() => store.close());
        return store;
      },
    },
    platformConfigProvider,
    FailoverState,
    ProviderDirectory,
    PromptService,
    Accounting,
    ChatService,
    EmbedService,
  ],
})
export class RouterModule {}
