import type { MessageInitShape } from '@bufbuild/protobuf';
import { Controller } from '@nestjs/common';
import type { ServeContext } from '@yardmaster/bus';
import { Serves } from '@yardmaster/bus/nest';
import { type CallEmbedRequest, type CallEmbedResponseSchema, Dispatcher } from '@yardmaster/contracts';
import { CallEmbedService } from './call-embed.service.js';

@Controller()
export class CallEmbedController {
  constructor(private readonly embeddings: CallEmbedService) {}

  @Serves(Dispatcher.embed)
  embed(request: CallEmbedRequest, context: ServeContext): Promise<MessageInitShape<typeof CallEmbedResponseSchema>> {
    return this.embeddings.embed(request, context);
  }
}
