import { Controller } from '@nestjs/common';
import { type StreamContext } from '@yardmaster/bus';
import { Serves } from '@yardmaster/bus/nest';
import { type ChatFrameSchema, type ChatRequest, Router } from '@yardmaster/contracts';
import { ChatService } from './chat.service.js';

@Controller()
export class ChatController {
  constructor(private readonly chat: ChatService) {}

  @Serves(Router.chat)
  answer(request: ChatRequest, context: StreamContext<typeof ChatFrameSchema>): Promise<void> {
    return this.chat.answer(request, context);
  }
}
