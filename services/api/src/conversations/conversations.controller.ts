import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type Conversation, ConversationStore } from '@yardmaster/conversation';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, MaxLength, Min } from 'class-validator';
import type { FastifyReply } from 'fastify';
import { Needs } from '../auth/roles.guard.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { PageQuery } from '../http/page.query.js';
import { KnownNames } from '../runs/known-names.js';
import { Summaries } from './summaries.js';

export class MessagesQuery {
  @ApiPropertyOptional({ minimum: 0, description: 'Messages after this sequence number.' })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(0)
  after?: number;

  @ApiPropertyOptional({ minimum: 1, maximum: 500, default: 100 })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(500)
  limit?: number;
}

export class CompactDto {
  @ApiProperty({ minimum: 1, description: 'Last message that the summary stands for.' })
  @IsInt()
  @Min(1)
  up_to_seq!: number;

  @ApiPropertyOptional({ maxLength: 100_000, description: 'The summary; a model writes it when it is absent.' })
  @IsOptional()
  @IsString()
  @MaxLength(100_000)
  summary?: string;

  @ApiPropertyOptional({ description: 'Model that writes the summary.' })
  @IsOptional()
  @IsString()
  @MaxLength(200)
  model?: string;
}

@ApiTags('conversations')
@ApiBearerAuth()
@Controller('v1/conversations')
export class ConversationsController {
  constructor(
    private readonly store: ConversationStore,
    private readonly summaries: Summaries,
    private readonly known: KnownNames,
  ) {}

  @Post()
  @Needs('runs:write')
  @ApiOperation({ summary: 'Make an empty conversation' })
  async create(@CurrentCaller() caller: Caller, @Res({ passthrough: true }) reply: FastifyReply) {
    const conversation = await this.store.createConversation(caller.tenant);
    void reply.header('location', `/v1/conversations/${conversation.id}`);
    return conversationView(conversation);
  }

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'Conversations, newest first' })
  async list(@CurrentCaller() caller: Caller, @Query() query: PageQuery) {
    const page = await this.store.listConversations(caller.tenant, {
      ...(query.cursor !== undefined && { cursor: query.cursor }),
      ...(query.limit !== undefined && { limit: query.limit }),
    });
    return { items: page.items.map(conversationView), next_cursor: page.nextCursor ?? null };
  }

  @Get(':id')
  @Needs('runs:read')
  @ApiOperation({ summary: 'One conversation' })
  async get(@CurrentCaller() caller: Caller, @Param('id') id: string) {
    return conversationView(await this.known.conversation(caller, id));
  }

  @Delete(':id')
  @HttpCode(204)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Delete a conversation that no run works on' })
  async delete(@CurrentCaller() caller: Caller, @Param('id') id: string): Promise<void> {
    await this.store.deleteConversation({ tenant: caller.tenant, conversation: id });
  }

  @Get(':id/messages')
  @Needs('runs:read')
  @ApiOperation({ summary: 'Messages of a conversation, oldest first' })
  async messages(@CurrentCaller() caller: Caller, @Param('id') id: string, @Query() query: MessagesQuery) {
    const conversation = await this.known.conversation(caller, id);
    const items = await this.store.listItems(
      { tenant: caller.tenant, conversation: id },
      { afterSeq: query.after ?? 0, limit: query.limit ?? 100 },
    );
    const last = items.at(-1)?.seq;
    return {
      items: items.map(({ seq, json }) => ({ seq, ...(JSON.parse(json) as Record<string, unknown>) })),
      next_cursor: last !== undefined && last < conversation.seq ? String(last) : null,
    };
  }

  @Post(':id/compact')
  @HttpCode(200)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Let a summary stand for the beginning of a conversation' })
  async compact(@CurrentCaller() caller: Caller, @Param('id') id: string, @Body() body: CompactDto) {
    await this.known.conversation(caller, id);
    const ref = { tenant: caller.tenant, conversation: id };
    const summary = body.summary ?? (await this.summaries.write(ref, body.up_to_seq, body.model));
    await this.store.compact({
      ...ref,
      upToSeq: body.up_to_seq,
      summary: { type: 'chat', role: 'user', content: `Summary of the conversation so far:\n${summary}` },
    });
    return { ...conversationView(await this.store.getConversation(caller.tenant, id)), summary };
  }
}

const conversationView = (conversation: Conversation) => ({
  id: conversation.id,
  object: 'conversation',
  created_at: new Date(conversation.createdMs).toISOString(),
  messages: conversation.seq,
  bytes: conversation.bytes,
  active_run: conversation.activeRun ?? null,
  compacted_up_to: conversation.compactedUpTo ?? null,
});
