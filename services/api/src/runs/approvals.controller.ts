import { Body, Controller, Get, HttpCode, Param, Post } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { ConversationStore, type PendingCall, type RunRecord } from '@yardmaster/conversation';
import { parseExactJson } from '@yardmaster/contracts';
import { ArrayMaxSize, IsArray, IsIn, IsOptional, IsString, Matches, MaxLength } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { type Caller, CurrentCaller } from '../http/request.js';
import { Nested, Obeys } from '../http/rules.js';
import { RunsService } from './runs.service.js';

const isStringMap = (value: unknown, most: number) =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.keys(value).length <= most &&
  Object.entries(value).every(
    ([pointer, pattern]) => pointer.startsWith('/') && typeof pattern === 'string' && pattern.length <= 500,
  );

export class ScopeDto {
  @ApiPropertyOptional({
    type: 'object',
    additionalProperties: { type: 'string' },
    description: 'Patterns by JSON pointer; each has to match all of the argument, and every argument has to have one.',
  })
  @IsOptional()
  @Obeys('must be patterns of at most 500 characters by JSON pointer, at most 20', (value) => isStringMap(value, 20))
  arguments?: Record<string, string>;

  @ApiPropertyOptional({
    type: [String],
    description: 'Hosts that calls may talk to, with their port if it is not the usual one.',
  })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(50)
  @IsString({ each: true })
  @MaxLength(300, { each: true })
  hosts?: string[];
}

export class DecisionDto {
  @ApiProperty({ enum: ['approve', 'deny'] })
  @IsIn(['approve', 'deny'])
  decision!: 'approve' | 'deny';

  @ApiPropertyOptional({ maxLength: 2000, description: 'The model reads it when the call is denied.' })
  @IsOptional()
  @IsString()
  @MaxLength(2000)
  reason?: string;

  @ApiPropertyOptional({ enum: ['call', 'session', 'always'], default: 'call' })
  @IsOptional()
  @IsIn(['call', 'session', 'always'])
  remember?: 'call' | 'session' | 'always';

  @ApiPropertyOptional({
    type: ScopeDto,
    description: 'What is remembered; absent: these arguments, these hosts, or for tools that write any call.',
  })
  @IsOptional()
  @Nested(ScopeDto)
  scope?: ScopeDto;

  @ApiProperty({ description: 'Of the approval that was read: a decision is about exactly these arguments.' })
  @Matches(/^[0-9a-f]{16,128}$/, { message: '$property must be the args_hash of the approval' })
  args_hash!: string;
}

/** Calls of a run that a person has to decide on. */
@ApiTags('runs')
@ApiBearerAuth()
@Controller('v1/runs/:id/approvals')
export class ApprovalsController {
  constructor(
    private readonly store: ConversationStore,
    private readonly runs: RunsService,
  ) {}

  @Get()
  @Needs('runs:read')
  @ApiOperation({ summary: 'Calls that wait for a decision, and those decided on since the last step' })
  async list(@CurrentCaller() caller: Caller, @Param('id') id: string) {
    const record = await this.store.getRun(caller.tenant, id);
    return {
      items: record.pending.filter((call) => call.approval !== undefined).map((call) => approvalView(record, call)),
      next_cursor: null,
    };
  }

  @Post(':call')
  @HttpCode(200)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Approve or deny a call; the first decision counts' })
  async decide(
    @CurrentCaller() caller: Caller,
    @Param('id') id: string,
    @Param('call') call: string,
    @Body() body: DecisionDto,
  ) {
    const record = await this.store.getRun(caller.tenant, id);
    await this.store.decide(record, call, {
      decision: body.decision,
      argsHash: body.args_hash,
      by: caller.keyId,
      ...(body.reason !== undefined && { reason: body.reason }),
      ...(body.remember !== undefined && { remember: body.remember }),
      ...(body.scope !== undefined && { scope: { ...body.scope } }),
    });
    await this.runs.wake(record, 'approval');
    const after = await this.store.getRun(caller.tenant, id);
    const pending = record.pending.find((entry) => entry.call === call)!;
    return approvalView(after, pending);
  }
}

function approvalView(record: RunRecord, call: PendingCall) {
  const decision = record.decisions[call.call];
  return {
    run_id: record.id,
    call: call.call,
    tool: call.name,
    arguments: parseExactJson(call.argumentsJson),
    args_hash: call.argsHash,
    effect: call.effect,
    state: decision === undefined ? call.approval : decision.decision === 'approve' ? 'approved' : 'denied',
    reason: decision?.reason ?? call.approvalReason ?? null,
    decided_by: decision?.by ?? null,
    expires_at: call.approvalExpiresMs === undefined ? null : new Date(call.approvalExpiresMs).toISOString(),
  };
}
