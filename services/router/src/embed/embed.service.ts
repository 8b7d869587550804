import type { MessageInitShape } from '@bufbuild/protobuf';
import { Injectable } from '@nestjs/common';
import type { ServeContext } from '@yardmaster/bus';
import { type EmbedRequest, type EmbedResponseSchema, YardError } from '@yardmaster/contracts';
import { Accounting } from '../accounting/accounting.service.js';
import { toUsage } from '../chat/wire-result.js';
import { balanceCandidates } from '../failover/balancing.js';
import type { ChatResult } from '../failover/frame.js';
import { runChat } from '../failover/run-chat.js';
import { FailoverState } from '../providers/failover-state.js';
import { ProviderDirectory } from '../providers/provider-directory.js';
import { toEmbedder } from '../routing/candidates.js';

/** Vectors of texts, through the same engine as answers: keys, cool-downs, circuits, retries, accounting. */
@Injectable()
export class EmbedService {
  constructor(
    private readonly directory: ProviderDirectory,
    private readonly failover: FailoverState,
    private readonly accounting: Accounting,
  ) {}

  /** One vector for each input, in their order. Throws what the engine gives up with, as a YardError. */
  async embed(
    request: EmbedRequest,
    context: Pick<ServeContext, 'tenant' | 'deadlineMs' | 'signal'>,
  ): Promise<MessageInitShape<typeof EmbedResponseSchema>> {
    await this.accounting.admit(context.tenant);
    const model = request.model || this.directory.embeddingModel;
    if (model === undefined)
      throw new YardError(
        'INVALID',
        'YM-LLM-NO-EMBEDDINGS',
        'No model for embeddings is named or configured: see routing.embedding_model.',
      );
    const planned = this.directory.plan({
      model,
      providers: request.providers,
      modelFallbacks: {},
      toolDispatcher: 'auto',
      needsTools: false,
      needsVision: false,
      needsEmbeddings: true,
    });
    // Vectors of two models cannot be compared, so another model never stands in.
    const pairs = planned.usable.filter((pair) => pair.model === model);
    if (pairs.length === 0) throw this.directory.nothingUsable(planned.candidates, model);
    const candidates = balanceCandidates(
      pairs.map((pair) => toEmbedder(pair, this.directory.routing)),
      this.directory.balancing,
      request.requestId,
      this.failover.load,
      Math.random,
    );
    const result = await this.ask(request, context, candidates);
    const vectors = result.embeddings ?? [];
    if (vectors.length !== request.inputs.length)
      throw new YardError(
        'UNAVAILABLE',
        'YM-LLM-BROKEN',
        `${result.provider} gave ${vectors.length} vectors for ${request.inputs.length} texts.`,
      );
    return {
      vectors: vectors.map((values) => ({ values })),
      provider: result.provider,
      model: result.model,
      usage: toUsage(result.usage, result.costUsd),
    };
  }

  private async ask(
    request: EmbedRequest,
    context: Pick<ServeContext, 'tenant' | 'deadlineMs' | 'signal'>,
    candidates: Parameters<typeof runChat>[1],
  ): Promise<ChatResult> {
    const frames = runChat(
      {
        id: request.requestId,
        deadlineAt: Date.now() + context.deadlineMs,
        // A text cannot be cut: its vector would be that of another text.
        render: (_, wish) =>
          wish === undefined ? { input: { messages: [], inputs: request.inputs }, turnsCut: 0 } : null,
        isServing: (candidate) => this.directory.isServing(candidate),
        signal: context.signal,
        restartAfterCommit: true,
      },
      candidates,
      this.failover.depsOf((record) => this.accounting.attempted(context.tenant, record)),
    );
    for await (const frame of frames) {
      if (frame.type === 'error') throw frame.error;
      if (frame.type === 'end') return frame.result;
    }
    throw new YardError('TIMEOUT', 'YM-LLM-TIMEOUT', 'No vectors before the deadline.');
  }
}
