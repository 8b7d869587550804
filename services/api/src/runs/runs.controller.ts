import { Body, Controller, Get, Headers, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiHeader, ApiOperation, ApiPropertyOptional, ApiResponse, ApiTags } from '@nestjs/swagger';
import { YardError } from '@yardmaster/contracts';
import { ConversationStore, isTerminal, RUN_STATES, type RunRecord, type RunState } from '@yardmaster/conversation';
import { Type } from 'class-transformer';
import { IsIn, IsInt, IsOptional, IsString, Matches, Max, MaxLength, Min } from 'class-validator';
import type { FastifyReply } from 'fastify';
import { Needs } from '../auth/roles.guard.js';
import { TenantKeys } from '../auth/tenant-keys.js';
import { ApiConfig } from '../config.js';
import { PageQuery } from '../http/page.query.js';
import { type ApiRequest, type Caller, CurrentCaller } from '../http/request.js';
import { Obeys } from '../http/rules.js';
import { SSE_HEADERS, streamEvents } from './event-stream.js';
import { KnownNames } from './known-names.js';
import { RunFeeds } from './run-feeds.js';
import { runView } from './run-view.js';
import { RunsService } from './runs.service.js';
import { StartRunDto } from './start-run.dto.js';

const EVENT_STREAM = {
  'text/event-stream': { schema: { $ref: '#/components/schemas/RunEvent' } },
  'application/json': { schema: { $ref: '#/components/schemas/RunEventPage' } },
};

export class ListRunsQuery extends PageQuery {
  @ApiPropertyOptional({ format: 'uuid' })
  @IsOptional()
  @IsString()
  @MaxLength(64)
  conversation_id?: string;

  @ApiPropertyOptional({ enum: RUN_STATES })
  @IsOptional()
  @IsIn(RUN_STATES)
  state?: RunState;

  @ApiPropertyOptional()
  @IsOptional()
  @Matches(/^[a-z0-9][a-z0-9_-]{0,39}$/, { message: '$property must be the name of an agent' })
  agent?: string;
}

export class EventsQuery {
  @ApiPropertyOptional({ minimum: 0, description: 'Events after this number; the header Last-Event-ID wins.' })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(0)
  after?: number;

  @ApiPropertyOptional({ minimum: 1, maximum: 1000, default: 200, description: 'For pages.' })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(1000)
  limit?: number;
}

export class CancelRunDto {
  @ApiPropertyOptional({ maxLength: 500 })
  @IsOptional()
  @IsString()
  @MaxLength(500)
  reason?: string;
}

export class SteerRunDto {
  @ApiPropertyOptional({ maxLength: 100_000, description: 'What the agent reads before its next step.' })
  @Obeys(
    'must be text, not empty, at most 100000 characters',
    (value) => typeof value === 'string' && value.trim() !== '' && value.length <= 100_000,
  )
  text!: string;
}

@ApiTags('runs')
@ApiBearerAuth()
@Controller('v1/runs')
export class RunsController {
  constructor(
    private readonly runs: RunsService,
    private readonly store: ConversationStore,
    private readonly feeds: RunFeeds,
    private readonly config: ApiConfig,
    private readonly keys: TenantKeys,
    private readonly known: KnownNames,
  ) {}

