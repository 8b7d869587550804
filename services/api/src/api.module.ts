import { Inject, Module, type OnApplicationBootstrap } from '@nestjs/common';
import { APP_GUARD, APP_PIPE } from '@nestjs/core';
import { ConversationStore } from '@yardmaster/conversation';
import {
  connectionOf,
  HEALTH,
  type Health,
  platformConfigProvider,
  SERVICE,
  type ServiceContext,
} from '@yardmaster/service-kit';
import { RolesGuard } from './auth/roles.guard.js';
import { TenantKeys } from './auth/tenant-keys.js';
import { ApiConfig } from './config.js';
import { ConversationsController } from './conversations/conversations.controller.js';
import { Summaries } from './conversations/summaries.js';
import { ErrorsController } from './errors/errors.controller.js';
import { FleetController } from './fleet/fleet.controller.js';
import { CheckedPipe } from './http/checked.pipe.js';
import { RateLimit } from './http/rate-limit.js';
import { McpServersController } from './mcp/mcp-servers.controller.js';
import { ChatController } from './openai/chat.controller.js';
import { ChatCompletions } from './openai/chat-completions.js';
import { AgentCompletions } from './openai/agent-completions.js';
import { EmbeddingsController } from './openai/embeddings.controller.js';
import { ModelsController } from './openai/models.controller.js';
import { ProvidersController } from './providers/providers.controller.js';
import { ApprovalsController } from './runs/approvals.controller.js';
import { KnownNames } from './runs/known-names.js';
import { RunFeeds } from './runs/run-feeds.js';
import { RunsController } from './runs/runs.controller.js';
import { RunsService } from './runs/runs.service.js';
import { KeysController } from './tenants/keys.controller.js';
import { MeController } from './tenants/me.controller.js';
import { QuotasController } from './tenants/quotas.controller.js';
import { TenantApprovalsController } from './tenants/tenant-approvals.controller.js';
import { TenantQuotas } from './tenants/tenant-quotas.js';
import { UsageController } from './tenants/usage.controller.js';
import { ToolsController } from './tools/tools.controller.js';

@Module({
  controllers: [
    RunsController,
    ApprovalsController,
    ConversationsController,
    ToolsController,
    McpServersController,
    ProvidersController,
    FleetController,
    ModelsController,
    ChatController,
    EmbeddingsController,
    KeysController,
    QuotasController,
    TenantApprovalsController,
    UsageController,
    MeController,
    ErrorsController,
  ],
  providers: [
    { provide: ApiConfig, inject: [SERVICE], useFactory: (service: ServiceContext) => service.config },
    {
      provide: ConversationStore,
      inject: [SERVICE],
      useFactory: async (service: ServiceContext) => {
        const store = await ConversationStore.connect({
          ...connectionOf(service.config),
          owner: service.instance,
          connectionName: service.name,
          mode: 'edge',
        });
        service.health.addReadiness('redis', () => store.checkReady().then(() => undefined));
        service.onClose(() => store.close());
        return store;
      },
    },
    platformConfigProvider,
    { provide: APP_GUARD, useClass: RolesGuard },
    { provide: APP_PIPE, useClass: CheckedPipe },
    TenantKeys,
    TenantQuotas,
    RateLimit,
    KnownNames,
    RunFeeds,
    RunsService,
    Summaries,
    ChatCompletions,
    AgentCompletions,
  ],
})
export class ApiModule implements OnApplicationBootstrap {
  constructor(
    @Inject(HEALTH) private readonly health: Health,
    private readonly keys: TenantKeys,
    private readonly quotas: TenantQuotas,
  ) {}

  /** Without the keys nobody can be let in: so the service is not ready, but it starts, and keeps trying. */
  async onApplicationBootstrap(): Promise<void> {
    this.health.addReadiness('tenants', () => this.keys.start().then(() => undefined));
    this.health.addReadiness('quotas', () => this.quotas.start().then(() => undefined));
    await Promise.all([this.keys.start(), this.quotas.start()].map((starting) => starting.catch(() => undefined)));
  }
}
