import type { MessageInitShape } from '@bufbuild/protobuf';
import { Controller } from '@nestjs/common';
import type { ServeContext } from '@yardmaster/bus';
import { Serves } from '@yardmaster/bus/nest';
import { type EmbedRequest, type EmbedResponseSchema, Router } from '@yardmaster/contracts';
import { EmbedService } from './embed.service.js';

@Controller()
export class EmbedController {
  constructor(private readonly embeddings: EmbedService) {}

  @Serves(Router.embed)
  embed(request: EmbedRequest, context: ServeContext): Promise<MessageInitShape<typeof EmbedResponseSchema>> {
    return this.embeddings.embed(request, context);
  }
}
