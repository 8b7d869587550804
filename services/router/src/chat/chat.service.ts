import { Injectable } from '@nestjs/common';
import type { StreamContext } from '@yardmaster/bus';
import type { ChatFrameSchema, ChatRequest } from '@yardmaster/contracts';
import { Accounting } from '../accounting/accounting.service.js';
import { RouterConfig } from '../config.js';
import { balanceCandidates } from '../failover/balancing.js';
import { runChat } from '../failover/run-chat.js';
import { PromptService } from '../prompt/prompt.service.js';
import { FailoverState } from '../providers/failover-state.js';
import { ProviderDirectory } from '../providers/provider-directory.js';
import { toCandidate } from '../routing/candidates.js';
import { FrameSender } from './frame-sender.js';
import { toChatEnd } from './wire-result.js';

/** Gets one request answered and streams the answer back. */
@Injectable()
export class ChatService {
  constructor(
    private readonly prompts: PromptService,
    private readonly directory: ProviderDirectory,
    private readonly failover: FailoverState,
    private readonly accounting: Accounting,
    private readonly config: RouterConfig,
  ) {}

  /** Sends frames until the answer is complete; throws the error that the caller gets, as a YardError. */
  async answer(request: ChatRequest, context: StreamContext<typeof ChatFrameSchema>): Promise<void> {
    await this.accounting.admit(context.tenant);
    const prompt = await this.prompts.load(context.tenant, request);
    const planned = this.directory.plan({
      model: request.model,
      providers: request.providers,
      modelFallbacks: Object.fromEntries(
        Object.entries(request.modelFallbacks).map(([model, list]) => [model, list.models]),
      ),
      toolDispatcher:
        request.toolDispatcher === 'native' || request.toolDispatcher === 'xml' ? request.toolDispatcher : 'auto',
      render: request.render,
      needsTools: prompt.hasTools,
      needsVision: prompt.hasImages,
    });
    const usable = planned.usable.map((candidate) => toCandidate(candidate, this.directory.routing));
    if (usable.length === 0) throw this.directory.nothingUsable(planned.candidates, request.model);

    const candidates = balanceCandidates(
      usable,
      this.directory.balancing,
      request.conversationId || request.requestId,
      this.failover.load,
      Math.random,
    );
    const sender = new FrameSender((frame) => context.send(frame), this.config.coalesceMs);
    const frames = runChat(
      {
        id: request.requestId,
        ...(request.conversationId === '' ? {} : { conversationId: request.conversationId }),
        deadlineAt: Date.now() + context.deadlineMs,
        ...(request.maxOutputTokens === undefined ? {} : { maxTokens: request.maxOutputTokens }),
        render: prompt.renderer,
        isServing: (candidate) => this.directory.isServing(candidate),
        signal: context.signal,
        restartAfterCommit: true,
      },
      candidates,
      this.failover.depsOf((record) => this.accounting.attempted(context.tenant, record)),
    );
    for await (const frame of frames) {
      switch (frame.type) {
        case 'delta':
        case 'reasoning':
          sender.piece(frame.type, frame.text);
          break;
        case 'start': {
          const { provider, model, dialect, attempt, readWhole = false } = frame;
          sender.frame({ kind: { case: 'start', value: { provider, model, dialect, attempt, readWhole } } });
          break;
        }
        case 'call':
          // The end frame holds every call; telling each as it is complete lets a reader show it early.
          sender.frame({
            kind: {
              case: 'call',
              value: { index: frame.index, id: frame.id, name: frame.name, arguments: frame.arguments },
            },
          });
          break;
        case 'usage':
          break; // stands in the end frame
        case 'attempt_reset':
          sender.reset({ kind: { case: 'attemptReset', value: { reason: frame.reason } } });
          break;
        case 'error':
          sender.drop();
          throw frame.error;
        case 'end':
          sender.end({ kind: { case: 'end', value: toChatEnd(frame.result) } });
          break;
      }
    }
  }
}
