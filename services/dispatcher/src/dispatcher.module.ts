import { Module } from '@nestjs/common';
import { ConversationStore } from '@yardmaster/conversation';
import { connectionOf, platformConfigProvider, SERVICE, type ServiceContext } from '@yardmaster/service-kit';
import { DispatcherConfig } from './config.js';
import { CallEmbedController } from './embed/call-embed.controller.js';
import { CallEmbedService } from './embed/call-embed.service.js';
import { ApprovalPolicy } from './runs/approval-policy.js';
import { Audit } from './runs/audit.js';
import { RunCommands } from './runs/commands.js';
import { Grants } from './runs/grants.js';
import { Hooks, MetricsHook, RUN_HOOKS } from './runs/hooks.js';
import { Leader } from './runs/leader.js';
import { MetaTools } from './runs/meta-tools.js';
import { ModelCall } from './runs/model-call.js';
import { QueueJanitor } from './runs/queue-janitor.js';
import { RunService } from './runs/run.service.js';
import { RunWorker } from './runs/run-worker.js';
import { TenantPolicies } from './runs/tenant-policies.js';
import { ToolFront } from './runs/tool-front.js';
import { ToolResults } from './runs/tool-results.js';
import { ToolRound } from './runs/tool-round.js';
import { ToolSnapshot } from './runs/tool-snapshot.js';

@Module({
  controllers: [CallEmbedController],
  providers: [
    { provide: DispatcherConfig, useFactory: (service: ServiceContext) => service.config, inject: [SERVICE] },
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
    CallEmbedService,
    ToolSnapshot,
    ToolResults,
    RunCommands,
    MetaTools,
    ModelCall,
    ToolFront,
    ToolRound,
    Grants,
    Audit,
    TenantPolicies,
    ApprovalPolicy,
    MetricsHook,
    { provide: RUN_HOOKS, useFactory: (metrics: MetricsHook) => [metrics], inject: [MetricsHook] },
    Hooks,
    RunService,
    QueueJanitor,
    RunWorker,
    Leader,
  ],
})
export class DispatcherModule {}