  @Post()
  @Needs('runs:write')
  @ApiOperation({ summary: 'Start a run' })
  @ApiHeader({
    name: 'Idempotency-Key',
    required: false,
    description: 'The same key and body get the same run, for 24 hours.',
  })
  @ApiResponse({ status: 201, description: 'The run.', schema: { $ref: '#/components/schemas/Run' } })
  @ApiResponse({ status: 200, description: 'With `stream`: its events as they come.', content: EVENT_STREAM })
  async start(
    @CurrentCaller() caller: Caller,
    @Body() body: StartRunDto,
    @Headers('idempotency-key') idempotencyKey: string | undefined,
    @Req() request: ApiRequest,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey))
      throw new YardError('INVALID', 'YM-REQ-INVALID', 'Idempotency-Key must be 1 to 255 printable ASCII characters.');
    const record = await this.runs.start(caller, body, { idempotencyKey, trace: request.trace });
    const location = `/v1/runs/${record.id}`;
    if (body.stream !== true) {
      await reply.status(201).header('location', location).send(runView(record));
      return;
    }
    await this.stream(caller, record.id, 0, reply, { location });
  }

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'Runs, newest first' })
  @ApiResponse({ status: 200, schema: { $ref: '#/components/schemas/RunPage' } })
  async list(@CurrentCaller() caller: Caller, @Query() query: ListRunsQuery) {
    if (query.conversation_id !== undefined) await this.known.conversation(caller, query.conversation_id);
    const page = await this.store.listRuns(caller.tenant, {
      ...(query.conversation_id !== undefined && { conversation: query.conversation_id }),
      ...(query.state !== undefined && { state: query.state }),
      ...(query.agent !== undefined && { agent: query.agent }),
      ...(query.cursor !== undefined && { cursor: query.cursor }),
      ...(query.limit !== undefined && { limit: query.limit }),
    });
    return { items: page.items.map(runView), next_cursor: page.nextCursor ?? null };
  }

  @Get(':id')
  @Needs('runs:read')
  @ApiOperation({ summary: 'One run' })
  @ApiResponse({ status: 200, schema: { $ref: '#/components/schemas/Run' } })
  async get(@CurrentCaller() caller: Caller, @Param('id') id: string) {
    return runView(await this.store.getRun(caller.tenant, id));
  }

  @Get(':id/events')
  @Needs('runs:read')
  @ApiOperation({
    summary: 'Events of a run: a stream (SSE) that can be taken up again, or a page with Accept: application/json',
  })
  @ApiHeader({ name: 'Last-Event-ID', required: false })
  @ApiResponse({ status: 200, content: EVENT_STREAM })
  @ApiResponse({ status: 204, description: 'The run has ended and there is nothing after that number.' })
  async events(
    @CurrentCaller() caller: Caller,
    @Param('id') id: string,
    @Query() query: EventsQuery,
    @Headers('last-event-id') lastEventId: string | undefined,
    @Headers('accept') accept: string | undefined,
    @Res() reply: FastifyReply,
  ): Promise<void> {
    if (lastEventId !== undefined && !/^\d{1,15}$/.test(lastEventId))
      throw new YardError('INVALID', 'YM-REQ-INVALID', 'Last-Event-ID must be the number of an event.');
    const after = lastEventId === undefined ? (query.after ?? 0) : Number(lastEventId);
    if (accept?.includes('application/json') && !accept.includes('text/event-stream')) {
      await this.store.getRun(caller.tenant, id);
      const limit = query.limit ?? 200;
      const found = await this.feeds.using(caller.tenant, id, (feed) => feed.read(after, limit + 1));
      const items = found.slice(0, limit);
      await reply.send({ items, next_cursor: found.length > limit ? String(items.at(-1)!.id) : null });
      return;
    }
    await this.stream(caller, id, after, reply);
  }

  @Post(':id/cancel')
  @HttpCode(202)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Cancel a run, and the command that it runs' })
  @ApiResponse({ status: 202, description: 'It will end.', schema: { $ref: '#/components/schemas/Run' } })
  async cancel(@CurrentCaller() caller: Caller, @Param('id') id: string, @Body() body: CancelRunDto) {
    return runView(await this.runs.cancel(caller.tenant, id, body.reason));
  }

  @Post(':id/messages')
  @HttpCode(202)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Say something to the running agent' })
  async steer(@CurrentCaller() caller: Caller, @Param('id') id: string, @Body() body: SteerRunDto) {
    return { run_id: id, n: await this.runs.steer(caller.tenant, id, body.text) };
  }

  private async stream(
    caller: Caller,
    id: string,
    after: number,
    reply: FastifyReply,
    headers: Record<string, string> = {},
  ): Promise<void> {
    const record = await this.store.getRun(caller.tenant, id);
    await this.feeds.counted(caller.tenant, this.config.streamsPerTenant, () =>
      this.follow(caller, record, after, reply, headers),
    );
  }

  private async follow(
    caller: Caller,
    record: RunRecord,
    after: number,
    reply: FastifyReply,
    headers: Record<string, string>,
  ): Promise<void> {
    await this.feeds.using(caller.tenant, record.id, async (feed) => {
      const over = feed.terminal?.id ?? (isTerminal(record.state) && isOld(record.endedMs) ? feed.last : undefined);
      if (over !== undefined && after >= over) {
        await reply.status(204).header('cache-control', 'no-cache').send();
        return;
      }
      reply.hijack();
      const response = reply.raw;
      for (const [name, value] of Object.entries(reply.getHeaders()))
        if (value !== undefined) response.setHeader(name, value);
      response.writeHead(200, { ...SSE_HEADERS, ...headers });
      await streamEvents(response, feed, after, {
        keepAliveMs: this.config.sseKeepAliveMs,
        bufferBytes: this.config.sseBufferBytes,
        stalledMs: this.config.sseStalledMs,
        isAllowed: () => this.keys.isLive(caller),
      });
    });
  }
}

/** Between the last write of a run and its terminal event lies a moment; after this long the event will not come. */
const isOld = (endedMs: number | undefined) => endedMs !== undefined && Date.now() - endedMs > 3_600_000;
