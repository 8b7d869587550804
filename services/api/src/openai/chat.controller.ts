import type { ServerResponse } from 'node:http';
import { Body, Controller, HttpCode, Post, Req, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiTags } from '@nestjs/swagger';
import { YardError } from '@yardmaster/contracts';
import type { FastifyReply } from 'fastify';
import { Needs } from '../auth/roles.guard.js';
import type { ApiRequest } from '../http/request.js';
import { KnownNames } from '../runs/known-names.js';
import { AGENT_MODEL, AgentCompletions } from './agent-completions.js';
import { ChatCompletions, type ChunkSink, usageOf } from './chat-completions.js';
import { ChatReply, finishReasonOf } from './chat-reply.js';
import { ChatRequestDto } from './chat-request.dto.js';

/** OpenAI's chat completions: the official client works against it. */
@ApiTags('openai')
@ApiBearerAuth()
@Controller('v1/chat/completions')
export class ChatController {
  constructor(
    private readonly completions: ChatCompletions,
    private readonly agents: AgentCompletions,
    private readonly known: KnownNames,
  ) {}

  @Post()
  @HttpCode(200)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Chat completion; with model agent:<name>, a run of that agent' })
  async complete(@Req() request: ApiRequest, @Body() body: ChatRequestDto, @Res() reply: FastifyReply): Promise<void> {
    const agent = AGENT_MODEL.exec(body.model)?.[1];
    await this.known.check(request.caller.tenant, agent === undefined ? { model: body.model } : { agent });
    const left = new AbortController();
    const onClose = () => left.abort();
    reply.raw.once('close', onClose);
    // From here on a repeated request would be a second run: the official client honours this on errors.
    const started = () => void reply.header('x-should-retry', 'false');
    const answer =
      agent === undefined
        ? this.chat.bind(this)
        : (...[of, asked, signal, sink]: Parameters<ChatController['chat']>) =>
            this.agent(of, asked, signal, started, sink);
    try {
      if (body.stream === true) await this.stream(request, body, reply, left.signal, answer);
      else await reply.status(200).send((await answer(request, body, left.signal)).whole());
    } finally {
      reply.raw.off('close', onClose);
    }
  }

  private async stream(
    request: ApiRequest,
    body: ChatRequestDto,
    reply: FastifyReply,
    signal: AbortSignal,
    answer: (request: ApiRequest, body: ChatRequestDto, signal: AbortSignal, sink: ChunkSink) => Promise<Finished>,
  ): Promise<void> {
    const response = reply.raw;
    const chunks = new ChatReply(body.model);
    let begun = false;
    const begin = (model: string) => {
      if (begun) return;
      begun = true;
      chunks.model = model;
      reply.hijack();
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) response.setHeader(name, value);
      chunks.begin(response);
    };
    try {
      const finished = await answer(request, body, signal, {
        begin,
        text: (text) => chunks.text(response, text),
        reasoning: (text) => chunks.reasoning(response, text),
      });
      begin(body.model);
      finished.rest(chunks, response);
      chunks.end(response, finished.finishReason, body.stream_options?.include_usage ? finished.usage : undefined);
    } catch (error) {
      // Before the first chunk the error still has a status of its own.
      if (!begun) throw error;
      if (!response.destroyed) chunks.fail(response, YardError.from(error), request.traceId);
    }
  }

  private async chat(
    request: ApiRequest,
    body: ChatRequestDto,
    signal: AbortSignal,
    sink?: ChunkSink,
  ): Promise<Finished> {
    const answer = await this.completions.ask(request, body, signal, sink);
    return {
      whole: () => this.completions.whole(answer),
      rest(chunks, response) {
        if (answer.unsent !== '') chunks.text(response, answer.unsent);
        for (const call of answer.calls) chunks.call(response, call);
      },
      finishReason: finishReasonOf(answer.end.finishReason, answer.calls.length),
      usage: usageOf(answer.end),
    };
  }

  private async agent(
    request: ApiRequest,
    body: ChatRequestDto,
    signal: AbortSignal,
    started: () => void,
    sink?: ChunkSink,
  ): Promise<Finished> {
    const run = await this.agents.ask(request, body, signal, started, sink);
    const finishReason = run.state === 'incomplete' ? 'length' : 'stop';
    return {
      whole: () =>
        new ChatReply(body.model).whole({
          text: run.output ?? '',
          reasoning: '',
          calls: [],
          finishReason,
          usage: run,
          extra: { run_id: run.id, conversation_id: run.conversation },
        }),
      rest: () => undefined,
      finishReason,
      usage: run,
    };
  }
}

interface Finished {
  whole(): unknown;
  /** Sends what was kept until the end. */
  rest(chunks: ChatReply, response: ServerResponse): void;
  finishReason: string;
  usage: { promptTokens: number; completionTokens: number; cachedTokens?: number; reasoningTokens?: number };
}
