import { Body, Controller, HttpCode, Inject, Post, Req } from '@nestjs/common';
import { ApiBearerAuth, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { type Bus } from '@yardmaster/bus';
import { newId, Router } from '@yardmaster/contracts';
import { BUS } from '@yardmaster/service-kit';
import { IsArray, IsIn, IsOptional, IsString, MaxLength } from 'class-validator';
import { Needs } from '../auth/roles.guard.js';
import { ApiConfig } from '../config.js';
import type { ApiRequest } from '../http/request.js';
import { Obeys } from '../http/rules.js';

const isText = (value: unknown) => typeof value === 'string' && value !== '';

export class EmbeddingsDto {
  static readonly open = true;

  @ApiProperty()
  @IsString()
  @MaxLength(200)
  model!: string;

  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' }, maxItems: 2048 }] })
  @Obeys(
    'must be text or up to 2048 texts, none of them empty',
    (value) =>
      isText(value) || (Array.isArray(value) && value.length > 0 && value.length <= 2048 && value.every(isText)),
  )
  input!: string | string[];

  @ApiPropertyOptional({ enum: ['float', 'base64'], default: 'float' })
  @IsOptional()
  @IsIn(['float', 'base64'])
  encoding_format?: 'float' | 'base64';

  @ApiPropertyOptional()
  @IsOptional()
  @IsString()
  user?: string;

  @ApiPropertyOptional({ type: [String], description: 'Ours: providers to use, in order.' })
  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  providers?: string[];
}

/** OpenAI's embeddings. */
@ApiTags('openai')
@ApiBearerAuth()
@Controller('v1/embeddings')
export class EmbeddingsController {
  constructor(
    @Inject(BUS) private readonly bus: Bus,
    private readonly config: ApiConfig,
  ) {}

  @Post()
  @HttpCode(200)
  @Needs('runs:write')
  @ApiOperation({ summary: 'Vectors of texts' })
  async embed(@Req() request: ApiRequest, @Body() body: EmbeddingsDto) {
    const inputs = typeof body.input === 'string' ? [body.input] : body.input;
    const answer = await this.bus.request(
      Router.embed,
      request.caller.tenant,
      { requestId: newId(), model: body.model, inputs, providers: body.providers ?? [] },
      { timeoutMs: this.config.modelTimeoutMs, trace: request.trace },
    );
    const prompt = answer.usage?.promptTokens ?? 0;
    return {
      object: 'list',
      data: answer.vectors.map(({ values }, index) => ({
        object: 'embedding',
        index,
        embedding: body.encoding_format === 'base64' ? base64(values) : values,
      })),
      model: answer.model,
      usage: { prompt_tokens: prompt, total_tokens: prompt },
    };
  }
}

/** 32-bit floats, little-endian: what the official client asks for and decodes. */
function base64(values: number[]): string {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [i, value] of values.entries()) bytes.writeFloatLE(value, i * 4);
  return bytes.toString('base64');
}
